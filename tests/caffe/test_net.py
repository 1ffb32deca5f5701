"""anylayer.caffe.Net: weights set by layer names, and weights transferred from Keras models in memory."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
import anylayer.caffe as caffe
from anylayer.errors import AnyLayerError, InputError
from tests.layers.harness import noise

EXAMPLE = Path(__file__).parents[2] / "examples" / "keras_blog"
NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 3 kernel_size: 3 bias_filler { type: "constant" value: 0.5 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 2 bias_term:
false } }
"""


@pytest.fixture
def net(tmp_path: Path) -> caffe.Net:
    (tmp_path / "net.prototxt").write_text(NET)
    return caffe.Net(str(tmp_path / "net.prototxt"), caffe.TEST)


def test_weights_have_the_shapes_of_their_layers(net: caffe.Net) -> None:
    shapes = {name: [blob.data.shape for blob in blobs] for name, blobs in net.params.items()}
    assert shapes == {"conv": [(3, 2, 3, 3), (3,)], "ip": [(2, 12)]}
    assert net.params["conv"][1].data.tolist() == [0.5] * 3
    assert net._layer_names == ["data", "conv", "relu", "ip"]
    with pytest.raises(
        InputError, match=r"no layer with weights 'cov'; did you mean 'conv'\?; there are: conv, ip"
    ):
        net.params["cov"]


def test_weights_written_in_place_are_used_from_the_next_call(net: caffe.Net) -> None:
    x, w, v = noise(1, 2, 4, 4), noise(3, 2, 3, 3), noise(2, 12)
    want = np.maximum(np.einsum("oikl,ihwkl->ohw", w, _windows(x)) + 0.5, 0)[None]
    assert np.array_equal(net.forward(data=x)["ip"], np.zeros((1, 2), np.float32))
    net.params["conv"][0].data[...] = w
    net.params["ip"][0].data[...] = v
    net.blobs["data"].data[...] = x
    expected = want.reshape(1, -1) @ v.T
    for got in (net.forward(), net.forward(data=x), net.compile("numpy")({"data": x})):
        assert np.allclose(got["ip"], expected, atol=1e-4)
    assert np.allclose(net.blobs["ip"].data, expected, atol=1e-4)


def _windows(x: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (1, 2))


def test_saved_weights_round_trip(net: caffe.Net, tmp_path: Path) -> None:
    net.params["conv"][0].data[...] = noise(3, 2, 3, 3)
    net.save(tmp_path / "net.caffemodel")
    again = caffe.Net(tmp_path / "net.prototxt", str(tmp_path / "net.caffemodel"), caffe.TEST)
    for name, blobs in net.params.items():
        for a, b in zip(blobs, again.params[name]):
            assert np.array_equal(a.data, b.data)
    x = noise(1, 2, 4, 4)
    assert np.array_equal(net.forward(data=x)["ip"], again.forward(data=x)["ip"])
    net.write(tmp_path / "net.onnx")
    onnx = anylayer.read(tmp_path / "net.onnx").compile("numpy")({"data": x})["ip"]
    assert np.allclose(onnx, net.forward(data=x)["ip"], atol=1e-5)


def test_network_of_another_format_is_refused(tmp_path: Path, net: caffe.Net) -> None:
    with pytest.raises(InputError, match="Net takes a network's file, its weights' file and TRAIN or TEST, got"):
        caffe.Net(tmp_path / "net.prototxt", 1, 2)
    with pytest.raises(InputError, match=r"phase is TRAIN \(0\) or TEST \(1\), got 7"):
        caffe.Net(tmp_path / "net.prototxt", 7)
    with pytest.raises(InputError, match=r"model.keras is not a Caffe network; read it with anylayer.read"):
        caffe.Net(EXAMPLE / "model.keras", caffe.TEST)


class Live:
    """A mock of a Keras layer or model, with its public attributes."""

    def __init__(self, name: str, arrays: Any = (), layers: Any = (), config: str = "") -> None:
        self.name, self._arrays, self.layers, self._config = name, list(arrays), list(layers), config

    def get_weights(self) -> Any:
        return [a for layer in self.layers for a in layer.get_weights()] or self._arrays

    def to_json(self) -> str:
        if not self._config:
            raise NotImplementedError("a subclassed model")
        return self._config


def live() -> Live:
    """Return the example's model with the attributes of a Keras model."""
    net = anylayer.read(EXAMPLE / "model.keras")
    with zipfile.ZipFile(EXAMPLE / "model.keras") as archive:
        config = archive.read("config.json").decode()
    weights = {node.name: [np.array(b) for b in node.blobs] for node in net.network.nodes}
    names = [layer["config"]["name"] for layer in json.loads(config)["config"]["layers"]]
    return Live("toy", layers=[Live(name, weights.get(name, ())) for name in names], config=config)


def by_hand(tmp_path: Path) -> caffe.Net:
    """Return the example's Caffe network without weights."""
    import runpy

    network = runpy.run_path(str(EXAMPLE / "write_caffe.py"))["network"]()
    return caffe.Net(network.to_proto().save(tmp_path / "model_test.prototxt"), caffe.TEST)


def off(target: caffe.Net) -> float:
    golden = np.load(EXAMPLE / "golden.npz")
    (y,) = target.forward(**dict.fromkeys(target.inputs, golden["x"].transpose(0, 3, 1, 2))).values()
    want = golden["y"].transpose(0, 3, 1, 2)
    return float(np.abs(y - want).max() / np.abs(want).max())


def test_weights_of_a_keras_model_in_memory_are_transferred(tmp_path: Path) -> None:
    target = by_hand(tmp_path)
    report = caffe.transfer_weights(live(), target)
    assert [m.name for m in report.moved] == ["conv1", "bn1", "conv2", "bn2"]
    assert off(target) < 1e-5
    assert target.params["bn1"][2].data.tolist() == [1]


def test_recipe_that_fills_params_by_hand_works_unchanged(tmp_path: Path) -> None:
    model, target = live(), by_hand(tmp_path)
    for layer in model.layers:
        if layer.name not in target._layer_names:
            continue
        weights = layer.get_weights()
        if layer.name.startswith("conv"):
            bias = weights[1] if len(weights) > 1 else np.zeros(weights[0].shape[-1])
            target.params[layer.name][0].data[...] = np.transpose(weights[0], (3, 2, 0, 1))
            target.params[layer.name][1].data[...] = bias
        elif layer.name.startswith("bn"):
            gamma, beta, mean, variance = weights
            target.params[layer.name][0].data[...] = mean
            target.params[layer.name][1].data[...] = variance + 1e-3 - 1e-5
            target.params[layer.name][2].data[...] = 1
            target.params[f"{layer.name}_sc"][0].data[...] = gamma
            target.params[f"{layer.name}_sc"][1].data[...] = beta
    assert off(target) < 1e-5


def test_model_that_keras_cannot_describe_is_refused(tmp_path: Path) -> None:
    rule = r"Keras cannot describe its model 'own' \(to_json raises NotImplementedError: a subclassed model\)"
    with pytest.raises(InputError, match=rule):
        caffe.transfer_weights(Live("own"), by_hand(tmp_path))
    with pytest.raises(AnyLayerError, match=r"Keras' model 'own': to_json\(\) is not readable JSON"):
        caffe.transfer_weights(Live("own", config="{"), by_hand(tmp_path))
    with pytest.raises(InputError, match=r"expected a network from anylayer.read, got int"):
        caffe.transfer_weights(3, by_hand(tmp_path))
