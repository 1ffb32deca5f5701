"""Functions that layers of several formats share. The caller passes the names that error messages use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, need
from anylayer.layer.arguments import axes_in, axes_of, axis_of, integers, need_within, part_sizes
from anylayer.network import Function

Pairs = Sequence[tuple[int, int]]
MAX_RANGE = 1 << 26
"""Limit on the number of values that a range makes."""
MAX_DEPTH = 1 << 24
"""Classes of a one-hot encoding."""
MAX_WINDOWS = 1 << 12
"""Windows per axis of a pooling to a size."""


def concatenate(xs: Sequence[Array], axis: int, what: str = "axis") -> Array:
    """Return arrays of equal shapes, except along the axis, concatenated."""
    need(xs, "needs 1 input or more, got 0")
    return np.concatenate(xs, axis=axis_of(axis, len(xs[0].shape), what))


def split(x: Array, axis: int, count: int, what: str) -> list[Array]:
    """Return `count` equal parts of an array along an axis in 0..rank-1."""
    n = x.shape[axis]
    need(count > 0 and n % count == 0, f"{what}={count} does not divide axis {axis} of size {n}")
    return list(np.split(x, count, axis=axis))


def split_by_sizes(x: Array, axis: int, sizes: Sequence[int], what: str) -> list[Array]:
    """Return the parts of an array along an axis in 0..rank-1. One size may be -1: the rest."""
    parts = part_sizes(sizes, x.shape[axis], what)
    return list(np.split(x, list(itertools.accumulate(parts[:-1])), axis=axis))


def transpose(x: Array, order: Sequence[int], what: str) -> Array:
    """Return an array whose axis i is axis order[i] of `x`."""
    axes = axes_of(order, len(x.shape), what)
    need(len(axes) == len(x.shape), f"{what} must name {len(x.shape)} axes, got {axes}")
    return x.transpose(axes)


def squeeze(x: Array, axes: Sequence[int]) -> Array:
    """Return an array without the given axes in 0..rank-1, or without all axes of size 1 if none is given."""
    gone = axes or [i for i, d in enumerate(x.shape) if d == 1]
    for axis in gone:
        need(x.shape[axis] == 1, f"axis {axis} of shape {tuple(x.shape)} must have size 1, got {x.shape[axis]}")
    return x.reshape(tuple(d for i, d in enumerate(x.shape) if i not in gone))


def unsqueeze(x: Array, axes: Sequence[int], what: str) -> Array:
    """Return an array with new axes of size 1. `axes` are their indices in the output."""
    rank = len(x.shape) + len(axes)
    places = axes_of(axes, rank, what)
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if i in places else next(sizes) for i in range(rank)))


def count_in_range(start: Any, stop: Any, step: Any, what: str) -> int:
    """Return the number of values start, start + step, ... before stop. The step is called `what`."""
    need(step != 0, f"{what} must not be 0")
    first, last, by = (float(v) for v in (start, stop, step))
    finite = np.isfinite([first, last, by]).all()
    need(finite, f"its limits must be finite, got {first:g}, {last:g}, {by:g}")
    count = max(0, math.ceil((last - first) / by))
    need(
        count < MAX_RANGE,
        f"from {start} to {stop} by {step} gives {count} values, at most {MAX_RANGE - 1} are supported",
    )
    return count


def gather(x: Array, indices: Array, axis: int, batch_dims: int) -> Array:
    """Return slices of `x` along an axis in 0..rank-1 by index.

    The first `batch_dims` axes of `x` and `indices` correspond, and each batch has indices of its own. The result
    has the shape x.shape[:axis] + indices.shape[batch_dims:] + x.shape[axis + 1:].
    """
    lead = axis_of(batch_dims, len(indices.shape) + 1, "batch_dims")
    if lead == 0:
        return ops.gather(x, indices, axis=axis)
    need(
        lead <= axis and tuple(x.shape[:lead]) == tuple(indices.shape[:lead]),
        f"the first batch_dims={lead} axes of {tuple(x.shape)} and {tuple(indices.shape)} must agree, and lie "
        f"before axis {axis}",
    )
    size, batches, picked = x.shape[axis], x.shape[:lead], indices.shape[lead:]
    count = math.prod(batches)
    rows = np.moveaxis(x, axis, lead)
    rows = rows.reshape(count * size, *rows.shape[lead + 1 :])
    first = (np.arange(count) * size).reshape(count, *(1,) * len(picked))
    need(indices.dtype.kind in "iu", f"indices must be integers, got {indices.dtype}")
    places = indices.astype(np.int64).reshape(count, *picked)
    places = np.where(places < 0, places + size, places)
    need_within(places, size)
    # an index outside its batch must not select from another batch
    places = np.where((places < 0) | (places >= size), count * size, places + first)
    slices = ops.gather(rows, places)
    slices = slices.reshape(*batches, *picked, *slices.shape[1 + len(picked) :])
    between = range(axis - lead)  # the axes between the batches and the indexed axis
    return np.moveaxis(slices, [lead + len(picked) + i for i in between], [lead + i for i in between])


def one_hot(indices: Array, depth: int, axis: int, on: Array, off: Array) -> Array:
    """Return an array with a new axis of size `depth`: `on` at the position that the index names, `off` elsewhere.

    An index outside 0..depth-1 gives only `off`.
    """
    need(0 <= depth < MAX_DEPTH, f"depth must lie in 0..{MAX_DEPTH - 1}, got {depth}")
    rank = len(indices.shape)
    axis = axis_of(axis, rank + 1)
    classes = np.arange(depth).reshape(-1, *(1,) * (rank - axis))
    expanded = indices.reshape((*indices.shape[:axis], 1, *indices.shape[axis:]))
    return np.where(expanded == classes, on, off)


def reverse_sequences(x: Array, lengths: Array, batch: tuple[int, str], time: tuple[int, str]) -> Array:
    """Return `x` with the first lengths[b] steps of each sequence b reversed.

    `batch` and `time` are the axes of the sequences and of their steps, each with its name.
    """
    rank = len(x.shape)
    axes = tuple(axis_of(axis, rank, what) for axis, what in (batch, time))
    need(axes[0] != axes[1], f"{batch[1]} and {time[1]} must differ, got {axes[0]} for both")
    front = np.moveaxis(x, axes, (0, 1))
    return np.moveaxis(ops.reverse_sequence(front, lengths, time_axis=1, batch_axis=0), (0, 1), axes)


def decoded_labels(label: Array, is_emitted: Array, merge: bool) -> tuple[Array, Array]:
    """Return the emitted labels of sequences (N, T), padded with -1 at their ends, and which steps emit them.

    merge: whether a step that has the label of the step before emits nothing (CTC).
    """
    n, t = label.shape
    if merge:
        before = np.concatenate([np.full((n, 1), -1, np.int64), label[:, :-1]], axis=1)
        is_emitted = is_emitted & (label != before)
    step = np.sort(np.where(is_emitted, np.arange(t), t), axis=1)
    emitted = np.take_along_axis(label, np.minimum(step, t - 1), axis=1)
    return np.where(step < t, emitted, -1), is_emitted


def total(x: Array, **how: Any) -> Any:
    """Return the sum over axes, in the dtype of `x`."""
    return np.sum(x, dtype=x.dtype, **how)


def product(x: Array, **how: Any) -> Any:
    """Return the product over axes, in the dtype of `x`."""
    return np.prod(x, dtype=x.dtype, **how)


def euclidean_norm(x: Array, **how: Any) -> Any:
    """Return the square root of the sum of squares over axes."""
    return np.sqrt(total(x * x, **how))


def standardize(x: Array, axes: Sequence[int], epsilon: float) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon), with the mean and variance over axes."""
    centered = x - x.mean(axis=tuple(axes), keepdims=True)
    variance = (centered * centered).mean(axis=tuple(axes), keepdims=True)
    return centered / np.sqrt(variance + x.dtype.type(epsilon))


def standardize_groups(x: Array, groups: int, epsilon: float) -> Array:
    """Return `x` (N, C, ...), standardized over each of num_groups groups of channels."""
    n, c = x.shape[:2]
    need(groups > 0 and c % groups == 0, f"num_groups={groups} does not divide {c} channels")
    return standardize(x.reshape(n, groups, -1), [2], epsilon).reshape(x.shape)


def affine(x: Array, scale: Array, bias: Array, axis: int = 1) -> Array:
    """Return x * scale + bias, where scale and bias have one number per index of an axis in 0..rank-1."""
    wide = (-1, *(1,) * (len(x.shape) - 1 - axis))
    return x * scale.reshape(wide) + bias.reshape(wide)


def adaptive_mean(x: Array, sizes: Sequence[int]) -> Array:
    """Return the means of as many windows along each spatial axis of `x` (N, C, ...) as sizes state.

    Window i of n covers the cells from floor(i * d / n) to ceil((i + 1) * d / n) of an axis of size d.
    """
    need(len(sizes) == len(x.shape) - 2, f"the output's shape must have {len(x.shape) - 2} sizes, got {[*sizes]}")
    need(min(sizes) >= 1, f"the output's shape must be positive, got {[*sizes]}")
    need(max(sizes) <= MAX_WINDOWS, f"at most {MAX_WINDOWS} windows per axis are supported, got {[*sizes]}")
    for axis, count in enumerate(sizes, 2):
        if count == 1:
            x = x.mean(axis=axis, keepdims=True)
            continue
        n, place, cell = x.shape[axis], np.arange(count), np.arange(x.shape[axis])[:, None]
        inside = (cell >= place * n // count) & (cell < -(-(place + 1) * n // count))
        weights = (inside / inside.sum(axis=0)).astype(x.dtype)
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ weights, -1, axis)
    return x


def reduction(function: Function, what: str) -> Function:
    """Return the reduction of an array over axes that a constant input names; over none, it returns the array.

    `function` has the arguments of np.max, and `what` is the name of the axes.
    """

    def reduce(x: Array, axes: Array, keep_dims: bool) -> Any:
        over = tuple(sorted(axes_in(x, axes, what)))
        return function(x, axis=over, keepdims=keep_dims).astype(x.dtype) if over else x

    return reduce


def round_half_away(x: Array) -> Any:
    """Return the nearest integers of floats, with halves rounded away from zero (round of C)."""
    whole = np.floor(np.abs(x))
    return np.sign(x) * (whole + (np.abs(x) - whole >= x.dtype.type(0.5)).astype(x.dtype))


def cumulative_sum(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the cumulative sum along an axis, with the shape and dtype of `x`.

    exclusive: element i is the sum of the elements before i. reverse: the sum starts at the end of the axis.
    """
    y = np.flip(x, axis) if reverse else x
    if exclusive:
        padding = [(0, 0)] * len(x.shape)
        padding[axis] = (1, 0)
        y = np.pad(y, padding)[(slice(None),) * axis + (slice(0, x.shape[axis]),)]
    total: Array = np.cumsum(y, axis=axis, dtype=x.dtype)
    return np.flip(total, axis) if reverse else total


MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def strided_slice(x: Array, begin: Array, end: Array, strides: Array | None, **masks: Collection[int]) -> Any:
    """Return x[begin:end:strides, ...] for constants `begin`, `end` and `strides` (None: 1).

    Each mask lists entries: those without a begin, those without an end, ellipses, new axes of size 1, and those
    that are an index instead of a slice. Raises LayerError for arguments of different lengths and strides of 0.
    """
    begins, ends = integers(begin, "begin"), integers(end, "end")
    steps = [1] * len(begins) if strides is None else integers(strides, "strides")
    need(
        len(begins) == len(ends) == len(steps),
        f"begin, end and strides must have the same length, got {len(begins)}, {len(ends)} and {len(steps)}",
    )
    first, last, ellipsis, new, index = (masks[name] for name in MASKS)
    key: list[Any] = []
    for i, (low, high, step) in enumerate(zip(begins, ends, steps)):
        if i in ellipsis:
            key.append(Ellipsis)
        elif i in new:
            key.append(None)
        elif i in index:
            key.append(low)
        else:
            need(step != 0, "strides must not be 0")
            key.append(slice(None if i in first else low, None if i in last else high, step))
    return x[tuple(key)]


def space_to_batch(x: Array, block: Sequence[int], pads: Pairs) -> Array:
    """Return `x`, padded with zeros, with the pixels at the same place of their blocks as one batch.

    `block` and `pads` have one entry per axis from axis 1 on; further axes stay. Batch k * N + n of the result
    holds the pixels at place k of the blocks of sample n. Raises LayerError for a block that does not divide an
    axis.
    """
    m = _axes(x, block)
    x = np.pad(x, [(0, 0), *pads, *[(0, 0)] * (len(x.shape) - m - 1)])
    n, sizes, rest = x.shape[0], x.shape[1 : m + 1], x.shape[m + 1 :]
    for axis, (s, b) in enumerate(zip(sizes, block), 1):
        need(s % b == 0, f"block_shape {b} does not divide axis {axis} of size {s} after padding")
    y = x.reshape(n, *(v for s, b in zip(sizes, block) for v in (s // b, b)), *rest)
    y = y.transpose(*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, y.ndim))
    return y.reshape(n * math.prod(block), *(s // b for s, b in zip(sizes, block)), *rest)


def batch_to_space(x: Array, block: Sequence[int], crops: Pairs) -> Array:
    """Return `x` with each group of batches as blocks of pixels, cropped: the inverse of space_to_batch.

    Raises LayerError for a block that does not divide the batch size, and for crops that exceed an axis.
    """
    m, count = _axes(x, block), math.prod(block)
    need(x.shape[0] % count == 0, f"a block of {count} pixels does not divide the batch size {x.shape[0]}")
    n, sizes, rest = x.shape[0] // count, x.shape[1 : m + 1], x.shape[m + 1 :]
    y = x.reshape(*block, n, *sizes, *rest)
    y = y.transpose(m, *(v for i in range(m) for v in (m + 1 + i, i)), *range(2 * m + 1, y.ndim))
    y = y.reshape(n, *(s * b for s, b in zip(sizes, block)), *rest)
    for axis, (a, b) in enumerate(crops, 1):
        need(a + b <= y.shape[axis], f"crops {a} + {b} exceed the size {y.shape[axis]} of axis {axis}")
    return y[(slice(None), *(slice(a, s - b) for (a, b), s in zip(crops, y.shape[1:])))]


def _axes(x: Array, block: Sequence[int]) -> int:
    m = len(block)
    need(
        m < len(x.shape) and min(block, default=1) >= 1, f"block_shape {block} does not fit shape {tuple(x.shape)}"
    )
    return m
