"""Whole files of every format, to be mutated: small networks, and one file per operation where tests have them."""

from __future__ import annotations

import json
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import anylayer

from .networks import SMALL, input_, layer

DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class Sample:
    """The files of a model by name. `model` is the one to read, `weights` the one given with it, `kind` the
    format's name.
    """

    kind: str
    files: dict[str, bytes]
    model: str
    weights: str | None = None


def kinds() -> list[str]:
    """Return the kinds of files."""
    return sorted(_SOURCES)


@cache
def samples(kind: str) -> list[Sample]:
    """Return the samples of a kind, always in the same order."""
    return [sample for sample in _of(_SOURCES[kind]) if sample.kind == kind]


@cache
def _of(source: Callable[[], Iterator[Sample]]) -> list[Sample]:
    return list(source())


# ----------------------------------------------------------------------- Caffe

_FILLERS = 'weight_filler { type: "gaussian" std: 0.1 } bias_filler { type: "constant" value: 0.1 }'


def _convolution(name: str, bottom: str, more: str = "") -> str:
    params = f"convolution_param {{ num_output: 4 kernel_size: 3 pad: 1 {more} {_FILLERS} }}"
    return layer("Convolution", params, [bottom], [name], name)


def _product(name: str, bottom: str) -> str:
    params = f"inner_product_param {{ num_output: 5 {_FILLERS} }}"
    return layer("InnerProduct", params, [bottom], [name], name)


_PRIORS = "prior_box_param { min_size: 3 max_size: 5 aspect_ratio: 2 flip: true variance: 0.1 }"
_DETECTION = """detection_output_param { num_classes: 2 share_location: true background_label_id: 0
nms_param { nms_threshold: 0.4 top_k: 10 } keep_top_k: 5 confidence_threshold: 0.1 }"""

CAFFE = {
    "classifier": SMALL
    + _convolution("a", "data")
    + layer("BatchNorm", "", ["a"], ["b"], "b")
    + layer("Scale", "scale_param { bias_term: true }", ["b"], ["b"], "c")
    + layer("ReLU", "", ["b"], ["b"], "d")
    + layer("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }", ["b"], ["e"], "e")
    + layer("LRN", "lrn_param { local_size: 3 alpha: 0.001 }", ["e"], ["f"], "f")
    + _product("g", "f")
    + layer("Softmax", "", ["g"], ["prob"], "prob"),
    "branches": SMALL
    + _convolution("a", "data")
    + _convolution("b", "data", "stride: 1 dilation: 1")
    + layer("Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -1 }", ["a", "b"], ["c"], "c")
    + layer("Concat", "concat_param { axis: 1 }", ["c", "data"], ["d"], "d")
    + layer("Slice", "slice_param { axis: 1 slice_point: 3 }", ["d"], ["e", "f"], "s")
    + layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", ["f"], ["g"], "g")
    + layer("Flatten", "flatten_param { axis: 1 }", ["g"], ["h"], "h")
    + layer("Power", "power_param { power: 2 scale: 0.5 shift: 1 }", ["e"], ["i"], "i"),
    "upwards": SMALL
    + layer(
        "Deconvolution",
        f"convolution_param {{ num_output: 3 kernel_size: 2 stride: 2 {_FILLERS} }}",
        ["data"],
        ["a"],
    )
    + layer("Interp", "interp_param { height: 12 width: 12 }", ["a"], ["b"], "b")
    + layer("Crop", "crop_param { axis: 2 offset: 1 }", ["b", "data"], ["c"], "c")
    + layer("PReLU", "", ["c"], ["d"], "d")
    + layer("Normalize", "norm_param { across_spatial: false }", ["d"], ["e"], "e")
    + layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }", ["e"], ["f"], "f"),
    "detector": SMALL
    + layer("PriorBox", _PRIORS, ["data", "data"], ["p"], "p")
    + input_(1, 1024, name="loc")
    + input_(1, 512, name="conf")
    + layer("DetectionOutput", _DETECTION, ["loc", "conf", "p"], ["y"], "y"),
    "sequence": input_(4, 1, 3)
    + input_(4, 1, name="cont")
    + layer("LSTM", f"recurrent_param {{ num_output: 4 {_FILLERS} }}", ["data", "cont"], ["a"], "a")
    + layer("Tile", "tile_param { axis: 2 tiles: 2 }", ["a"], ["b"], "b")
    + layer("Reduction", "reduction_param { operation: SUM axis: 2 }", ["b"], ["c"], "c"),
    "V1": 'input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n'
    'layers { name: "a" type: CONVOLUTION bottom: "data" top: "a" blobs_lr: 1 blobs_lr: 2 '
    "convolution_param { num_output: 2 kernel_size: 3 } }\n"
    'layers { name: "b" type: RELU bottom: "a" top: "a" }\n'
    'layers { name: "c" type: POOLING bottom: "a" top: "c" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }',
    "V0": 'input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n'
    'layers { layer { name: "a" type: "conv" num_output: 2 kernelsize: 3 } bottom: "data" top: "a" }\n'
    'layers { layer { name: "b" type: "pool" kernelsize: 2 stride: 2 } bottom: "a" top: "b" }',
    "training": 'layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TRAIN } '
    "data_param { batch_size: 2 } transform_param { scale: 0.5 crop_size: 4 mean_value: 3 } }\n"
    + SMALL.replace("layer {", "layer { include { phase: TEST }")
    + _product("ip", "data")
    + layer("SoftmaxWithLoss", "include { phase: TRAIN }", ["ip", "label"], ["loss"], "loss"),
}


def _caffe() -> Iterator[Sample]:
    """Yield Caffe networks as text, with weights, as weights only, and written as ONNX, IR and Caffe."""
    for name, text in CAFFE.items():
        yield Sample("prototxt", {"deploy.prototxt": text.encode()}, "deploy.prototxt")
        with tempfile.TemporaryDirectory() as folder:
            yield from _written(Path(folder), name, text)


def _written(folder: Path, name: str, text: str) -> Iterator[Sample]:
    path = folder / "deploy.prototxt"
    path.write_text(text)
    for suffix in (".prototxt", ".onnx", ".xml"):
        net = anylayer.read(path).fill()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                files = net.write(folder / f"o{suffix}", verify=False).files
        except anylayer.AnyLayerError:
            continue  # not every network can be written in every format
        made = {f.name: f.read_bytes() for f in files}
        if suffix == ".onnx":
            yield Sample("onnx", {"m.onnx": made["o.onnx"]}, "m.onnx")
        elif suffix == ".xml":
            yield Sample("ir", {"m.xml": made["o.xml"], "m.bin": made["o.bin"]}, "m.xml")
        else:
            both = {"deploy.prototxt": made["o.prototxt"], "w.caffemodel": made["o.caffemodel"]}
            yield Sample("caffe", both, "deploy.prototxt", "w.caffemodel")
            yield Sample("caffemodel", {"w.caffemodel": made["o.caffemodel"]}, "w.caffemodel")
            weights = _hdf5(anylayer.read(folder / "o.prototxt", folder / "o.caffemodel"))
            if weights:
                both = {"deploy.prototxt": made["o.prototxt"], "w.caffemodel.h5": weights}
                yield Sample("caffe-h5", both, "deploy.prototxt", "w.caffemodel.h5")


def _hdf5(net: anylayer.Net) -> bytes:
    """Return the weights of a network as a .caffemodel.h5."""
    import io

    import h5py

    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        for node in net.network.nodes:
            for i, blob in enumerate(node.blobs):
                file[f"data/{node.name}/{i}"] = blob
    return held.getvalue()


# --------------------------------------------------------------------- Darknet


def _darknet() -> Iterator[Sample]:
    """Yield a network for each section, with its weights and alone."""
    from tests.layers.darknet.recorded import recorded

    revision = np.array([5], "<i4").tobytes()  # tells the order of weights of every section
    for one in recorded().values():
        weights = one.weights if one.weights[:4] != bytes(4) else one.weights[:8] + revision + one.weights[12:]
        files = {"m.cfg": one.cfg.encode(), "m.weights": weights}
        if "tree=" in one.cfg:
            files["small.tree"] = one.tree.encode()
        yield Sample("darknet", files, "m.cfg", "m.weights")
        yield Sample("darknet-alone", {n: d for n, d in files.items() if n != "m.weights"}, "m.cfg")


# ----------------------------------------------------------------------- MXNet


def _mxnet() -> Iterator[Sample]:
    """Yield a network for each operator, and some of several."""
    from tests.layers.mxnet.recorded import FILES, recorded

    for one in chain.from_iterable(recorded(file).values() for file in FILES):
        files = {"m-symbol.json": one.symbol, "m.params": one.params}
        yield Sample("mxnet", files, "m-symbol.json", "m.params" if one.params else None)


# ---------------------------------------------------------------------- TFLite


def _tflite() -> Iterator[Sample]:
    """Yield a model for each operator, and one with metadata."""
    from tests.layers.tflite.recorded import cases_of, recorded
    from tests.readers.tflite.test_metadata import MODEL

    for content in (MODEL.read_bytes(), *(one.model for one in recorded().values())):
        yield Sample("tflite", {"m.tflite": content}, "m.tflite")
    for one in cases_of("quantized.npz").values():
        yield Sample("tflite-quantized", {"m.tflite": one.model}, "m.tflite")


# ----------------------------------------------------------------------- Keras


def _keras() -> Iterator[Sample]:
    folder = DATA / "keras"
    for path in sorted(folder.glob("*.keras")):
        yield Sample("keras-zip", {"m.keras": path.read_bytes()}, "m.keras")
    for path in sorted(folder.glob("*.h5")):
        if not path.name.endswith("weights.h5"):
            yield Sample("keras-h5", {"m.h5": path.read_bytes()}, "m.h5")
    for name, weights in (("nested", "nested.weights.h5"), ("k2_nested", "k2_nested.weights.h5")):
        files = {"m.json": (folder / f"{name}.json").read_bytes(), "m.weights.h5": (folder / weights).read_bytes()}
        yield Sample("keras-json", files, "m.json", "m.weights.h5")


def _keras_operations() -> Iterator[Sample]:
    """Yield a model of one layer for each case that has results of Keras itself."""
    for path in sorted((DATA / "keras").glob("*.npz")):
        with np.load(path) as stored:
            for key in (k for k in stored if k.endswith(".json")):
                spec = json.loads(str(stored[key]))
                count = sum(k.startswith(f"{key.removesuffix('.json')}.in") for k in stored)
                inputs = [stored[f"{key.removesuffix('.json')}.in{i}"] for i in range(count)]
                yield Sample("keras-op", {"m.json": json.dumps(_one_layer(spec, inputs)).encode()}, "m.json")


def _one_layer(spec: dict[str, Any], inputs: list[Any]) -> dict[str, Any]:
    def tensor(i: int) -> dict[str, Any]:
        told = {"shape": list(inputs[i].shape), "dtype": str(inputs[i].dtype), "keras_history": [f"in{i}", 0, 0]}
        return {"class_name": "__keras_tensor__", "config": told}

    def placed(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"input"}:
            return tensor(value["input"])
        if isinstance(value, dict):
            return {key: placed(one) for key, one in value.items()}
        return [placed(one) for one in value] if isinstance(value, list) else value

    layers: list[dict[str, Any]] = [
        {
            "class_name": "InputLayer",
            "name": f"in{i}",
            "config": {"name": f"in{i}", "batch_shape": list(x.shape), "dtype": str(x.dtype), "sparse": False},
            "inbound_nodes": [],
        }
        for i, x in enumerate(inputs)
    ]
    called = {"args": placed(spec["args"]), "kwargs": placed(spec["kwargs"])}
    config = {"name": "op", "trainable": True, **spec["config"]}
    layers.append({"class_name": spec["class_name"], "name": "op", "config": config, "inbound_nodes": [called]})
    ends = {"input_layers": [[f"in{i}", 0, 0] for i in range(len(inputs))], "output_layers": [["op", 0, 0]]}
    return {"class_name": "Functional", "config": {"name": "net", "layers": layers, **ends}}


# ------------------------------------------------------------------------ ONNX


def _onnx_operators() -> Iterator[Sample]:
    """Yield the models of ONNX's own operator tests."""
    from tests.readers.onnx.node_tests import node_tests

    for case in sorted(node_tests(), key=lambda c: c.name):
        if case.model is not None and case.model.ByteSize() < 5000:
            yield Sample("onnx-node", {"m.onnx": case.model.SerializeToString()}, "m.onnx")


# ------------------------------------------------------------------ TensorFlow


def _tensorflow() -> Iterator[Sample]:
    from tests.layers.tensorflow.recorded import recorded

    for one in recorded().values():
        yield Sample("tf-op", {"m.pb": one.graph}, "m.pb")
    folder = DATA / "tensorflow"
    names = ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001")
    yield Sample("saved-model", {n: (folder / "saved_model" / n).read_bytes() for n in names}, "saved_model.pb")
    names = ("model.meta", "model.index", "model.data-00000-of-00001")
    yield Sample("checkpoint", {n: (folder / "checkpoint" / n).read_bytes() for n in names}, "model.meta")
    yield Sample("pbtxt", {"m.pbtxt": _PBTXT.encode()}, "m.pbtxt")


_PBTXT = r"""
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 1 } dim { size: 6 } dim { size: 6 } dim { size: 2 } } } } }
node { name: "w" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor {
  dtype: DT_FLOAT tensor_shape { dim { size: 3 } dim { size: 3 } dim { size: 2 } dim { size: 1 } }
  float_val: 0.5 } } } }
node { name: "conv" op: "Conv2D" input: "x" input: "w" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "strides" value { list { i: 1 i: 2 i: 2 i: 1 } } } attr { key: "padding" value { s: "SAME" } } }
node { name: "axes" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value { tensor {
  dtype: DT_INT32 tensor_shape { dim { size: 2 } } tensor_content: "\001\000\000\000\002\000\000\000" } } } }
node { name: "mean" op: "Mean" input: "conv" input: "axes" attr { key: "keep_dims" value { b: true } } }
node { name: "dim" op: "Const"
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
node { name: "split" op: "Split" input: "dim" input: "mean" attr { key: "num_split" value { i: 1 } } }
node { name: "y" op: "Relu" input: "split" }
"""


# -------------------------------------------------------------------- OpenVINO


def _irs() -> Iterator[Sample]:
    """Yield IRs of 2018 and 2019, built by hand, and current ones, written from Caffe networks."""
    from tests.readers.openvino.ir import Ir

    for version in (2, 5, 7):
        ir = Ir(version)
        ir.input("data", 1, 3, 8, 8)
        window = {"kernel-x": 3, "kernel-y": 3, "stride-x": 1, "stride-y": 1, "pad-x": 1, "pad-y": 1, "output": 4}
        window |= {"kernel": "3,3", "strides": "1,1", "pads_begin": "1,1", "pads_end": "1,1", "group": 1}
        blobs = {"weights": np.full((4, 3, 3, 3), 0.1, np.float32), "biases": np.zeros(4, np.float32)}
        ir.layer("conv", "Convolution", ["data"], [(1, 4, 8, 8)], window, blobs)
        ir.layer("relu", "ReLU", ["conv"], [(1, 4, 8, 8)])
        pool = {"kernel-x": 2, "kernel-y": 2, "stride-x": 2, "stride-y": 2, "pad-x": 0, "pad-y": 0}
        pool |= {"pool-method": "max", "kernel": "2,2", "strides": "2,2", "pads_begin": "0,0", "pads_end": "0,0"}
        ir.layer("pool", "Pooling", ["relu"], [(1, 4, 4, 4)], pool)
        ir.layer("norm", "Norm", ["pool"], [(1, 4, 4, 4)], {"local-size": 3, "alpha": 0.1, "beta": 0.75, "k": 1})
        product = {"weights": np.full((5, 64), 0.1, np.float32), "biases": np.zeros(5, np.float32)}
        ir.layer("fc", "FullyConnected", ["norm"], [(1, 5)], {"out-size": 5}, product)
        ir.layer("prob", "SoftMax", ["fc"], [(1, 5)], {"axis": 1})
        files = {"m.xml": ir.text().encode(), "m.bin": bytes(ir.weights)}
        yield Sample("ir-legacy", files, "m.xml")


# --------------------------------------------------------- libraries and requests


def _libraries() -> Iterator[Sample]:
    """Yield a library that is not one of layers: its file is checked, and it is not loaded."""
    found = sorted(Path(np.__file__).parent.rglob("*.so"), key=lambda path: path.stat().st_size)
    for path in found[:1]:
        yield Sample("library", {"m.so": path.read_bytes()}, "m.so")


def _requests() -> Iterator[Sample]:
    """Yield requests to a server: JSON with values, with binary values, and with pictures."""
    values: dict[str, Any] = {"name": "data", "shape": [1, 3, 8, 8], "datatype": "FP32", "data": [0.5] * 192}
    plain = {"id": "7", "inputs": [values], "outputs": [{"name": "relu", "parameters": {"binary_data": True}}]}
    yield Sample("request", {"m.json": json.dumps(plain).encode()}, "m.json")
    pixels = b"BM" + struct.pack("<IIIIiiHHIIIIII", 246, 0, 54, 40, 8, 8, 1, 24, 0, 192, 0, 0, 0, 0) + bytes(192)
    picture = len(pixels).to_bytes(4, "little") + pixels
    for kind, shape, data in (("FP32", [1, 3, 8, 8], bytes(768)), ("BYTES", [2], 2 * picture)):
        tensor = {"name": "data", "shape": shape, "datatype": kind, "parameters": {"binary_data_size": len(data)}}
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        yield Sample("request", {"m.request": len(head).to_bytes(4, "little") + head + data}, "m.request")


_SOURCES: dict[str, Callable[[], Iterator[Sample]]] = {
    **dict.fromkeys(("prototxt", "caffe", "caffemodel", "caffe-h5", "onnx", "ir"), _caffe),
    **dict.fromkeys(("darknet", "darknet-alone"), _darknet),
    "mxnet": _mxnet,
    "tflite": _tflite,
    "tflite-quantized": _tflite,
    **dict.fromkeys(("keras-zip", "keras-h5", "keras-json"), _keras),
    "keras-op": _keras_operations,
    "onnx-node": _onnx_operators,
    **dict.fromkeys(("tf-op", "saved-model", "checkpoint", "pbtxt"), _tensorflow),
    "ir-legacy": _irs,
    "library": _libraries,
    "request": _requests,
}
"""Kind of file -> the function that yields its samples."""
