"""Softmax, local response normalization, batch normalization, top_k and matrix products."""

from __future__ import annotations

import numpy as np
import pytest

from anylayer import ops
from anylayer.network import Array
from anylayer.testing import check_function
from tests.engine_names import GENERAL
from tests.ops.harness import agree, noise, refuses


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -3])
def test_softmax_sums_to_one(axis: int) -> None:
    x = noise(2, 3, 4, 5) * 50
    y = ops.softmax(x, axis=axis)
    np.testing.assert_allclose(y.sum(axis), 1, rtol=1e-6)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max())
    np.testing.assert_allclose(y, e / e.sum(axis, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(np.exp(ops.log_softmax(x, axis=axis)), y, atol=1e-5)


def test_softmax_of_large_values_does_not_overflow() -> None:
    x = np.array([[1000, 1000, -1000]], np.float32)
    assert ops.softmax(x).tolist() == [[0.5, 0.5, 0]]
    np.testing.assert_allclose(ops.log_softmax(x), [[-np.log(2), -np.log(2), -2000 - np.log(2)]], rtol=1e-6)


def test_softmax_matches_numpy_on_engines() -> None:
    def run(x: Array, vector: Array) -> list[Array]:
        results = [f(x, axis=axis) for f in (ops.softmax, ops.log_softmax) for axis in (0, 1, 2, 3, -1, -3)]
        return [*results, ops.softmax(vector, axis=1), ops.log_softmax(vector, axis=1)]

    agree(run, noise(2, 3, 4, 5) * 20, noise(2, 7, 1, 1))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize(("alpha", "beta", "bias"), [(1e-4, 0.75, 1.0), (0.5, 0.5, 2.0), (2.0, 0.75, 0.5)])
def test_lrn_matches_its_definition(size: int, alpha: float, beta: float, bias: float) -> None:
    x = noise(2, 6, 3, 2)
    expected = np.zeros(x.shape)
    for c in range(6):
        near = x[:, max(c - (size - 1) // 2, 0) : c + size // 2 + 1].astype(np.float64)
        expected[:, c] = x[:, c] / (bias + alpha / size * (near**2).sum(1)) ** beta
    y = ops.lrn(x, size, alpha=alpha, beta=beta, bias=bias)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_lrn_matches_numpy_on_engines() -> None:
    def run(x: Array) -> list[Array]:
        return [
            ops.lrn(x, size, alpha=alpha, beta=beta, bias=bias)
            for size in (1, 3, 4, 5)
            for alpha, beta, bias in [(0.1, 0.75, 1.0), (2.0, 0.5, 2.0)]
        ]

    agree(run, noise(2, 4, 5, 3))
    agree(lambda x: ops.lrn(x, 3), noise(2, 6))


@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 3), (1, 4, 5, 3), (2, 4, 2, 3, 2)])
@pytest.mark.parametrize("epsilon", [1e-5, 1e-3, 0.0])
def test_batch_normalization_matches_its_definition(shape: tuple[int, ...], epsilon: float) -> None:
    x, (scale, bias, mean) = noise(*shape), noise(3, 4, seed=1)
    var = noise(4, seed=2) ** 2 + np.float32(0.1)
    expected = np.zeros(shape)
    for c in range(4):
        expected[:, c] = (x[:, c] - mean[c]) / np.sqrt(float(var[c]) + epsilon) * scale[c] + bias[c]
    y = ops.batch_normalization(x, scale, bias, mean, var, epsilon=epsilon)
    assert (y.dtype, y.shape) == (np.float32, shape)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    agree(lambda x: ops.batch_normalization(x, scale, bias, mean, var, epsilon=epsilon), x)


def test_batch_normalization_of_float16_with_statistics_of_float32_is_float16() -> None:
    x = noise(1, 3, 4, 5).astype(np.float16)
    scale, bias, mean, var = (np.abs(noise(3, seed=i)) + np.float32(0.5) for i in range(4))
    y = ops.batch_normalization(x, scale, bias, mean, var)
    assert y.dtype == np.float16
    agree(lambda x: ops.batch_normalization(x, scale, bias, mean, var), x)


def test_top_k_matches_values_computed_by_hand() -> None:
    x = np.array([[3, 1, 3, 2, 1]], np.float32)
    values, indices = ops.top_k(x, 4)
    assert values.tolist() == [[3, 3, 2, 1]]
    assert indices.tolist() == [[0, 2, 3, 1]]
    values, indices = ops.top_k(x, 3, largest=False)
    assert values.tolist() == [[1, 1, 2]]
    assert indices.tolist() == [[1, 4, 3]]
    assert indices.dtype == np.int64


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [False, True])
def test_top_k_is_a_stable_sort(largest: bool, axis: int) -> None:
    x = np.round(noise(7, 6, 5) * 2)
    values, indices = ops.top_k(x, 4, axis=axis, largest=largest)
    order = np.argsort(-x if largest else x, axis=axis, kind="stable").take(range(4), axis)
    assert (indices == order).all()
    assert (values == np.take_along_axis(x, order, axis)).all()


def test_top_k_matches_numpy_on_engines() -> None:
    def run(x: Array) -> list[Array]:
        return [
            r
            for axis in (0, 1, -1)
            for largest in (False, True)
            for k in (1, 3, 5)
            for r in ops.top_k(x, k, axis=axis, largest=largest)
        ]

    agree(run, np.round(noise(7, 6, 5) * 2))


@pytest.mark.parametrize("engine", [*GENERAL, "cpp"])
def test_indices_of_sorted_numbers_put_nan_last(engine: str) -> None:
    """NaN is last in both orders, and the smallest integer first in both: its negation is itself."""
    x = np.where(noise(4, 30) > 1, np.float32(np.nan), np.round(noise(4, 30, seed=1) * 2))
    x[0], x[1, :29] = np.nan, np.nan
    integers = np.array([5, np.iinfo(np.int32).min, 7], np.int32)

    def run(x: Array, i: Array) -> list[Array]:
        orders = [np.argsort(y, 1, kind="stable") for y in (x, -x)]
        return [*orders, orders[1][:, :5], np.argsort(-x.T, 0, kind="stable")[::-1], np.argsort(-i, kind="stable")]

    check_function(run, x, integers, engines=[engine])


def test_gemm_is_a_matrix_product() -> None:
    a, b, c = noise(3, 4), noise(4, 5, seed=1), noise(5, seed=2)
    np.testing.assert_allclose(ops.gemm(a, b, c), a.astype(np.float64) @ b + c, atol=1e-6)
    np.testing.assert_array_equal(ops.gemm(a, np.ascontiguousarray(b.T), trans_b=True), a @ b)
    agree(lambda a: [ops.gemm(a, b, c), ops.gemm(a, np.ascontiguousarray(b.T), trans_b=True)], a)


def test_invalid_arguments_are_refused() -> None:
    x = noise(2, 3, 4)
    refuses("lrn needs an input (N, C, ...), got shape (2,)", ops.lrn, x[:, 0, 0], 3)
    refuses("size must be an integer of at least 1, got 0", ops.lrn, x, 0)
    refuses("k=5 is more than the 4 values of axis 2", ops.top_k, x, 5)
    refuses("k must be an integer of at least 0, got -1", ops.top_k, x, -1)
    four, three = noise(4), noise(3)
    text = "bias must be of shape (3,), one number per channel, got (4,)"
    refuses(text, ops.batch_normalization, x, three, four, three, three)
    text = "batch_normalization needs an input (N, C, ...), got shape (3,)"
    refuses(text, ops.batch_normalization, three, three, three, three, three)
    refuses("axis must lie in -3..2 for 3 axes, got 3", ops.top_k, x, 1, axis=3)
    refuses("axis must lie in -3..2 for 3 axes, got -4", ops.softmax, x, axis=-4)
    refuses("axis must lie in -3..2 for 3 axes, got 3", ops.log_softmax, x, axis=3)
    refuses("gemm multiplies two matrices, got shapes (2, 3, 4) and (4, 5)", ops.gemm, x, noise(4, 5))
    refuses("gemm needs 4 columns, got an input of shape (3, 5)", ops.gemm, noise(3, 5), noise(4, 5))
    refuses("gemm needs a bias of shape (5,), got (4,)", ops.gemm, x[0], noise(4, 5), noise(4))
