"""Operators that gather, scatter or rearrange elements."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.network import Array
from tests.ops.harness import agree, noise, numbers, refuses

RANDOM = np.random.default_rng(5)
REDUCTIONS = ("none", "add", "mul", "max", "min")
FOLD: dict[str, Any] = {
    "none": lambda a, b: b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": max,
    "min": min,
}


def test_gather_selects_rows() -> None:
    x, at = noise(4, 3, 5), np.array([[0, -1], [2, 2]])
    for axis in (0, 1, 2, -2):
        np.testing.assert_array_equal(ops.gather(x, at, axis=axis), np.take(x, at, axis=axis))
    agree(lambda x, at: [ops.gather(x, at, axis=a) for a in (0, 1, -1)], x, at)
    agree(lambda at: ops.gather(x, at), at)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_gather_elements_matches_its_definition(axis: int) -> None:
    x = noise(4, 3, 5)
    shape = [2, 3, 4]
    shape[axis] = 6
    at = RANDOM.integers(-x.shape[axis], x.shape[axis], shape)
    y = ops.gather_elements(x, at, axis)
    for place in np.ndindex(*shape):
        source = list(place)
        source[axis] = at[place]
        assert y[place] == x[tuple(source)]
    agree(lambda x, at: ops.gather_elements(x, at, axis), x, at)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements_matches_its_definition(axis: int) -> None:
    x, shape = noise(4, 3, 5), (3, 2, 4)
    at, updates = RANDOM.integers(-x.shape[axis], x.shape[axis], shape), noise(*shape, seed=1)
    for reduction in REDUCTIONS:
        expected = x.copy()
        for place in np.ndindex(*shape):
            target: Any = list(place)
            target[axis] = at[place]
            expected[tuple(target)] = FOLD[reduction](expected[tuple(target)], updates[place])
        y = ops.scatter_elements(x, at, updates, axis=axis, reduction=reduction)
        np.testing.assert_allclose(y, expected, rtol=1e-6)
    agree(
        lambda x, at, u: [ops.scatter_elements(x, at, u, axis=axis, reduction=r) for r in REDUCTIONS],
        x,
        at,
        updates,
    )


COORDINATES = np.array([[[0, 1], [3, -1]], [[1, 2], [0, 1]]])


def test_gather_nd_matches_values_computed_by_hand() -> None:
    x = numbers(4, 3, 2)
    assert ops.gather_nd(x, COORDINATES).tolist() == [[[2, 3], [22, 23]], [[10, 11], [2, 3]]]
    assert ops.gather_nd(x, np.array([[1], [-1]])).shape == (2, 3, 2)
    assert ops.gather_nd(x, np.array([3, 2, 1])).tolist() == 23
    at = np.array([[1, 2, 0], [0, 0, 1]])
    agree(lambda x, a, b: [ops.gather_nd(x, a), ops.gather_nd(x, b)], x, COORDINATES, at)


def test_scatter_nd_matches_values_computed_by_hand() -> None:
    x, updates = numbers(4, 3, 2), 100 + numbers(2, 2, 2)
    y = ops.scatter_nd(x, COORDINATES, updates)
    assert y[0, 1].tolist() == [106, 107]  # the last update of an element stays
    assert y[3, 2].tolist() == [102, 103] and y[1, 2].tolist() == [104, 105]
    assert (y != x).sum() == 6
    y = ops.scatter_nd(x, COORDINATES, updates, reduction="add")
    assert y[0, 1].tolist() == [2 + 100 + 106, 3 + 101 + 107]
    agree(lambda x, at, u: [ops.scatter_nd(x, at, u, reduction=r) for r in REDUCTIONS], x, COORDINATES, updates)


def test_one_hot_matches_values_computed_by_hand() -> None:
    at = np.array([[0, -1], [3, -4]])
    y = ops.one_hot(at, 3)
    assert y.dtype == np.float32
    assert y.tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 0, 0], [0, 0, 0]]]
    for axis in (0, 1, 2):
        np.testing.assert_array_equal(ops.one_hot(at, 3, axis=axis), np.moveaxis(y, -1, axis))
    agree(lambda at: [ops.one_hot(at, 3, axis=a) for a in (0, 1, -1)], at)
    agree(lambda at: ops.one_hot(at, 3), at.astype(np.int32))


def test_reverse_sequence_matches_values_computed_by_hand() -> None:
    x = numbers(4, 3)
    lengths = np.array([1, 4, 3])
    expected = [[0, 10, 8], [3, 7, 5], [6, 4, 2], [9, 1, 11]]
    assert ops.reverse_sequence(x, lengths).tolist() == expected
    turned = ops.reverse_sequence(np.ascontiguousarray(x.T), lengths, time_axis=1, batch_axis=0)
    assert turned.T.tolist() == expected
    agree(lambda x, n: ops.reverse_sequence(x, n), noise(4, 3, 2), lengths)
    agree(
        lambda x, n: ops.reverse_sequence(x, n, time_axis=1, batch_axis=0),
        noise(3, 4, 2),
        lengths.astype(np.int32),
    )


def moved(x: Array, block: int, mode: str) -> Array:
    """Compute depth to space, cell by cell."""
    n, c, h, w = x.shape
    channels = c // block**2
    y = np.zeros((n, channels, h * block, w * block), x.dtype)
    for out, dy, dx in product(range(channels), range(block), range(block)):
        source = (dy * block + dx) * channels + out if mode == "DCR" else (out * block + dy) * block + dx
        y[:, out, dy::block, dx::block] = x[:, source]
    return y


@pytest.mark.parametrize("block", [1, 2, 3])
def test_depth_to_space_and_back_match_their_definitions(block: int) -> None:
    x = numbers(2, 2 * block**2, 3, 4)
    for mode in ("DCR", "CRD"):
        np.testing.assert_array_equal(ops.depth_to_space(x, block, mode=mode), moved(x, block, mode))
    np.testing.assert_array_equal(ops.space_to_depth(ops.depth_to_space(x, block), block), x)


def test_depth_to_space_and_back_match_numpy_on_engines() -> None:
    # Ascend's PassThrough: 16 values as 4 maps of 2 x 2
    assert ops.space_to_depth(numbers(1, 4, 2, 2), 2).ravel().tolist() == [
        *(0, 4, 8, 12),
        *(1, 5, 9, 13),
        *(2, 6, 10, 14),
        *(3, 7, 11, 15),
    ]

    def run(x: Array) -> list[Array]:
        return [
            ops.depth_to_space(x, 2),
            ops.depth_to_space(x, 2, mode="CRD"),
            ops.space_to_depth(x, 2),
            ops.space_to_depth(x, 1),
        ]

    agree(run, noise(2, 8, 4, 6))


def test_invalid_arguments_are_refused() -> None:
    x = noise(4, 3, 5)
    near = np.zeros((2, 3, 5), np.int64)
    refuses("axis must lie in -3..2 for shape (4, 3, 5), got 3", ops.gather, x, near, axis=3)
    refuses("gather takes integers as indices, got float32", ops.gather, x, x)
    refuses("index [4] is outside axis 0 of size 4", ops.gather, x, near + 4)
    refuses("axis must lie in -3..2 for 3 axes, got 3", ops.gather_elements, x, near, 3)
    refuses(
        "gather_elements: indices of shape (2, 4, 5) do not fit data of shape (4, 3, 5)",
        ops.gather_elements,
        x,
        np.zeros((2, 4, 5), np.int64),
        0,
    )
    refuses("index [4] is outside axis 0 of size 4", ops.gather_elements, x, near + 4, 0)
    refuses("index [-6] is outside axis 2 of size 5", ops.gather_elements, x, near - 6, 2)
    refuses("scatter_elements: indices of shape (2, 5) do not fit", ops.scatter_elements, x, near[0, :2], near)
    refuses(
        "updates must be of the shape of the indices (2, 3, 5), got (4, 3, 5)", ops.scatter_elements, x, near, x
    )
    refuses(
        "reduction must be one of none, add, mul, max, min, got 'sum'",
        ops.scatter_elements,
        x,
        near,
        x[:2],
        reduction="sum",
    )
    refuses(
        "gather_nd: 4 coordinates per index do not fit data of shape (4, 3, 5)", ops.gather_nd, x, near[0, :, :4]
    )
    refuses(
        "gather_nd needs coordinates along the last axis of indices, got shape ()", ops.gather_nd, x, np.int64(1)
    )
    refuses("index [3] is outside axis 1 of size 3", ops.gather_nd, x, np.array([0, 3]))
    refuses("updates must be of shape (5,), got (4,)", ops.scatter_nd, x, np.array([0, 1]), noise(4))
    refuses("depth must be an integer of at least 1, got 0", ops.one_hot, near, 0)
    refuses("axis must lie in -4..3 for 4 axes, got 4", ops.one_hot, near, 3, axis=4)
    refuses("the result of shape (2, 3, 5, 1000000000) would have", ops.one_hot, near, 10**9)
    refuses("lengths must be of shape (3,), got (4,)", ops.reverse_sequence, x, np.ones(4, np.int64))
    refuses("lengths must be 0 to 4, got [5 1 1]", ops.reverse_sequence, x, np.array([5, 1, 1]))
    refuses(
        "time_axis and batch_axis must be 0 and 1 of two or more axes, got 0 and 2",
        ops.reverse_sequence,
        x,
        np.ones(5, np.int64),
        batch_axis=2,
    )
    planes = noise(1, 6, 5, 4)
    refuses("space_to_depth needs an input (N, C, H, W), got shape (4, 3, 5)", ops.space_to_depth, x, 2)
    refuses("block=2 does not divide a map of 5 x 4", ops.space_to_depth, planes, 2)
    refuses("block must be an integer of at least 1, got 0", ops.space_to_depth, planes, 0)
    refuses("depth_to_space needs an input (N, C, H, W), got shape (4, 3, 5)", ops.depth_to_space, x, 2)
    refuses("block=2: 4 does not divide 6 channels", ops.depth_to_space, planes, 2)
    refuses("mode must be 'DCR' or 'CRD', got 'XYZ'", ops.depth_to_space, planes, 1, mode="XYZ")
