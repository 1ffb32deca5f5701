"""Arguments of the operators that gather and scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import need

_REDUCTIONS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def axis_of(axis: int, rank: int) -> int:
    """`axis` counted from the front."""
    need(-rank <= axis < rank, f"axis {axis} is not one of {rank} axes")
    return axis % rank


def need_inside(x: Any, indices: Any, axis: int, what: str) -> None:
    """Refuse indices of another rank than `x`, or longer than it on an axis they do not pick from."""
    sizes = zip(indices.shape, x.shape)
    inside = len(indices.shape) == len(x.shape) and all(i == axis or n <= m for i, (n, m) in enumerate(sizes))
    need(inside, f"{what}: indices {tuple(indices.shape)} do not lie within {tuple(x.shape)} beside axis {axis}")


def need_reduction(reduction: str) -> None:
    """Refuse an unknown way to combine updates."""
    known = ("none", *_REDUCTIONS)
    need(reduction in known, f"reduction must be one of {', '.join(known)}, got {reduction!r}")


def in_range(indices: Any, size: int, axis: int) -> Any:
    """Indices counted from the front; refuses one outside the axis."""
    out = (indices < -size) | (indices >= size)
    need(not out.any(), f"index {indices[out][:1]} is outside the {size} of axis {axis}")
    return np.where(indices < 0, indices + size, indices)


def within(shape: Any, axis: int) -> tuple[slice, ...]:
    """The part of an array that indices of `shape` lie over, whole along `axis`."""
    return tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(shape))


def nd_shape(x: Any, indices: Any, what: str) -> tuple[Any, ...]:
    """The shape of what coordinates (..., k) pick from `x`."""
    need(len(indices.shape) >= 1, f"{what} needs coordinates along the last axis of indices, got shape ()")
    depth = indices.shape[-1]
    fits = 1 <= depth <= len(x.shape)
    need(fits, f"{what}: coordinates of length {depth} do not name elements of {tuple(x.shape)}")
    return (*indices.shape[:-1], *x.shape[depth:])


def coordinates(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Coordinates (..., k) as an index of NumPy."""
    return tuple(in_range(indices[..., i], shape[i], i) for i in range(indices.shape[-1]))


def scatter(x: Any, places: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    """A copy of `x`, changed at `places`."""
    y = np.array(x)
    if reduction == "none":
        y[places] = updates
    else:
        _REDUCTIONS[reduction].at(y, places, updates)
    return y
