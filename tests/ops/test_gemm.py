"""ops.gemm."""

from __future__ import annotations

import numpy as np
import pytest

from anylayer import ops
from anylayer.errors import LayerError
from anylayer.testing import check_function

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.float32([[1, 10], [0, 1], [2, 0]])
C = np.float32([100, 200])


def test_gemm_matches_values_computed_by_hand() -> None:
    assert ops.gemm(A, B, C).tolist() == [[104, 201], [113, 234]]


@pytest.mark.parametrize("bias", [None, C])
def test_gemm_matches_numpy_on_engines(bias: np.ndarray | None) -> None:
    check_function(lambda a: ops.gemm(a, B, bias), A)


def test_transposed_weights_are_not_copied() -> None:
    lying = np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32)
    rows = np.arange(96, dtype=np.float32).reshape(2, 48)
    graph = check_function(lambda a: ops.gemm(a, lying, trans_b=True), rows)
    assert [op.op for op in graph.ops] == ["Gemm"]
    weights = graph.ops[0].inputs[1]
    assert weights is not None and weights.const is not None and np.shares_memory(weights.const, lying)
    assert np.allclose(ops.gemm(rows, lying, trans_b=True), rows @ lying.T)


def test_arrays_that_are_not_matrices_are_refused() -> None:
    with pytest.raises(LayerError, match=r"multiplies two matrices, got shapes \(3,\) and \(3, 2\)"):
        ops.gemm(A[0], B)


def test_wrong_number_of_columns_is_refused() -> None:
    with pytest.raises(LayerError, match=r"gemm needs 2 columns, got an input of shape \(2, 3\)"):
        ops.gemm(A, B, trans_b=True)


def test_wrong_shape_of_the_bias_is_refused() -> None:
    with pytest.raises(LayerError, match=r"gemm needs a bias of shape \(2,\), got \(3,\)"):
        ops.gemm(A, B, A[0])
