"""Rewrites of operators around convolutions, and operators that must stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.optimize.simplify import simplify
from anylayer.testing import run_graph

from .rewriting import ENGINES, Function, check, f, kinds, noise, rewritten, traced

ORT, OV = "onnxruntime", "openvino"
X = noise(2, 4, 6, 5)
W, DEEP, UP, UP2 = noise(6, 4, 3, 3), noise(4, 1, 3, 3), noise(4, 6, 2, 2), noise(4, 3, 2, 2)
SIX, FOUR = noise(6, seed=1), noise(4, seed=2)


def normalised(y: Any, epsilon: float = 1e-3) -> Any:
    c = y.shape[1]
    scale, bias, mean = (noise(c, seed=s) for s in (3, 4, 5))
    return ops.batch_normalization(y, scale, bias, mean, noise(c, seed=6) ** 2 + f(0.2), epsilon=epsilon)


def by_channel(c: Any) -> Any:
    return c[:, None, None]


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: normalised(ops.conv(x, W)), "Conv"),
        (lambda x: normalised(ops.conv(x, W, SIX)), "Conv"),
        (lambda x: normalised(ops.conv(x, DEEP, group=4)), "Conv"),
        (lambda x: normalised(ops.conv_transpose(x, UP, strides=2)), "ConvTranspose"),
        (lambda x: normalised(ops.conv_transpose(x, UP2, noise(6), strides=2, group=2)), "ConvTranspose"),
        (lambda x: ops.conv(x, W) + by_channel(SIX), "Conv"),
        (lambda x: by_channel(SIX) * ops.conv(x, W, SIX), "Conv"),
        (lambda x: (ops.conv(x, W) - by_channel(SIX)) / by_channel(SIX) * f(3), "Conv"),
        (lambda x: normalised(ops.conv(x, W) + by_channel(SIX)), "Conv"),
        (lambda x: normalised(x[:, :, 0, 0] @ noise(4, 7)), "Gemm"),
        (lambda x: x[:, :, 0, 0] @ noise(4, 7) + noise(7), "Gemm"),
        (lambda x: x[:, :, 0, 0] @ noise(4, 7) * noise(7), "MatMul"),
        (lambda x: normalised(ops.gemm(x[:, :, 0, 0], noise(7, 4), noise(7), trans_b=True)), "Gemm"),
    ],
)
def test_scales_and_shifts_are_folded_into_weights(function: Function, left: str) -> None:
    found = [kind for kind in rewritten(function, X, engine=None) if kind not in ("Slice", "Reshape")]
    assert found == [left]
    assert found != rewritten(function, X, engine=None, exact=True)
    check(function, X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (lambda y: y * np.clip(y + f(3), 0, 6))(ops.conv(x, W)),  # two read the convolution
        lambda x: ops.conv(x, W) + noise(6, 4, 3),
        lambda x: ops.conv(x, W) + noise(1, 1, 3),
        lambda x: normalised(np.maximum(ops.conv(x, W), 0)),
        lambda x: x @ noise(5, 6) + by_channel(FOUR),
        lambda x: ops.conv(x, W) + ops.conv(x, W[:, :, ::-1].copy()),
    ],
)
def test_other_operators_stay(function: Function) -> None:
    before = [k for k in kinds(traced(function, X)) if k not in ("Max", "Min", "Relu", "Clip")]
    after = [k for k in rewritten(function, X, engine=None) if k not in ("Max", "Min", "Relu", "Clip")]
    assert before == after
    check(function, X)


def test_output_of_conv_is_not_folded() -> None:
    graph = traced(lambda x: ops.conv(x, W) + by_channel(SIX), X)
    graph.outputs.insert(0, graph.ops[0].outputs[0])
    assert kinds(simplify(graph)) == ["Add", "Conv"]


# ------------------------------------------------------------------------------------- padding


def padded(x: Any, *, low: tuple[int, int] = (1, 0), high: tuple[int, int] = (1, 2), value: float = 0) -> Any:
    return np.pad(x, ((0, 0), (0, 0), (low[0], high[0]), (low[1], high[1])), constant_values=f(value))


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: ops.conv(padded(x), W), ["Conv"]),
        (lambda x: ops.conv(padded(x), W, pads=(1, 1, 0, 0), strides=2), ["Conv"]),
        (lambda x: ops.average_pool(padded(x), 3), ["AveragePool"]),
        (lambda x: ops.average_pool(padded(x), 4, pads=1, count_include_pad=True), None),
        (lambda x: ops.max_pool(padded(ops.relu(x)), 3, strides=2), ["MaxPool", "Relu"]),
        (lambda x: ops.max_pool(padded(np.clip(x, 0, 6)), 3), None),
        (lambda x: ops.max_pool(padded(x, value=-np.inf), 3), ["MaxPool"]),
    ],
)
def test_pad_is_folded_into_windows(function: Function, left: list[str] | None) -> None:
    found = rewritten(function, X, engine=None, exact=True)
    assert "Pad" not in found
    assert left is None or found == left
    check(function, X, exact=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.conv(padded(x, value=1), W),
        lambda x: ops.conv(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge"), W),
        lambda x: ops.conv(np.pad(x, ((0, 0), (1, 0), (1, 1), (1, 1))), noise(2, 5, 3, 3)),
        lambda x: ops.average_pool(padded(x), 3, pads=1),
        lambda x: ops.average_pool(padded(x), 2),
        lambda x: ops.max_pool(padded(x), 3),
        lambda x: ops.max_pool(padded(ops.relu(x)), 2),
        lambda x: ops.max_pool(padded(ops.relu(x)), 3, pads=1),
        lambda x: ops.max_pool(padded(np.clip(x, -1, 6)), 3),
    ],
)
def test_other_pads_stay(function: Function) -> None:
    assert "Pad" in rewritten(function, X, engine=None)
    check(function, X)


@pytest.mark.parametrize("engine", [*ENGINES, "ncnn", None])
def test_mean_of_map_becomes_global_average_pool(engine: str | None) -> None:
    assert rewritten(lambda x: x.mean((2, 3), keepdims=True), X, engine=engine) == ["GlobalAveragePool"]
    assert rewritten(lambda x: x.mean((2, 3)), X, engine=engine) == ["GlobalAveragePool", "Reshape"]
    assert rewritten(lambda x: x.mean((2, 3)).reshape(2, 4, 1, 1), X, engine=engine) == ["GlobalAveragePool"]
    assert rewritten(lambda x: x.mean((2, 3)), X, engine=engine, exact=True) == ["ReduceMean"]
    assert "GlobalAveragePool" not in rewritten(lambda x: x.mean((1, 3)), X, engine=engine)


def test_means_of_maps_on_engines() -> None:
    check(lambda x: x.mean((2, 3)), X)
    check(lambda x: np.maximum(x, 0).mean((2, 3), keepdims=True) * x, X[:1], engines=("ncnn",))
    check(lambda x: np.sqrt(np.exp(x).mean((2, 3))) @ noise(4, 3), X[:1], engines=("ncnn",))


@pytest.mark.parametrize("order", [[2, 0, 3, 1], [1, 2, 3, 0], [0, 2, 1, 3], [-1, 0, 1, 2]])
@pytest.mark.parametrize("exact", [False, True])
def test_permuted_channels_before_conv(order: list[int], exact: bool) -> None:
    """OpenVINO 2026.4 folds the inverse permutation into the weights."""

    def function(x: Any) -> Any:
        return ops.conv(ops.relu(x[:, order]), W)

    check(function, X, exact=exact)
    check(lambda x: x[..., [2, 0, 3, 1, 4]], X, exact=exact)


def test_scale_and_mean_between_convolutions() -> None:
    def function(x: Any) -> Any:
        y = np.clip(normalised(ops.conv(padded(x), W, strides=2)), 0, 6)
        y = y * ops.sigmoid(ops.conv(y.mean((2, 3), keepdims=True), noise(6, 6, 1, 1)))
        return y.mean((2, 3)) @ noise(6, 3) + noise(3)

    graph = simplify(traced(function, X), ORT)
    assert kinds(graph) == ["Clip", *["Conv"] * 2, "Gemm", *["GlobalAveragePool"] * 2, "Mul", "Reshape", "Sigmoid"]
    np.testing.assert_allclose(run_graph(graph, [X], ORT)[0], function(X), rtol=1e-4, atol=1e-5)
