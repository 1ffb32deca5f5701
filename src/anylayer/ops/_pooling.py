"""The arguments and the windows of the pooling operators."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from anylayer.errors import TraceError, need
from anylayer.graph.symbolic import is_symbolic, same, same_shape
from anylayer.network import Array, Function
from anylayer.ops._spatial import (
    Ints,
    Pairs,
    extent,
    grow_pads,
    need_room,
    pad_pairs,
    per_axis,
    spatial_rank,
    window_counts,
)


class PoolingPlan(NamedTuple):
    """The checked arguments of a pooling, one value per spatial axis.

    `pads` holds (begin, end) of the pads as given. `full_pads` holds the pads with each end enlarged until every
    window lies inside. `counts` is the number of windows.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pairs
    full_pads: Pairs
    counts: tuple[int, ...]


def pooling(
    x: Array, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, ceil_mode: bool, what: str
) -> PoolingPlan:
    """Return the checked arguments of a pooling over `x` (N, C, ...). `what` is the operator's name in messages.

    Raises LayerError if the kernel does not fit, or if a window would lie completely in the padding.
    """
    axes = spatial_rank(x, what)
    size = per_axis(kernel, axes, "kernel")
    strides, dilations = per_axis(strides, axes, "strides"), per_axis(dilations, axes, "dilations")
    pairs, sizes = pad_pairs(pads, axes), x.shape[2:]
    for axis, (k, d, pair) in enumerate(zip(size, dilations, pairs)):
        need(
            max(pair) < extent(k, d),
            f"pads {pair[0]} + {pair[1]} of spatial axis {axis} must be smaller than the kernel of "
            f"{extent(k, d)}: a window would lie wholly in the padding",
        )
    counts = window_counts(sizes, size, strides, pairs, dilations, ceil_mode)
    for axis, (n, k, s, (begin, _), d, count) in enumerate(zip(sizes, size, strides, pairs, dilations, counts)):
        if d == 1 or begin == 0 or n >= d:  # a window has a cell inside
            continue
        cells = np.arange(count)[:, None] * s + np.arange(k) * d - begin
        need(
            ((cells >= 0) & (cells < n)).any(axis=1).all(),
            f"a window of {k} cells dilated by {d} lies wholly in the padding of spatial axis {axis} ({n} cells)",
        )
    need_room((*x.shape[:2], *counts), "the result")
    full = grow_pads(sizes, size, strides, pairs, dilations, counts) if ceil_mode else pairs
    return PoolingPlan(size, strides, dilations, pairs, full, counts)


def reduce_open_windows(x: Array, plan: PoolingPlan, reduction: Function) -> Any:
    """Return `reduction` (np.max or np.mean) of every window, if the size of a window is symbolic, else None.

    No attribute states such a size, so the windows become axes of `x`. Raises TraceError if they overlap or do not
    cover the map.
    """
    if not any(map(is_symbolic, plan.kernel)):
        return None
    apart = all(same(k, s) or same(count, 1) for k, s, count in zip(plan.kernel, plan.strides, plan.counts))
    need(
        apart and same_shape([k * count for k, count in zip(plan.kernel, plan.counts)], x.shape[2:]),
        f"a kernel of {list(plan.kernel)} cells, which depends on the sizes of the network's inputs, must not "
        f"overlap with the next window, and all windows must cover the map",
        TraceError,
    )
    axes = range(2, len(x.shape))
    if all(same(count, 1) for count in plan.counts):
        return reduction(x, axis=tuple(axes), keepdims=True)
    cells = x.reshape(*x.shape[:2], *chain(*zip(plan.counts, plan.kernel)))
    return reduction(cells, axis=tuple(2 * axis - 1 for axis in axes))


def reduce_windows(data: Array, plan: PoolingPlan, ufunc: np.ufunc) -> Array:
    """Return `ufunc` reduced over every window of the padded `data` (N, C, ...): (N, C, *plan.counts).

    The axes are reduced one after the other.
    """
    for axis, (k, s, d, count) in enumerate(zip(plan.kernel, plan.strides, plan.dilations, plan.counts), 2):

        def along(first: int, stop: int, step: int, axis: int = axis) -> tuple[slice, ...]:
            return (*(slice(None),) * axis, slice(first, stop, step))

        if count == 1:
            data = ufunc.reduce(data[along(0, extent(k, d), d)], axis=axis, keepdims=True)
            continue
        total = data[along(0, (count - 1) * s + 1, s)].copy()
        for t in range(1, k):
            part = data[along(t * d, t * d + (count - 1) * s + 1, s)]
            ufunc(total, part, out=total)
        data = total
    return data
