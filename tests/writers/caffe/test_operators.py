"""ONNX operators are written as Caffe layers, which compute the same when they are read back."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer import ops
from anylayer.errors import LayerError
from anylayer.writers.caffe.builder import CaffeBuilder
from anylayer.writers.caffe.dialects import dialect_of
from anylayer.writers.caffe.materialize import axis_product
from anylayer.writers.caffe.views import BlobView
from tests.layers.harness import noise
from tests.writers.caffe.harness import check, layers_of, traced

X = noise(2, 3, 4, 5)
CHANNELS = noise(3, seed=1).reshape(1, 3, 1, 1)
W = noise(7, 60, seed=2)
POSITIVE = np.abs(X) + np.float32(0.1)

ELEMENTWISE: dict[str, tuple[Callable[..., Any], list[Any], list[str] | None]] = {
    "relu": (ops.relu, [X], ["ReLU"]),
    "leaky": (lambda x: ops.leaky_relu(x, 0.2), [X], ["ReLU"]),
    "elu": (lambda x: ops.elu(x, 0.5), [X], ["ELU"]),
    "sigmoid": (ops.sigmoid, [X], ["Sigmoid"]),
    "tanh": (np.tanh, [X], ["TanH"]),
    "softplus": (ops.softplus, [X], ["BNLL"]),
    "abs": (np.abs, [X], ["AbsVal"]),
    "exp": (np.exp, [X], ["Exp"]),
    "log": (np.log, [POSITIVE], ["Log"]),
    "sqrt": (np.sqrt, [POSITIVE], ["Power"]),
    "square": (lambda x: x * x, [X], ["Power"]),
    "power": (lambda x: x ** np.float32(1.5), [POSITIVE], ["Power"]),
    "swish": (lambda x: x * ops.sigmoid(x), [X], ["Swish"]),
    "negative": (lambda x: -x, [X], ["Power"]),
    "clip": (lambda x: np.clip(x, -0.5, 0.7), [X], ["Clip"]),
    "hard sigmoid": (lambda x: ops.hard_sigmoid(x, 0.2, 0.5), [3 * X], ["Power", "Clip"]),
    "prelu": (lambda x: ops.prelu(x, noise(3, 1, 1)), [X], ["PReLU"]),
    "prelu shared": (lambda x: ops.prelu(x, np.full((1, 1, 1), 0.3, np.float32)), [X], ["ReLU"]),
    "prelu each": (lambda x: ops.prelu(x, noise(3, 4, 5)), [X], None),
    "lrn": (lambda x: ops.lrn(x, 3, alpha=0.1, beta=0.75, bias=2.0), [X], ["LRN"]),
    "scale and shift": (lambda x: x * CHANNELS + CHANNELS, [X], ["Scale"]),
    "shift": (lambda x: x - CHANNELS, [X], ["Bias"]),
    "numbers": (lambda x: x * np.float32(2) + np.float32(3), [X], ["Power"]),
    "from a number": (lambda x: np.float32(3) - x, [X], ["Power"]),
    "from channels": (lambda x: CHANNELS - x, [X], ["Scale"]),
    "over a number": (lambda x: np.float32(3) / x, [POSITIVE], ["Power"]),
    "divided": (lambda x: x / np.float32(4), [X], ["Power"]),
    "image": (lambda x: x * noise(4, 5), [X], ["Scale"]),
    "sum": (lambda x, y: x + y, [X, X[::-1].copy()], ["Eltwise"]),
    "sum of three": (lambda x, y: x + (y + x), [X, X[::-1].copy()], ["Eltwise"]),
    "sum of a read sum": (lambda x, y: [x + y, (x + y) + x], [X, X[::-1].copy()], None),
    "difference": (lambda x, y: x - y, [X, X[::-1].copy()], ["Eltwise"]),
    "differences": (lambda x, y: x - (y - np.tanh(x)) - y, [X, X[::-1].copy()], ["TanH", "Eltwise"]),
    "minus one times": (lambda x, y: x + y * np.float32(-1), [X, X[::-1].copy()], ["Eltwise"]),
    "multiples": (lambda x, y: np.float32(2) * -(x + y) - x, [X, X[::-1].copy()], ["Eltwise"]),
    "multiple of a product": (lambda x, y: x * y * np.float32(3), [X, X[::-1].copy()], ["Eltwise", "Power"]),
    "product": (lambda x, y: x * y, [X, X[::-1].copy()], ["Eltwise"]),
    "quotient": (lambda x, y: x / y, [X, POSITIVE], ["Power", "Eltwise"]),
    "maximum": (np.maximum, [X, X[::-1].copy()], ["Eltwise"]),
    "minimum": (np.minimum, [X, X[::-1].copy()], None),
    "above": (lambda x: np.maximum(x, np.float32(0.3)), [X], None),
    "below": (lambda x: np.minimum(x, np.float32(0.3)), [X], ["Clip"]),
    "excitation": (lambda x, s: x * s, [X, noise(2, 3, 1, 1)], ["Flatten", "Scale"]),
    "one map for all": (lambda x, s: x * s, [X, noise(2, 1, 4, 5)], ["Tile", "Eltwise"]),
    "rows": (lambda x, s: x + s, [X, noise(4, 5)], ["Bias"]),
    "threshold": (lambda x: (x > 0.2).astype(np.float32), [X], ["Threshold"]),
    "batch norm": (
        lambda x: ops.batch_normalization(x, *noise(3, 3), np.abs(noise(3)) + 1, epsilon=1e-3),
        [X],
        ["BatchNorm", "Scale"],
    ),
}

DATA_MOVEMENT: dict[str, tuple[Callable[..., Any], list[Any], list[str] | None]] = {
    "concat": (lambda x, y: np.concatenate([x, y], axis=1), [X, noise(2, 2, 4, 5)], ["Concat"]),
    "concat rows": (lambda x, y: np.concatenate([x, y], axis=2), [X, X], ["Concat"]),
    "split": (lambda x: np.split(x, 3, axis=1), [X], ["Slice"]),
    "parts": (lambda x: (x[:, :1], x[:, 1:]), [X], ["Slice"]),
    "a part": (lambda x: x[:, 1:2], [X], ["Slice", "Silence"]),
    "a window": (lambda x: x[:, :, 1:3, 2:], [X], None),
    "every other": (lambda x: x[:, :, ::2, 1::2], [X], None),
    "backwards": (lambda x: x[:, ::-1], [X], ["Convolution"]),
    "a channel": (lambda x: x[:, 1], [X], None),
    "flatten": (lambda x: x.reshape(2, -1), [X], ["Flatten"]),
    "reshape": (lambda x: x.reshape(2, 6, 2, 5), [X], ["Reshape"]),
    "twice": (lambda x: x, [X], ["Split"]),
    "same twice": (lambda x: (ops.relu(x), ops.relu(x)), [X], ["ReLU", "Split", "Split"]),
    "output that is read": (lambda x: (y := ops.relu(x), ops.sigmoid(y)), [X], ["ReLU", "Sigmoid", "Split"]),
    "shuffle": (
        lambda x: x.reshape(2, 2, 3, 4, 5).swapaxes(1, 2).reshape(2, 6, 4, 5),
        [noise(2, 6, 4, 5)],
        ["Convolution"],
    ),
    "tile": (lambda x: np.tile(x, (1, 2, 1, 3)), [X], ["Tile", "Tile"]),
    "broadcast": (lambda x: np.broadcast_to(x, (2, 3, 4, 5)), [noise(2, 3, 1, 1)], ["Tile", "Tile"]),
    "softmax": (lambda x: ops.softmax(x, axis=1), [X], ["Softmax"]),
    "log softmax": (lambda x: ops.log_softmax(x, axis=-1), [X], None),
    "mean of channels": (lambda x: x.mean(axis=1, keepdims=True), [X], None),
    "maximum of channels": (lambda x: x.max(axis=1), [X], None),
    "sum of rows": (lambda x: x.sum(axis=-1), [X], ["Reduction"]),
    "repeated pixels": (lambda x: np.repeat(np.repeat(x, 2, axis=2), 2, axis=3), [X], ["Deconvolution"]),
    "nearest": (lambda x: ops.resize(x, (8, 10), mode="nearest"), [X], ["InnerProduct", "Convolution"]),
    "repeated rows": (
        lambda x: ops.resize(x, (12, 5), mode="nearest", coordinates="asymmetric"),
        [X],
        ["Deconvolution"],
    ),
    "half pixels": (lambda x: ops.resize(x, (8, 7)), [X], None),
    "cubic": (lambda x: ops.resize(x, (7, 10), mode="cubic"), [X], None),
    "nearest down": (lambda x: ops.resize(x, (3, 2), mode="nearest", coordinates="asymmetric"), [X], None),
    "depth to space": (lambda x: ops.depth_to_space(x, 2), [noise(1, 8, 2, 3)], ["Deconvolution"]),
    "space to depth": (lambda x: ops.space_to_depth(x, 2), [noise(1, 2, 4, 6)], ["Convolution"]),
    "inner product": (lambda x: ops.gemm(x.reshape(2, -1), W, noise(7), trans_b=True), [X], ["InnerProduct"]),
    "product and sum": (lambda x: x.reshape(2, -1) @ W.T + noise(7), [X], ["InnerProduct"]),
    "channels last, flat": (
        lambda x: ops.relu(x.transpose(0, 2, 3, 1).reshape(2, -1)) @ W.T,
        [X],
        ["ReLU", "InnerProduct"],
    ),
    "product along the width": (lambda x: x @ noise(5, 6) + noise(6), [X], ["InnerProduct"]),
    "product along the height": (lambda x: noise(6, 4) @ x, [X], ["Convolution"]),
    "sequence": (lambda x: x @ noise(5, 6) + noise(6), [noise(2, 3, 5)], ["InnerProduct"]),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_operators_become_caffe_layers(tmp_path: Path, name: str) -> None:
    function, inputs, types = ELEMENTWISE[name]
    found = check(tmp_path, function, *inputs)
    assert types is None or found == types


@pytest.mark.parametrize("name", DATA_MOVEMENT)
def test_data_movement_operators(tmp_path: Path, name: str) -> None:
    function, inputs, types = DATA_MOVEMENT[name]
    found = check(tmp_path, function, *inputs)
    assert types is None or found == types


@pytest.mark.one_per("dialect")
@pytest.mark.one_per("name")
@pytest.mark.parametrize("name", [*ELEMENTWISE, *DATA_MOVEMENT])
@pytest.mark.parametrize("dialect", ["ssd", "opencv", "ascend", "deeplab"])
def test_other_dialects_express_or_refuse_operators(tmp_path: Path, dialect: str, name: str) -> None:
    function, inputs, _ = {**ELEMENTWISE, **DATA_MOVEMENT}[name]
    try:
        check(tmp_path, function, *inputs, dialect=dialect)
    except LayerError as error:
        assert f"Caffe (dialect '{dialect}') has no " in str(error), "refused by name"


def test_sums_are_split_for_readers_of_two_inputs(tmp_path: Path) -> None:
    """caffe2onnx and RKNN leave out factors and read two inputs of a sum."""
    inputs = [noise(1, 3, 4, 5, seed=i) for i in range(3)]

    def function(x: Any, y: Any, z: Any) -> Any:
        return x - y + z

    layers = {
        dialect: check(tmp_path, function, *inputs, dialect=dialect) for dialect in ("bvlc", "rknn", "caffe2onnx")
    }
    assert layers == {
        "bvlc": ["Eltwise"],
        "rknn": ["Power", "Eltwise", "Eltwise"],
        "caffe2onnx": ["Power", "Eltwise", "Eltwise"],
    }


@pytest.mark.parametrize("fields", ["coeff: 1 coeff: -2 coeff: 3", "operation: PROD", "operation: MAX", ""])
@pytest.mark.parametrize("dialect", ["rknn", "caffe2onnx"])
def test_eltwise_of_three_inputs_is_split_where_the_reader_needs_it(
    dialect: str, fields: str, tmp_path: Path
) -> None:
    names = ("a", "b", "c")
    text = "".join(f'input: "{n}" input_shape {{ dim: 1 dim: 3 dim: 4 dim: 5 }}\n' for n in names)
    bottoms = " ".join(f'bottom: "{n}"' for n in names)
    text += f'layer {{ name: "y" type: "Eltwise" {bottoms} top: "y" eltwise_param {{ {fields} }} }}'
    (tmp_path / "net.prototxt").write_text(text)
    anylayer.read(tmp_path / "net.prototxt").write(tmp_path / "out.prototxt", dialect=dialect)
    layers = anylayer.read(tmp_path / "out.prototxt", dialect=dialect).network.nodes
    assert (max(len(n.inputs) for n in layers) == 3) == ("MAX" in fields), [n.type for n in layers]
    assert not any("coeff" in n.params.get("eltwise_param", {}) for n in layers)


def test_many_multiples_of_a_term_are_one_factor(tmp_path: Path) -> None:
    def function(x: Any, y: Any) -> Any:
        for _ in range(300):
            x = -x * np.float32(1.001)
        return x + y

    assert check(tmp_path, function, X, X[::-1].copy()) == ["Eltwise"]


def test_transpose_without_permute_is_refused(tmp_path: Path) -> None:
    assert check(tmp_path, lambda x: x.transpose(0, 2, 3, 1), X, dialect="ssd") == ["Permute"]
    with pytest.raises(
        LayerError, match=r"has no Permute, which a transposition \[0, 2, 3, 1\] of \[2, 3, 4, 5\]"
    ):
        check(tmp_path, lambda x: x.transpose(0, 2, 3, 1), X)


def test_transpositions_and_reshapes_become_one_permute(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        y = x.transpose(0, 2, 3, 1).reshape(2, 4, 5, 3, 1).transpose(0, 3, 1, 2, 4)  # equal to x
        return y.reshape(2, 3, 2, 2, 5).transpose(0, 3, 1, 2, 4).reshape(2, 2, 3, 10)

    assert check(tmp_path, function, X, dialect="ssd") == ["Reshape", "Permute", "Reshape"]


def test_batch_keeps_its_axis_if_other_axes_are_permuted(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return x.reshape(1, 3, 2, 2, 5).transpose(0, 3, 1, 2, 4).reshape(1, 2, 3, 10)

    check(tmp_path, function, noise(1, 3, 4, 5), dialect="ssd")
    assert "dim: 0" in next(tmp_path.rglob("*.prototxt")).read_text().split("Permute")[0]


def test_align_corners_is_interp_if_dialect_has_it(tmp_path: Path) -> None:
    def larger(x: Any) -> Any:
        return ops.resize(x, (7, 9), coordinates="align_corners")

    assert check(tmp_path, larger, X, dialect="pspnet") == ["Interp"]
    assert "Interp" not in check(tmp_path, larger, X, dialect="bvlc")


def test_clip_in_dialect_without_clip(tmp_path: Path) -> None:
    def limited(x: Any) -> Any:
        return np.clip(x, 0, 6)

    assert check(tmp_path, limited, 9 * X, dialect="ssd") == ["ReLU", "Power", "ReLU", "Power"]
    assert check(tmp_path, limited, 9 * X, dialect="mobilenet-yolo") == ["ReLU6"]


def test_channel_shuffle_is_one_layer_if_dialect_has_it(tmp_path: Path) -> None:
    function, inputs, _ = DATA_MOVEMENT["shuffle"]
    assert check(tmp_path, function, *inputs, dialect="ascend") == ["ShuffleChannel"]


def test_lstm_becomes_caffes_lstm_layer(tmp_path: Path) -> None:
    w, r, b = noise(1, 16, 3), noise(1, 16, 4, seed=1), noise(1, 32, seed=2)
    types = check(tmp_path, lambda x: ops.lstm(x, w, r, b, hidden_size=4)[0][:, 0], noise(5, 2, 3))
    assert types == ["DummyData", "DummyData", "Concat", "LSTM"]


def test_batch_norm_is_folded(tmp_path: Path) -> None:
    w, statistics = noise(4, 3, 3, 3), noise(3, 4)

    def block(x: Any) -> Any:
        y = ops.conv(x, w, noise(4))
        return ops.batch_normalization(y, *statistics, np.abs(noise(4)) + 1, epsilon=1e-3)

    assert check(tmp_path, block, X, fold=True) == ["Convolution"]
    assert check(tmp_path, block, X) == ["Convolution", "BatchNorm", "Scale"]


def test_bias_is_not_folded_into_value_with_other_uses(tmp_path: Path) -> None:
    w = noise(60, 7)

    def both(x: Any) -> Any:
        y = x.reshape(2, -1) @ w
        return y + noise(7), y

    assert check(tmp_path, both, X).count("InnerProduct") == 1


def test_blog_compat_adds_epsilon_to_variance() -> None:
    graph = traced(ELEMENTWISE["batch norm"][0], [X])
    default, compatible = (
        next(x for x in layers_of(graph, blog_compat=compat).layers if x.type == "BatchNorm") for compat in (0, 1)
    )
    assert default.params["batch_norm_param"] == {"use_global_stats": True, "eps": 1e-3}
    assert compatible.params["batch_norm_param"] == {"use_global_stats": True}
    assert np.allclose(compatible.blobs[1] - default.blobs[1], 1e-3, atol=1e-6)


def test_all_refused_operators_are_named() -> None:
    graph = traced(lambda x: (np.floor(x), np.sign(x)), [X])
    text = "has no layer for Sign. Keep the layer as one of the target's own (keep=[...]), or "
    with pytest.raises(LayerError, match=r"has no layer for Floor. 1 more: .* " + re.escape(text)):
        layers_of(graph)


def test_operators_that_read_a_refused_one_are_named() -> None:
    graph = traced(lambda x: np.sign(x) ** np.abs(x), [X])
    with pytest.raises(LayerError, match=r"has no layer for Sign\. 1 more: .* are both computed\. Keep the layer"):
        layers_of(graph)


def test_operator_whose_output_has_a_dynamic_size_is_refused() -> None:
    def kept(boxes: Any, scores: Any) -> Any:
        return anylayer.ops.nms(boxes, scores, max_per_class=3, iou_threshold=0.5)

    boxes, scores = np.zeros((1, 5, 4), np.float32), np.zeros((1, 1, 5), np.float32)
    with pytest.raises(LayerError, match="has no layer for NonMaxSuppression"):
        layers_of(traced(kept, [boxes, scores]))


def test_dialects_with_a_missing_type_are_named(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return np.transpose(x, (0, 2, 3, 1)) * np.float32(2)

    text = r"\(dialect 'bvlc'\) has no Permute, .* a dialect that has it \(ascend, .* more\)"
    with pytest.raises(LayerError, match=text):
        anylayer.export(function, ((1, 3, 4, 5), "float32"), path=tmp_path / "n.prototxt", dialect="bvlc")


def test_refusal_of_a_product_over_the_batch_says_what_is_summed() -> None:
    net: Any = SimpleNamespace(dialect=dialect_of("bvlc"), name="", inputs=[], layers=[])
    with pytest.raises(
        LayerError, match=r"no layer whose result for a sample uses other samples; .* axis 0 of \[2, 3\]"
    ):
        axis_product(CaffeBuilder(net, {}, {}), BlobView("x", (2, 3)), 0, np.eye(2, dtype=np.float32))
