"""Pooling and unpooling match loops over windows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.errors import TraceError
from anylayer.network import Array
from tests.compile.open_sizes import check_sizes
from tests.ops.harness import agree, noise, numbers, refuses

# input, kernel, strides, pads, dilations
CASES: dict[str, tuple[Any, ...]] = {
    "halves": ((1, 2, 6, 8), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    "ragged": ((2, 3, 6, 7), (3, 2), (2, 3), (0, 0, 0, 0), (1, 1)),
    "padded": ((1, 2, 6, 5), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "uneven": ((1, 2, 5, 6), (3, 4), (2, 3), (2, 0, 1, 3), (1, 1)),
    "stride beyond the kernel": ((1, 1, 7, 8), (2, 2), (3, 3), (0, 0, 0, 0), (1, 1)),
    "whole map": ((2, 3, 4, 5), (4, 5), (1, 1), (0, 0, 0, 0), (1, 1)),
    "dilated": ((1, 2, 7, 8), (2, 3), (1, 2), (1, 1, 1, 1), (2, 2)),
    "dilated beyond the kernel": ((1, 2, 7, 8), (2, 2), (1, 2), (2, 3, 0, 1), (3, 4)),
    "line": ((2, 2, 9), (3,), (2,), (1, 1), (1,)),
    "volume": ((1, 2, 4, 5, 6), (2, 3, 2), (2, 2, 1), (0, 1, 0, 1, 1, 0), (1, 1, 1)),
}


def windows(
    shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil: bool,
) -> Any:
    """Return the sizes of the result, and the position and the cells of each window.

    The cells include those in the padding.
    """
    axes, sizes = len(kernel), []
    for a in range(axes):
        n, begin, end = shape[a + 2], pads[a], pads[a + axes]
        spare = n + begin + end - (kernel[a] - 1) * dilations[a] - 1
        count = int(np.ceil(spare / strides[a]) if ceil else np.floor(spare / strides[a])) + 1
        while ceil and (count - 1) * strides[a] >= n + begin:
            count -= 1
        sizes.append(count)
    listed = []
    for at in product(*map(range, sizes)):
        starts = [p * s - pads[a] for a, (p, s) in enumerate(zip(at, strides))]
        cells = product(*([s + c * d for c in range(k)] for s, k, d in zip(starts, kernel, dilations)))
        listed.append((at, list(cells)))
    return sizes, listed


def inside(cell: Sequence[int], shape: Sequence[int]) -> bool:
    return all(0 <= c < n for c, n in zip(cell, shape[2:]))


def pooled(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil: bool,
    rule: str,
) -> Array:
    sizes, listed = windows(x.shape, kernel, strides, pads, dilations, ceil)
    y = np.zeros((*x.shape[:2], *sizes))
    axes = len(kernel)
    for at, cells in listed:
        seen = np.stack([x[(..., *c)] for c in cells if inside(c, x.shape)])
        if rule == "max":
            y[(..., *at)] = seen.max(0)
            continue
        counted = len(seen)
        if rule == "with pads":
            counted = sum(
                all(-pads[a] <= c[a] < x.shape[a + 2] + pads[a + axes] for a in range(axes)) for c in cells
            )
        y[(..., *at)] = seen.sum(0) / counted
    return y


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_max_pool_matches_its_definition(name: str, ceil: bool) -> None:
    shape, kernel, strides, pads, dilations = CASES[name]
    x = noise(*shape)
    expected = pooled(x, kernel, strides, pads, dilations, ceil, "max")
    y = ops.max_pool(x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, expected)
    z, indices = ops.max_pool_with_indices(
        x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil
    )
    np.testing.assert_array_equal(z, expected)
    flat = np.take_along_axis(x.reshape(*x.shape[:2], -1), indices.reshape(*x.shape[:2], -1), 2)
    np.testing.assert_array_equal(flat.reshape(y.shape), expected)


@pytest.mark.parametrize("rule", ["map only", "with pads"])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_average_pool_matches_its_definition(name: str, ceil: bool, rule: str) -> None:
    shape, kernel, strides, pads, dilations = CASES[name]
    x = noise(*shape)
    how = {"strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": ceil}
    y = ops.average_pool(x, kernel, **how, count_include_pad=rule == "with pads")
    if {*dilations} != {1}:
        agree(lambda x: ops.average_pool(x, kernel, **how, count_include_pad=rule == "with pads"), x)
    np.testing.assert_allclose(y, pooled(x, kernel, strides, pads, dilations, ceil, rule), atol=1e-6)


def test_ceil_mode_matches_values_computed_by_hand() -> None:
    x = numbers(1, 1, 1, 6)
    assert ops.max_pool(x, (1, 3), strides=2).tolist() == [[[[2, 4]]]]
    assert ops.max_pool(x, (1, 3), strides=2, ceil_mode=True).tolist() == [[[[2, 4, 5]]]]
    assert ops.average_pool(x, (1, 3), strides=2, ceil_mode=True).tolist() == [[[[1, 3, 4.5]]]]
    # a window that would start past the map is left out
    assert ops.max_pool(x, (1, 2), strides=6, ceil_mode=True).tolist() == [[[[1]]]]


def test_average_pool_counts_pads_but_not_the_overhang() -> None:
    x = np.ones((1, 1, 1, 4), np.float32)
    y = ops.average_pool(x, (1, 3), strides=2, pads=(0, 1), ceil_mode=True, count_include_pad=True)
    # the last window holds a 1 and a pad; its third cell is ignored
    np.testing.assert_allclose(y[0, 0, 0], [2 / 3, 1, 1 / 2], rtol=1e-6)


def test_index_of_equal_values_is_the_first() -> None:
    x = np.zeros((2, 2, 4, 4), np.float32)
    _, indices = ops.max_pool_with_indices(x, 2, strides=2)
    assert indices.dtype == np.int64
    assert (indices == [[0, 2], [8, 10]]).all()
    agree(lambda x: ops.max_pool_with_indices(x, 2, strides=2), x)
    agree(lambda x: ops.max_pool_with_indices(x, 3, strides=2, pads=1), -np.ones((1, 2, 5, 4), np.float32))


@pytest.mark.parametrize("ceil", [False, True])
def test_max_pool_matches_numpy_on_engines(ceil: bool) -> None:
    planar = [c for c in CASES.values() if len(c[1]) == 2]

    def run(*inputs: Array) -> list[Array]:
        results = []
        for x, (_, kernel, strides, pads, dilations) in zip(inputs, planar):
            results.append(
                ops.max_pool(x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil)
            )
            results += ops.max_pool_with_indices(
                x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil
            )
        return results

    agree(run, *(noise(*c[0], seed=i) for i, c in enumerate(planar)))


@pytest.mark.parametrize("include", [False, True])
def test_average_pool_matches_numpy_on_engines(include: bool) -> None:
    cases = [c for n, c in CASES.items() if "dilated" not in n]

    def run(*inputs: Array) -> list[Array]:
        return [
            ops.average_pool(x, kernel, strides=strides, pads=pads, ceil_mode=ceil, count_include_pad=include)
            for x, (_, kernel, strides, pads, _) in zip(inputs, cases)
            for ceil in (False, True)
        ]

    agree(run, *(noise(*c[0], seed=i) for i, c in enumerate(cases)))


def test_kernel_that_exceeds_the_map_by_less_than_a_stride_has_one_window_in_ceil_mode() -> None:
    x = numbers(1, 1, 2, 2)
    assert ops.max_pool(x, 3, strides=2, ceil_mode=True).tolist() == [[[[x.max()]]]]
    assert ops.average_pool(x, 3, strides=2, ceil_mode=True).tolist() == [[[[x.mean()]]]]
    refuses("a kernel of 4 does not fit", ops.max_pool, x, 4, strides=2, ceil_mode=True)
    agree(lambda x: ops.average_pool(x, 3, strides=2, ceil_mode=True), x)


@pytest.mark.parametrize("pool", [ops.max_pool, ops.average_pool])
def test_windows_of_open_size(pool: Any) -> None:
    """They cover the map, so that they become axes; a single one is a reduction."""

    def halves(x: Array) -> Any:
        return pool(x, (x.shape[2] // 2, x.shape[3]), strides=(x.shape[2] // 2, 1))

    sizes = [{"H": 2, "W": 6}, {"H": 3, "W": 5}, {"H": 5, "W": 1}]
    shape = (1, 2, "2*H", "W")
    graph = check_sizes(halves, shape, first=sizes[0], second=sizes[1], others=sizes)
    assert {"ReduceMax", "ReduceMean"} & {o.op for o in graph.ops}
    whole = check_sizes(
        lambda x: pool(x, x.shape[2:]), (1, 2, "H", "W"), first=sizes[0], second=sizes[1], others=sizes
    )
    assert len(whole.ops) == 1
    with pytest.raises(TraceError, match="must not overlap with the next window"):
        check_sizes(
            lambda x: pool(x, x.shape[2:], pads=1), (1, 2, "H", "W"), first=sizes[0], second=sizes[1], others=[]
        )


def test_pads_of_ceil_mode_are_numbers_at_open_sizes() -> None:
    sizes = [{"H": 7, "W": 6}, {"H": 8, "W": 5}, {"H": 9, "W": 4}]
    graph = check_sizes(
        lambda x: ops.average_pool(x, 3, strides=2, pads=1, ceil_mode=True, count_include_pad=True),
        (1, 2, "H", "W"), first=sizes[0], second=sizes[1], others=sizes,
    )  # fmt: skip
    assert "Pad" not in {o.op for o in graph.ops}


def test_pooling_of_one_and_three_spatial_axes_on_engines() -> None:
    def run(line: Array, volume: Array) -> list[Array]:
        return [
            ops.max_pool(line, 3, strides=2, pads=1, ceil_mode=True),
            *ops.max_pool_with_indices(line, 3, strides=2, ceil_mode=True),
            ops.max_pool(volume, (2, 3, 2), strides=(2, 2, 1), pads=(0, 1, 0)),
            *ops.max_pool_with_indices(volume, 2, strides=2),
        ]

    agree(run, noise(2, 2, 8), noise(1, 2, 4, 5, 6))


def test_max_unpool_restores_the_maxima() -> None:
    x = noise(2, 3, 6, 8)
    y, indices = ops.max_pool_with_indices(x, 2, strides=2)
    back = ops.max_unpool(y, indices, (6, 8))
    assert ((back == x) | (back == 0)).all()
    assert (back != 0).sum() == y.size
    np.testing.assert_array_equal(ops.max_unpool(y, indices.astype(np.float32), (6, 8)), back)


def test_max_unpool_matches_values_computed_by_hand() -> None:
    x = np.array([[[[5, 6, 7]]]], np.float32)
    assert ops.max_unpool(x, np.array([[[[3, 0, 3]]]]), (2, 3)).tolist() == [[[[6, 0, 0], [7, 0, 0]]]]


def test_max_unpool_matches_numpy_on_engines() -> None:
    def run(x: Array, places: Array, repeated: Array) -> list[Array]:
        y, indices = ops.max_pool_with_indices(x, 2, strides=2)
        return [
            ops.max_unpool(y, indices, (6, 8)),
            ops.max_unpool(y, places, (5, 5)),
            ops.max_unpool(y, repeated, 2),
        ]

    x = noise(1, 2, 6, 8)
    places = np.stack([np.random.default_rng(i).permutation(25)[:12] for i in (0, 1)]).reshape(1, 2, 3, 4)
    agree(run, x, places.astype(np.float32), np.arange(24).reshape(1, 2, 3, 4) // 3 % 4)


def test_pooling_refuses_invalid_arguments() -> None:
    x = noise(1, 2, 5, 5)
    refuses(
        "max_pool needs an input (N, C, ...) of rank 3 or more, got shape (1, 2)", ops.max_pool, x[:, :, 0, 0], 2
    )
    refuses("kernel must be an integer of at least 1, got 0", ops.max_pool, x, 0)
    refuses("kernel must be 1 or 2 numbers, got 3: [2, 2, 2]", ops.average_pool, x, (2, 2, 2))
    refuses("strides must be an integer of at least 1, got 0", ops.average_pool, x, 2, strides=0)
    refuses("dilations must be an integer of at least 1, got 0", ops.max_pool, x, 2, dilations=0)
    refuses("a kernel of 6 does not fit spatial axis 0: 5 cells and pads 0 + 0", ops.max_pool, x, (6, 1))
    refuses(
        "pads 2 + 2 of spatial axis 0 must be smaller than the kernel of 2: a window would lie wholly in the "
        "padding",
        ops.max_pool,
        x,
        2,
        pads=2,
    )
    refuses(
        "pads 0 + 3 of spatial axis 1 must be smaller than the kernel of 3",
        ops.average_pool,
        x,
        3,
        pads=(0, 0, 0, 3),
    )
    refuses(
        "a window of 2 cells dilated by 4 lies wholly in the padding of spatial axis 0 (3 cells)",
        ops.max_pool,
        x[:, :, :3],
        (2, 1),
        pads=(3, 0),
        dilations=(4, 1),
    )
    refuses(
        "max_pool_with_indices takes kernels of up to 1024 cells, got 1089",
        ops.max_pool_with_indices,
        noise(1, 1, 40, 40),
        33,
    )
    huge = 10**6
    refuses("a padded map of shape (2000003, 2000003) would have", ops.max_pool, x, huge, pads=huge - 1)


def test_max_unpool_refuses_invalid_arguments() -> None:
    x = noise(1, 1, 2, 2)
    indices = np.arange(4).reshape(1, 1, 2, 2)
    refuses("index [4] is outside a map of 4 cells (2, 2)", ops.max_unpool, x, indices + 1, (2, 2))
    refuses("index [-1] is outside a map of 9 cells (3, 3)", ops.max_unpool, x, indices - 1, 3)
    refuses(
        "indices must be of the shape of the values (1, 1, 2, 2), got (1, 2, 2)", ops.max_unpool, x, indices[0], 3
    )
    refuses("output_size must be an integer of at least 1, got 0", ops.max_unpool, x, indices, 0)
    refuses("the result of shape (1, 1, 1000000, 1000000) would have", ops.max_unpool, x, indices, 10**6)
