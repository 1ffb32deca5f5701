"""Transfer of weights from Keras networks by layer names, and the example."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
import anylayer.caffe as caffe
from anylayer.caffe import NetSpec, transfer_weights
from anylayer.caffe import layers as L
from anylayer.errors import AnyLayerError
from anylayer.network import Network, Node, TensorType
from tests.layers.harness import noise

EXAMPLE = Path(__file__).parents[2] / "examples" / "keras_blog"


def keras(*nodes: Node, **inputs: tuple[int, ...]) -> Network:
    """Return a Keras network of these nodes."""
    types = {name: TensorType.of(shape) for name, shape in inputs.items()}
    return Network("k", "keras", dict(types), list(nodes), {nodes[-1].outputs[0]: nodes[-1].outputs[0]})


def node(name: str, type_: str, blobs: Any = (), **config: Any) -> Node:
    return Node(name, type_, ["x"], [name], {"config": config}, list(blobs))


def target(folder: Path, *layers: Any, shape: tuple[int, ...] = (1, 3, 6, 6)) -> anylayer.Net:
    """Read a Caffe network of these layers, each a function of the top before."""
    n = NetSpec()
    top = n.data = L.Input(shape={"dim": list(shape)})
    for layer in layers:
        top = layer(top)
        n[top.fn.params["name"]] = top
    return anylayer.read(n.to_proto().save(folder / "net.prototxt"))


def blobs_of(net: anylayer.Net, name: str) -> list[Any]:
    return next(n.blobs for n in net.network.nodes if n.name == name)


def test_kernels_are_transposed(tmp_path: Path) -> None:
    w = noise(3, 2, 3, 5)
    net = target(tmp_path, lambda x: L.Convolution(x, name="c", num_output=5, kernel_h=3, kernel_w=2))
    report = transfer_weights(keras(node("c", "Conv2D", [w])), net)
    kernel, bias = blobs_of(net, "c")
    assert kernel.shape == (5, 3, 3, 2)
    assert kernel[4, 1, 2, 0] == w[2, 0, 1, 4]
    assert (bias == 0).all(), "a bias that Keras lacks is zeros"
    assert str(report) == "c (Conv2D) -> c [5, 3, 3, 2] [5]"


def test_depthwise_and_transposed_kernels_are_transposed(tmp_path: Path) -> None:
    depthwise, transposed = noise(3, 3, 3, 2), noise(2, 2, 4, 6)
    net = target(
        tmp_path,
        lambda x: L.Convolution(x, name="d", num_output=6, group=3, kernel_size=3, bias_term=False),
        lambda x: L.Deconvolution(x, name="t", num_output=4, kernel_size=2, bias_term=False),
    )
    transfer_weights(
        keras(node("d", "DepthwiseConv2D", [depthwise]), node("t", "Conv2DTranspose", [transposed])), net
    )
    (d,), (t,) = blobs_of(net, "d"), blobs_of(net, "t")
    assert d.shape == (6, 1, 3, 3) and d[3, 0, 1, 2] == depthwise[1, 2, 1, 1]
    assert t.shape == (6, 4, 2, 2) and t[5, 3, 1, 0] == transposed[1, 0, 3, 5]


@pytest.mark.parametrize(("scale", "center"), [(True, True), (False, True), (True, False), (False, False)])
def test_batch_normalization_compensates_caffes_epsilon(tmp_path: Path, scale: bool, center: bool) -> None:
    """The stored variance compensates Caffe's epsilon, which is in its file."""
    gamma, beta, mean, variance = noise(3), noise(3, seed=1), noise(3, seed=2), np.abs(noise(3, seed=3))
    blobs = [*([gamma] if scale else []), *([beta] if center else []), mean, variance]
    net = target(
        tmp_path,
        lambda x: L.BatchNorm(x, name="b", use_global_stats=True),
        lambda x: L.Scale(x, name="other name", bias_term=True),
    )
    transfer_weights(keras(node("b", "BatchNormalization", blobs, epsilon=0.01, scale=scale, center=center)), net)
    x = noise(1, 3, 6, 6)
    (y,) = net.compile("numpy")({"data": x}).values()

    def wide(v: Any) -> Any:
        return v.reshape(1, 3, 1, 1)

    want = (x - wide(mean)) / np.sqrt(wide(variance) + 0.01)
    want = want * (wide(gamma) if scale else 1) + (wide(beta) if center else 0)
    assert np.allclose(y, want, atol=1e-5)


def test_blog_compat_adds_both_epsilons(tmp_path: Path) -> None:
    blobs = [*noise(3, 3), np.ones(3, np.float32)]
    net = target(tmp_path, lambda x: L.BatchNorm(x, name="b"), lambda x: L.Scale(x, name="b_sc", bias_term=True))
    report = transfer_weights(keras(node("b", "BatchNormalization", blobs, epsilon=1e-3)), net, blog_compat=True)
    assert np.allclose(blobs_of(net, "b")[1], 1.001, atol=1e-7)
    assert "both epsilons" in str(report)


def test_dense_weights_after_flatten_are_permuted(tmp_path: Path) -> None:
    """Keras flattens (H, W, C), Caffe (C, H, W)."""
    w = noise(2 * 3 * 4, 5)
    flat = Node("f", "Flatten", ["x"], ["f"], {"config": {}})
    dense = Node("d", "Dense", ["f"], ["d"], {"config": {"units": 5}}, [w])
    network = keras(flat, dense, x=(1, 2, 3, 4))
    net = target(tmp_path, lambda x: L.InnerProduct(x, name="d", num_output=5), shape=(1, 4, 2, 3))

    class Shaped:
        """A mock of anylayer.Net: the network and its shapes."""

        def __init__(self) -> None:
            self.network = network

        def inspect(self) -> Any:
            return type("Report", (), {"nodes": []})

    transfer_weights(Shaped(), net)
    x = noise(1, 2, 3, 4)
    (y,) = net.compile("numpy")({"data": x.transpose(0, 3, 1, 2)}).values()
    assert np.allclose(y, x.reshape(1, -1) @ w, atol=1e-5)


@pytest.mark.parametrize(
    ("source", "layer", "text"),
    [
        (
            node("c", "Conv2D", [noise(3, 3, 3, 4)]),
            lambda x: L.Convolution(x, name="c", num_output=5, kernel_size=3),
            r"layer 'c' \(Conv2D to Convolution\): has 4 outputs, but the Caffe layer has num_output=5",
        ),
        (
            node("c", "Conv2D", [noise(3, 3, 3, 4), noise(4)]),
            lambda x: L.Convolution(x, name="c", num_output=4, kernel_size=3, bias_term=False),
            "has a bias, but the Caffe layer has bias_term: false",
        ),
        (
            node("c", "Dense", [noise(3, 4)]),
            lambda x: L.Convolution(x, name="c", num_output=4, kernel_size=3),
            "needs InnerProduct in Caffe, got Convolution",
        ),
        (
            node("c", "BatchNormalization", [*noise(3, 3), np.ones(3, np.float32)]),
            lambda x: L.BatchNorm(x, name="c"),
            "has gamma and beta, but no Scale layer reads the Caffe layer",
        ),
        (
            node("c", "PReLU", [noise(6, 6, 3)]),
            lambda x: L.PReLU(x, name="c"),
            r"has slopes \[6, 6, 3\]; Caffe's PReLU has one per channel",
        ),
        (
            node("c", "GRU", [noise(3, 3)]),
            lambda x: L.PReLU(x, name="c"),
            "weights of this type cannot be transferred; write the whole network",
        ),
        (
            node("other", "Conv2D", [noise(3, 3, 3, 4)]),
            lambda x: L.PReLU(x, name="c"),
            "no layer with weights has the name of a Caffe layer; the Caffe layers are c",
        ),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, source: Node, layer: Any, text: str) -> None:
    with pytest.raises(AnyLayerError, match=text):
        transfer_weights(keras(source), target(tmp_path, layer))


def test_networks_of_other_formats_are_refused(tmp_path: Path) -> None:
    net = target(tmp_path, lambda x: L.PReLU(x, name="c"))
    with pytest.raises(AnyLayerError, match="the source is a caffe network, expected a Keras network"):
        transfer_weights(net, net)


def test_example_writes_equal_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example writes a Keras model as Caffe files, by hand and in one call; both match Keras."""
    monkeypatch.setattr(sys, "argv", ["write_caffe.py", str(tmp_path)])
    runpy.run_path(str(EXAMPLE / "write_caffe.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "bn1 (BatchNormalization) -> bn1 [8] [8] [1], bn1_sc [8] [8]" in printed
    golden = np.load(EXAMPLE / "golden.npz")
    for name in ("by_hand", "converted"):
        net = anylayer.read(tmp_path / f"{name}.prototxt", tmp_path / f"{name}.caffemodel")
        (key,) = net.inputs
        (y,) = net.compile("numpy")({key: golden["x"].transpose(0, 3, 1, 2)}).values()
        want = golden["y"].transpose(0, 3, 1, 2)
        assert np.abs(y - want).max() <= 1e-5 * np.abs(want).max()


def test_error_of_the_recipe_is_as_documented(tmp_path: Path) -> None:
    model = anylayer.read(EXAMPLE / "model.keras")
    done = model.write(tmp_path / "net.prototxt", blog_compat=True)
    assert done.unchecked == "blog_compat changes the numbers"
    golden = np.load(EXAMPLE / "golden.npz")
    net = anylayer.read(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    (y,) = net.compile("numpy")({next(iter(net.inputs)): golden["x"].transpose(0, 3, 1, 2)}).values()
    want = golden["y"].transpose(0, 3, 1, 2)
    assert 1e-6 < np.abs(y - want).max() / np.abs(want).max() < 5e-3


def test_public_names_exist() -> None:
    assert {"NetSpec", "layers", "params", "to_proto", "transfer_weights"} <= set(caffe.__all__)


# ---- a file of weights alone


PROTOTXT = """
input: "x" input_shape { dim: 2 dim: 3 dim: 6 dim: 6 }
layer { name: "stem" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "bn" type: "BatchNorm" bottom: "c" top: "c" batch_norm_param { eps: 0.001 } }
layer { name: "bn_scale" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
layer { name: "depthwise_conv2d" type: "Convolution" bottom: "c" top: "d"
        convolution_param { num_output: 4 group: 4 kernel_size: 3 } }
layer { name: "fc" type: "InnerProduct" bottom: "d" top: "y" inner_product_param { num_output: 5 } }
"""


def weights_alone(path: Path, arrays: dict[str, list[Any]]) -> Path:
    """Write what Keras 3 writes for a subclass of Model. In "a:b", a is an attribute and b a layer's name."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, values in {"optimizer": [np.zeros(2, np.float32)], **arrays}.items():
            group = file.create_group(f"{name.partition(':')[0]}/vars")
            group.attrs["name"] = name.partition(":")[2]
            for i, value in enumerate(values):
                group[str(i)] = value
    return path


def stored_arrays() -> dict[str, list[Any]]:
    return {
        "block/layers/conv2d:stem": [noise(3, 3, 3, 4), noise(4)],
        "bn:batch_normalization": [noise(4), noise(4), noise(4), noise(4) ** 2 + 1],
        "block/layers/depthwise_conv2d:dw": [noise(3, 3, 4, 1), noise(4)],
        "fc:dense": [noise(16, 5), noise(5)],
    }


def test_weights_alone_are_matched_by_name(tmp_path: Path) -> None:
    arrays = stored_arrays()
    (tmp_path / "net.prototxt").write_text(PROTOTXT)
    net = anylayer.read(tmp_path / "net.prototxt", weights_alone(tmp_path / "net.weights.h5", arrays))
    kernel, bias = arrays["block/layers/conv2d:stem"]
    gamma, beta, mean, variance = arrays["bn:batch_normalization"]
    depthwise, shift = arrays["block/layers/depthwise_conv2d:dw"]
    dense, last = arrays["fc:dense"]
    x = noise(2, 3, 6, 6)
    windows = np.lib.stride_tricks.sliding_window_view(x.transpose(0, 2, 3, 1), (3, 3), (1, 2))
    y = np.einsum("nhwcij,ijco->nhwo", windows, kernel) + bias
    y = (y - mean) / np.sqrt(variance + 0.001) * gamma + beta
    windows = np.lib.stride_tricks.sliding_window_view(y, (3, 3), (1, 2))
    y = np.einsum("nhwcij,ijc->nhwc", windows, depthwise[..., 0]) + shift
    expected = y.reshape(2, -1) @ dense + last
    np.testing.assert_allclose(net.compile(engine="numpy")({"x": x})["y"], expected, rtol=1e-4, atol=1e-4)
    assert len(net.network.notes) == 2


FLAT = 'layer { name: "f" type: "Flatten" bottom: "x" top: "f" } '
TO_ROWS = 'layer { name: "p" type: "Permute" bottom: "x" top: "f" permute_param { order: [0, 2, 3, 1] } } '


def layers_before_dense(folder: Path, layers: str, type_: str, *arrays: Any) -> anylayer.Net:
    (folder / "net.prototxt").write_text(
        f'input: "x" input_shape {{ dim: 2 dim: 3 dim: 4 dim: 5 }} {layers}\nlayer {{ name: "fc" '
        f'type: "{type_}" bottom: "f" top: "y" {"inner_product_param { num_output: 7 }" * (type_[0] == "I")} }}'
    )
    return anylayer.read(folder / "net.prototxt", weights_alone(folder / "w.weights.h5", {"fc": list(arrays)}))


@pytest.mark.parametrize(
    "layers",
    [
        FLAT,
        FLAT + 'layer { name: "d" type: "Dropout" bottom: "f" top: "f" }',
        FLAT.replace("Flatten", "Reshape").replace('"f" }', '"f" reshape_param { shape { dim: 0 dim: -1 } } }'),
        TO_ROWS,
        TO_ROWS.replace('"f"', '"h"') + 'layer { name: "g" type: "Flatten" bottom: "h" top: "f" }',
    ],
)
def test_rows_after_a_flattened_map_are_in_its_order(layers: str, tmp_path: Path) -> None:
    kernel, bias, x = noise(60, 7), noise(7), noise(2, 3, 4, 5)
    net = layers_before_dense(tmp_path, layers, "InnerProduct", kernel, bias)
    expected = x.transpose(0, 2, 3, 1).reshape(2, -1) @ kernel + bias
    np.testing.assert_allclose(net.compile("numpy")({"x": x})["y"], expected, rtol=1e-4, atol=1e-4)


def test_unknown_order_after_a_flattened_map_is_refused(tmp_path: Path) -> None:
    both = FLAT.replace('"f" }', '"h" }') + 'layer { name: "c" type: "Concat" bottom: "h" bottom: "h" top: "f" }'
    with pytest.raises(AnyLayerError, match="the order of its rows in Keras is not known after layer 'c'"):
        layers_before_dense(tmp_path, both, "InnerProduct", noise(120, 7), noise(7))
    with pytest.raises(AnyLayerError, match="its weights after Flatten are in the order"):
        layers_before_dense(tmp_path, FLAT, "BatchNorm", noise(60), noise(60))
    with pytest.raises(AnyLayerError, match=r"its first array in the file has shape \[7\]"):
        layers_before_dense(tmp_path, FLAT, "InnerProduct", noise(7))


def test_weights_alone_must_fit_the_names(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(PROTOTXT.replace('"stem"', '"first"'))
    weights = weights_alone(tmp_path / "net.weights.h5", stored_arrays())
    text = r"not in the prototxt: block/conv2d \(stem\) \[3, 3, 3, 4\] \[4\]\. .* without weights: first\."
    with pytest.raises(AnyLayerError, match=text):
        anylayer.read(tmp_path / "net.prototxt", weights)


def test_weights_alone_without_a_network_are_listed(tmp_path: Path) -> None:
    weights = weights_alone(tmp_path / "net.weights.h5", stored_arrays())
    with pytest.raises(AnyLayerError, match=r"weights of 4 layers: block/conv2d \(stem\) \[3, 3, 3, 4\] \[4\]; "):
        anylayer.read(weights)


def test_ambiguous_name_is_refused(tmp_path: Path) -> None:
    arrays = stored_arrays() | {"other:stem": [noise(1)]}
    (tmp_path / "net.prototxt").write_text(PROTOTXT)
    with pytest.raises(AnyLayerError, match=r"several layers are called 'stem': block/conv2d, other"):
        anylayer.read(tmp_path / "net.prototxt", weights_alone(tmp_path / "net.weights.h5", arrays))


def test_weights_alone_are_matched_with_a_configuration(tmp_path: Path) -> None:
    arrays = {"block/layers/conv2d:stem": [noise(3, 3, 3, 4), noise(4)]}
    layers = [
        {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 6, 6, 3]}},
        {"class_name": "Conv2D", "config": {"name": "stem", "filters": 4, "kernel_size": [3, 3]}},
    ]
    model = {"class_name": "Sequential", "config": {"name": "m", "layers": layers}, "keras_version": "3.0.0"}
    (tmp_path / "net.json").write_text(json.dumps(model))
    net = anylayer.read(tmp_path / "net.json", weights_alone(tmp_path / "net.weights.h5", arrays))
    assert (net.network.nodes[-1].blobs[0] == arrays["block/layers/conv2d:stem"][0]).all()
    more = arrays | {"head:fc": [noise(2)]}
    with pytest.raises(AnyLayerError, match="weights of head belong to no layer of the model"):
        anylayer.read(tmp_path / "net.json", weights_alone(tmp_path / "more.weights.h5", more))
