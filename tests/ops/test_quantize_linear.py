"""ops.quantize_linear and ops.dequantize_linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.errors import LayerError, TraceError
from anylayer.network import TensorType
from anylayer.testing import check_function
from anylayer.tracing import trace

X = np.float32([[-1.5, 0.25, 0.75], [9, -9, 0.5]])
SCALES, ZEROS = np.float32([0.5, 2]), np.int8([1, -2])


def test_halves_are_rounded_to_even_and_values_are_clipped() -> None:
    q = ops.quantize_linear(X, np.float32(0.5), np.uint8(3))
    assert q.dtype == np.uint8 and q.tolist() == [[0, 3, 5], [21, 0, 4]]
    assert ops.quantize_linear(X, SCALES, ZEROS, axis=0).tolist() == [[-2, 1, 3], [2, -6, -2]]


def test_real_numbers_are_scaled_differences() -> None:
    q = np.int8([[1, 3], [-2, 0]])
    assert ops.dequantize_linear(q, SCALES, ZEROS, axis=0).tolist() == [[0, 1], [0, 4]]
    assert ops.dequantize_linear(q, np.float32([[1, 2]]), axis=0, block_size=2).tolist() == [[1, 6], [-2, 0]]


def test_each_is_recorded_as_one_operator() -> None:
    graph = check_function(
        lambda x: ops.dequantize_linear(ops.quantize_linear(x, SCALES, ZEROS, axis=0), SCALES, ZEROS, axis=0),
        X + 0.0625,
    )
    assert [op.op for op in graph.ops] == ["QuantizeLinear", "DequantizeLinear"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.quantize_linear(x, SCALES), "the scale has 2 numbers, but axis 1 has size 3"),
        (lambda x: ops.quantize_linear(x, SCALES, axis=2), "axis must lie in -2..1"),
        (lambda x: ops.dequantize_linear(x.astype(np.int8), np.ones((2, 2))), "or one per slice of axis 1, got"),
        (lambda x: ops.quantize_linear(x, np.ones((2, 2)), block_size=2, axis=0), r"must be of shape \(1, 3\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(LayerError, match=message):
        call(X)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(LayerError, match="holds integers of 4 to 32 bits, got float32"):
        ops.quantize_linear(X, np.float32(1), dtype=np.float32)
    with pytest.raises(TraceError, match="QuantizeLinear between int32 and float32 is not supported by engines"):
        trace(lambda xs: [ops.quantize_linear(xs[0], SCALES, np.int32([0]))], [TensorType.of((2,), X.dtype)])
