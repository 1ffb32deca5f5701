"""Axes by number, and what the operators that gather and scatter share: checks and NumPy helpers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.errors import need
from anylayer.network import Array

_REDUCTIONS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def axis_of(axis: int, rank: int, what: str = "axis", of: str = "") -> int:
    """Return an axis as an index in 0..rank-1; a negative axis counts from the end.

    Raise LayerError when it lies outside. The message calls the axis `what`, and the array `of`.
    """
    need(-rank <= axis < rank, f"{what} must lie in {-rank}..{rank - 1} for {of or f'{rank} axes'}, got {axis}")
    return axis % rank


def axes_of(axes: Sequence[int], rank: int, what: str = "axes") -> list[int]:
    """Return several axes as indices in 0..rank-1. Raise LayerError when an axis is named twice."""
    indices = [axis_of(axis, rank, what) for axis in axes]
    need(len(set(indices)) == len(indices), f"{what} names an axis twice: {list(axes)}")
    return indices


def need_inside(x: Array, indices: Array, axis: int, what: str) -> None:
    """Raise LayerError unless `indices` has the rank of `x` and is no longer than `x` on any axis but `axis`.

    `what` is the operator's name in the message.
    """
    sizes = zip(indices.shape, x.shape)
    inside = len(indices.shape) == len(x.shape) and all(i == axis or n <= m for i, (n, m) in enumerate(sizes))
    shapes = f"indices of shape {tuple(indices.shape)} do not fit data of shape {tuple(x.shape)}"
    need(inside, f"{what}: {shapes}: they may be longer along axis {axis} only")


def need_reduction(reduction: str) -> None:
    """Raise LayerError unless `reduction` is "none", "add", "mul", "max" or "min"."""
    names = ("none", *_REDUCTIONS)
    need(reduction in names, f"reduction must be one of {', '.join(names)}, got {reduction!r}")


def in_range(indices: Array, size: int, axis: int) -> Array:
    """Return indices counted from the front: a negative index counts from the end of the axis.

    Raises LayerError for an index outside -size to size - 1 of axis `axis`.
    """
    out = (indices < -size) | (indices >= size)
    need(not out.any(), f"index {indices[out][:1]} is outside axis {axis} of size {size}")
    return np.where(indices < 0, indices + size, indices)


def indexed_part(shape: Sequence[int], axis: int) -> tuple[slice, ...]:
    """Return the key of the part of an array that `gather_elements` reads with indices of `shape`.

    The part has the size of `shape` on each axis, and the whole axis `axis`.
    """
    return tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(shape))


def nd_shape(x: Array, indices: Array, what: str) -> tuple[int, ...]:
    """Return the shape of what coordinates `indices` (..., k) select from `x`: (..., *x.shape[k:]).

    Raises LayerError unless 1 <= k <= rank of `x`. `what` is the operator's name in the message.
    """
    need(len(indices.shape) >= 1, f"{what} needs coordinates along the last axis of indices, got shape ()")
    depth = indices.shape[-1]
    fits = 1 <= depth <= len(x.shape)
    need(fits, f"{what}: {depth} coordinates per index do not fit data of shape {tuple(x.shape)}")
    return (*indices.shape[:-1], *x.shape[depth:])


def coordinates(indices: Array, shape: Sequence[int]) -> tuple[Array, ...]:
    """Return coordinates `indices` (..., k) as a NumPy key: a tuple of k index arrays, counted from the front.

    Raises LayerError for a coordinate outside its axis.
    """
    return tuple(in_range(indices[..., i], shape[i], i) for i in range(indices.shape[-1]))


def scatter(x: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """Return a copy of `x` with `updates` written to, or combined with, the elements at the key `places`."""
    y = np.array(x)
    if reduction == "none":
        y[places] = updates
    else:
        _REDUCTIONS[reduction].at(y, places, updates)
    return y
