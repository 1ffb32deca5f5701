"""Convert networks of every reader with every writer: all formats, and the variants of each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import anylayer
from anylayer.api import Net
from anylayer.readers import readers
from anylayer.writers import writers
from anylayer.writers.caffe.dialects import DIALECTS
from tests.layers.harness import noise
from tests.layers.mxnet.recorded import recorded as recorded_of_mxnet
from tests.layers.tflite.recorded import recorded
from tests.readers.openvino.from_caffe import spell
from tests.readers.tensorflow.files import const, graph, node, placeholder

DATA = Path(__file__).parent / "data"

DEPLOY = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 bias_term: false %s } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" relu_param { negative_slope: 0.1 } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 5 %s } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""

OLD = """
input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 } }
layers { name: "relu" type: RELU bottom: "conv" top: "conv" }
"""

BOXES = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "norm" type: "Normalize" bottom: "data" top: "norm"
  norm_param { across_spatial: false channel_shared: false scale_filler { type: "constant" value: 20 } } }
layer { name: "conv" type: "Convolution" bottom: "norm" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 } }
layer { name: "flat" type: "Flatten" bottom: "conv" top: "flat" }
"""

CFG = """
[net]
height=8
width=8
channels=3
[convolutional]
batch_normalize=1
filters=4
size=3
stride=1
pad=1
activation=leaky
[maxpool]
size=2
stride=2
[connected]
output=5
activation=linear
[softmax]
"""


def weights() -> dict[str, list[np.ndarray]]:
    return {"conv": [noise(4, 3, 3, 3)], "fc": [noise(5, 64, seed=1), noise(5, seed=2)]}


def deploy(folder: Path) -> Net:
    """Write the small network with the weights of `weights`."""
    (folder / "deploy.prototxt").write_text(DEPLOY % ("", ""))
    net = anylayer.read(folder / "deploy.prototxt")
    for each in net.network.nodes:
        each.blobs = weights().get(each.name, [])
    return net


def model(folder: Path) -> Path:
    """Write the small network as a prototxt with a .caffemodel and a .proto beside it."""
    return deploy(folder).write(folder / "small.prototxt", verify=False).files[-1]


def filled(folder: Path, text: str, **options: str) -> Net:
    (folder / "net.prototxt").write_text(text)
    return anylayer.read(folder / "net.prototxt", **options).fill()


def with_fillers(folder: Path) -> Net:
    filler = 'weight_filler { type: "constant" value: 0.25 }'
    (folder / "net.prototxt").write_text(DEPLOY % (filler, filler))
    return anylayer.read(folder / "net.prototxt")


def hdf5_weights(folder: Path) -> Net:
    with h5py.File(folder / "net.caffemodel.h5", "w") as file:
        for layer, blobs in weights().items():
            for i, blob in enumerate(blobs):
                file[f"data/{layer}/{i}"] = blob
    deploy(folder)
    return anylayer.read(folder / "deploy.prototxt", folder / "net.caffemodel.h5")


def beside(folder: Path) -> Net:
    """Write an ONNX model whose weights are in a file of their own."""
    deploy(folder).write(folder / "net.onnx", verify=False, external=True)
    return anylayer.read(folder / "net.onnx")


def written(suffix: str) -> Callable[[Path], Net]:
    def made(folder: Path) -> Net:
        deploy(folder).write(folder / f"net{suffix}", verify=False)
        return anylayer.read(folder / f"net{suffix}")

    return made


def version_10(folder: Path) -> Net:
    path = deploy(folder).write(folder / "net.xml", verify=False).files[-1]
    path.write_text(path.read_text().replace('version="11"', 'version="10"', 1))
    return anylayer.read(path)


def legacy(version: int) -> Callable[[Path], Net]:
    def made(folder: Path) -> Net:
        return anylayer.read(spell(deploy(folder), version).save(folder))

    return made


def frozen(folder: Path) -> Net:
    conv = node("conv", "Conv2D", "x", "w", T="float32", strides=[1, 2, 2, 1], padding=b"\x12\x04SAME")
    parts = [placeholder("x", 1, 8, 8, 3), const("w", noise(3, 3, 3, 4)), conv, node("y", "Relu", "conv")]
    (folder / "net.pb").write_bytes(graph(*parts))
    return anylayer.read(folder / "net.pb")


def as_text(folder: Path) -> Net:
    (folder / "net.pbtxt").write_text("""
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
      attr { key: "shape" value { shape { dim { size: 1 } dim { size: 4 } } } } }
    node { name: "y" op: "Relu" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    """)
    return anylayer.read(folder / "net.pbtxt")


def copied(name: str, weights: str = "") -> Callable[[Path], Net]:
    def made(folder: Path) -> Net:
        source = DATA / name
        target = folder / source.name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
        return anylayer.read(target, DATA / weights if weights else None)

    return made


def checkpoint(folder: Path) -> Net:
    shutil.copytree(DATA / "tensorflow" / "checkpoint", folder / "checkpoint")
    return anylayer.read(folder / "checkpoint" / "model.meta")


def darknet(folder: Path) -> Net:
    (folder / "net.cfg").write_text(CFG)
    net = anylayer.read(folder / "net.cfg").fill()
    weights = [blob.reshape(-1) for node in net.network.nodes for blob in node.blobs]
    header = np.array([0, 2, 0, 0, 0], "<i4").tobytes()
    (folder / "net.weights").write_bytes(header + np.concatenate(weights).astype("<f4").tobytes())
    return anylayer.read(folder / "net.cfg", folder / "net.weights")


def tflite(name: str) -> Callable[[Path], Net]:
    def written(folder: Path) -> Net:
        (folder / "net.tflite").write_bytes(recorded()[name].model)
        return anylayer.read(folder / "net.tflite")

    return written


SOURCES: dict[str, dict[str, Callable[[Path], Net]]] = {
    "caffe": {
        "prototxt and caffemodel": deploy,
        "caffemodel alone": lambda folder: anylayer.read(model(folder).with_suffix(".caffemodel")),
        "prototxt, fillers": with_fillers,
        "prototxt, random weights": lambda folder: filled(folder, DEPLOY % ("", "")),
        "weights in hdf5": hdf5_weights,
        "version 1": lambda folder: filled(folder, OLD),
        "a fork": lambda folder: filled(folder, BOXES, dialect="ssd"),
        "a fork's caffe.proto": lambda folder: anylayer.read(
            model(folder), folder / "small.caffemodel", proto=folder / "small.proto"
        ),
    },
    "darknet": {"cfg and weights": darknet},
    "keras": {
        "Keras 3, .keras": copied("keras/nested.keras"),
        "Keras 3, .h5": copied("keras/nested.h5"),
        "Keras 3, json and weights": copied("keras/nested.json", "keras/nested.weights.h5"),
        "Keras 2, .keras": copied("keras/k2_nested.keras"),
        "Keras 2, .h5": copied("keras/k2_nested.h5"),
        "Keras 2, json and .weights.h5": copied("keras/k2_nested.json", "keras/k2_nested.weights.h5"),
        "Keras 2, json and _weights.h5": copied("keras/k2_nested.json", "keras/k2_nested_weights.h5"),
        "Keras 2, sequence": copied("keras/k2_steps.h5"),
    },
    "mxnet": {"symbol and params": lambda folder: recorded_of_mxnet()["lenet"].read(folder)},
    "onnx": {"one file": written(".onnx"), "weights beside": beside},
    "openvino": {
        "version 11": written(".xml"),
        "version 10": version_10,
        **{f"version {n}": legacy(n) for n in (2, 3, 4, 5, 6, 7)},
    },
    "tensorflow": {
        "frozen": frozen,
        "text": as_text,
        "SavedModel": copied("tensorflow/saved_model"),
        "checkpoint": checkpoint,
    },
    "tflite": {"a convolution": tflite("CONV_2D relu6"), "a product": tflite("FULLY_CONNECTED no bias")},
}
"""Reader -> variant -> a function that writes a network of it to a folder."""


def test_every_reader_has_sources() -> None:
    assert sorted(SOURCES) == readers()


@pytest.mark.one_per("reader")
@pytest.mark.one_per("writer")
@pytest.mark.parametrize("writer", sorted(writers()))
@pytest.mark.parametrize(
    ("reader", "variant"), [(reader, variant) for reader, found in SOURCES.items() for variant in found]
)
def test_convert_every_reader_to_every_writer(tmp_path: Path, reader: str, variant: str, writer: str) -> None:
    """The written file gives the same results as its source and keeps the names of inputs and outputs."""
    (tmp_path / "source").mkdir()
    net = SOURCES[reader][variant](tmp_path / "source")
    assert net.network.format == reader or variant.startswith("version")
    done = net.write(tmp_path / f"out{next(iter(writers()[writer].SUFFIXES), '')}", writer)
    assert [check.name for check in done.checks if not check.part] == list(net.outputs)
    assert all(check.ok for check in done.checks)
    *others, path = done.files
    again = anylayer.read(path, others[-1] if writer == "caffe" else None)
    assert sorted(again.inputs) == sorted(net.inputs)
    assert sorted(again.outputs) == sorted(net.outputs)


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - {""}))
def test_keras_2_converts_to_every_dialect_of_caffe(tmp_path: Path, dialect: str) -> None:
    """The file is read back in the dialect that it was written for, not in the dialect of its source."""
    net = anylayer.read(DATA / "keras" / "k2_nested.h5")
    assert net.network.dialect == "keras2"
    done = net.write(tmp_path / "net.prototxt", dialect=dialect)
    assert all(check.ok for check in done.checks)
