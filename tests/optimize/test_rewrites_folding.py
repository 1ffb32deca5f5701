"""Rewrites that fold data movement into convolutions and matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.optimize.simplify import simplify

from .rewriting import Function, check, f, kinds, noise, rewritten, traced

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
W, DEEP = noise(5, 3, 3, 3), noise(3, 1, 3, 3)


def to_batch(x: Any, rows: int, columns: int, pads: tuple[int, int, int, int] = (0, 0, 0, 0)) -> Any:
    """Compute TensorFlow's SpaceToBatchND of a channels-last array."""
    top, bottom, left, right = pads
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    n, h, w, c = x.shape
    y = x.reshape(n, h // rows, rows, w // columns, columns, c).transpose(2, 4, 0, 1, 3, 5)
    return y.reshape(n * rows * columns, h // rows, w // columns, c)


def from_batch(x: Any, rows: int, columns: int, crop: tuple[int, int] = (0, 0)) -> Any:
    """Compute TensorFlow's BatchToSpaceND of a channels-last array, cropped at the bottom and right."""
    n, h, w, c = x.shape
    y = x.reshape(rows, columns, n // (rows * columns), h, w, c).transpose(2, 3, 0, 4, 1, 5)
    y = y.reshape(n // (rows * columns), h * rows, w * columns, c)
    return y[:, : y.shape[1] - crop[0], : y.shape[2] - crop[1]]


def conv(x: Any, w: Any, **how: Any) -> Any:
    return ops.conv(x.transpose(FIRST), w, **how).transpose(LAST)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(
    ("block", "pads", "crop"),
    [((2, 2), (0, 0, 0, 0), (0, 0)), ((2, 3), (2, 2, 3, 3), (0, 0)), ((4, 2), (4, 6, 2, 3), (2, 1))],
)
def test_conv_between_space_to_batch_and_back_becomes_dilated(
    samples: int, block: tuple[int, int], pads: tuple[int, int, int, int], crop: tuple[int, int]
) -> None:
    x = noise(samples, 8 if crop == (0, 0) else 6, 12 if crop == (0, 0) else 11, 3)

    def function(x: Any) -> Any:
        y = from_batch(conv(to_batch(x, *block, pads), W), *block, crop)
        return np.maximum(y + noise(5), 0)

    graph = simplify(traced(function, x))
    assert kinds(graph) == ["Conv", "Relu", "Transpose", "Transpose"]
    found = next(o for o in graph.ops if o.op == "Conv")
    assert found.attrs["dilations"] == list(block)
    assert found.attrs["pads"] == [pads[0], pads[2], pads[1] - crop[0], pads[3] - crop[1]]
    check(function, x)
    check(function, x, exact=True)


@pytest.mark.parametrize("samples", [1, 2])
def test_depthwise_conv_becomes_dilated(samples: int) -> None:
    x = noise(samples, 8, 6, 3)

    def function(x: Any) -> Any:
        return from_batch(conv(to_batch(x, 2, 2), DEEP, group=3), 2, 2)

    assert kinds(simplify(traced(function, x))) == ["Conv", "Transpose", "Transpose"]
    check(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: from_batch(conv(to_batch(x, 2, 2), W, pads=1), 2, 2),
        lambda x: from_batch(conv(to_batch(x, 2, 2), W, strides=2), 2, 2),
        lambda x: from_batch(conv(to_batch(x, 2, 2), W), 4, 1),
        lambda x: from_batch(conv(to_batch(x, 2, 2), W)[::-1], 2, 2),
    ],
)
def test_other_convolutions_do_not_become_dilated(function: Function) -> None:
    x = noise(2, 12, 16, 3)
    graph = simplify(traced(function, x))
    assert all(set(o.attrs["dilations"]) == {1} for o in graph.ops if o.op == "Conv")
    check(function, x)


X = noise(2, 3, 8, 7)


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: ops.conv(x, W, pads=1)[:, :, 1:, :-1], ["Conv"]),
        (lambda x: ops.conv(x, W, pads=1)[:, :, 1:-1, 1:-1], ["Conv"]),
        (lambda x: ops.conv(x, W, pads=1)[:, :, 2:], ["Conv", "Slice"]),
        (lambda x: ops.conv(x, W, pads=1)[:, 1:], ["Conv", "Slice"]),
        (lambda x: ops.conv(x, W, pads=1, strides=2)[:, :, 1:], ["Conv", "Slice"]),
        (lambda x: ops.conv(x, W, pads=1)[:, :, 1:6:2], ["Conv", "Slice"]),
        (
            lambda x: (lambda y: y[:, :, 1:] + y[:, :, :-1])(ops.conv(x, W, pads=1)),
            ["Add", "Conv", "Slice", "Slice"],
        ),
    ],
)
def test_crop_is_folded_into_padding(function: Function, left: list[str]) -> None:
    assert rewritten(function, X, engine=None, exact=True) == left
    check(function, X)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize(
    ("dense", "left"),
    [
        (lambda x: x @ noise(6, 4 * 5 * 3), ["Conv", "MatMul", "Reshape"]),
        (lambda x: x @ noise(6, 4 * 5 * 3) + noise(60), ["Conv", "Gemm", "Reshape"]),
        (lambda x: ops.gemm(x, noise(60, 6), noise(60), trans_b=True), ["Conv", "Gemm", "Reshape"]),
        (lambda x: np.tanh(np.maximum(x @ noise(6, 60), 0)), ["Conv", "MatMul", "Relu", "Reshape", "Tanh"]),
    ],
)
def test_columns_of_weights_are_permuted(samples: int, dense: Function, left: list[str]) -> None:
    def function(x: Any) -> Any:
        return ops.conv(dense(x).reshape(-1, 4, 5, 3).transpose(FIRST), W)

    x = noise(samples, 6)
    assert rewritten(function, x, engine=None) == left
    check(function, x)


@pytest.mark.parametrize("samples", [1, 3])
def test_columns_of_weights_are_permuted_before_activation(samples: int) -> None:
    def function(x: Any) -> Any:
        y = (x @ noise(6, 4 * 5 * 3)).reshape(-1, 4, 5, 3)
        return ops.conv(ops.leaky_relu(y, 0.2).transpose(FIRST), W)

    x = noise(samples, 6)
    assert rewritten(function, x, engine=None) == ["Conv", "LeakyRelu", "MatMul", "Reshape"]
    check(function, x)


@pytest.mark.parametrize("samples", [1, 2])
def test_dilated_conv_between_two_convolutions(samples: int) -> None:
    """The map before the dilated convolution is channels-first."""

    def function(x: Any) -> Any:
        y = from_batch(conv(to_batch(conv(x, noise(3, 3, 1, 1)), 2, 2, (2, 3, 2, 3)), W), 2, 2, (1, 1))
        return conv(np.maximum(y, 0), noise(2, 5, 1, 1))

    x = noise(samples, 9, 9, 3)
    assert rewritten(function, x, engine=None) == ["Conv", "Conv", "Conv", "Relu", "Transpose", "Transpose"]
    check(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x @ noise(6, 60)).reshape(5, 4, 3, 3).transpose(1, 2, 0, 3),
        lambda x: (lambda y: np.concatenate([y.reshape(3, 4, 15).transpose(0, 2, 1).reshape(3, 60), y]))(
            x @ noise(6, 60)
        ),
        lambda x: ops.softmax(x @ noise(6, 60)).reshape(3, 4, 15).transpose(0, 2, 1),
        lambda x: (x @ noise(3, 6, 20)).reshape(3, 3, 4, 5).transpose(0, 2, 3, 1) * f(2),
    ],
)
def test_other_transposes_stay(function: Function) -> None:
    assert "Transpose" in rewritten(function, noise(3, 6), engine=None)
    check(function, noise(3, 6))


def test_quantized_weights_are_transposed_as_integers() -> None:
    integers = np.arange(-90, 90, dtype=np.int8).reshape(5, 3, 3, 4)
    scale = np.abs(noise(5))

    def function(x: Any) -> Any:
        zeros = np.asarray(np.zeros((), np.int8), like=x)
        w = ops.dequantize_linear(np.asarray(integers, like=x) + zeros, scale, axis=0)
        return ops.conv(x.transpose(FIRST), w.transpose(0, 3, 1, 2))

    x = noise(1, 6, 6, 4)
    graph = simplify(traced(function, x))
    weights = next(o for o in graph.ops if o.op == "DequantizeLinear")
    assert weights.first.const is not None
    np.testing.assert_array_equal(weights.first.const, integers.transpose(0, 3, 1, 2))
    assert kinds(graph) == ["Conv", "DequantizeLinear", "Transpose"]
