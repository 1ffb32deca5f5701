"""Axes as Caffe counts them, and shapes that must match from an axis on. Source: include/caffe/blob.hpp."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from anylayer.layer import Array, need
from anylayer.layer.arguments import axis_of, plain

MAX_CELLS = 1 << 27
"""Limit on the cells of a padded map."""


def canonical(axis: int, x: Array, name: str = "axis") -> int:
    """Return `axis` of `x` as an index of 0 or more; a negative axis counts from the end."""
    return axis_of(axis, len(x.shape), name, f"an input of shape {tuple(x.shape)}")


def broadcast_shape(x: Array, operand_shape: Sequence[int], axis: int, what: str) -> tuple[int, ...]:
    """Return the shape in which an operand broadcasts against `x` when its axes start at `axis` of `x`.

    Raise LayerError when the operand's shape is not that of `x` from `axis` on.
    """
    shape = tuple(operand_shape)
    if not shape:
        return ()
    start = canonical(axis, x)
    covered = tuple(x.shape[start : start + len(shape)])
    need(
        covered == shape,
        f"{what} of shape {shape} does not fit the input {tuple(x.shape)} from axis {start} on, "
        f"which needs {covered if len(covered) == len(shape) else f'at most {len(covered)} axes'}",
    )
    return shape + (1,) * (len(x.shape) - start - len(shape))


def weight_shape(x: Array, axis: int, num_axes: int) -> tuple[int, ...]:
    """Return the shape of a weight for `num_axes` axes of `x` from `axis` on (-1: all of them; 0: one value)."""
    need(num_axes >= -1, f"num_axes must be -1 or more, got {num_axes}")
    start = canonical(axis, x)
    if num_axes == -1:
        return tuple(x.shape[start:])
    need(
        start + num_axes <= len(x.shape),
        f"axis={axis} and num_axes={num_axes} reach past the input's shape {tuple(x.shape)}",
    )
    return tuple(x.shape[start : start + num_axes])


def need_padded(sizes: Sequence[int], pads: Sequence[int]) -> None:
    """Refuse padding that exceeds the limit on cells, since a file may state any number."""
    padded = tuple(n + 2 * p for n, p in zip(sizes, pads))
    need(
        not any(pads) or prod(plain(padded)) <= MAX_CELLS,
        f"pad {tuple(pads)} turns a map of {tuple(sizes)} into {padded}, at most {MAX_CELLS} cells are allowed",
    )


def need_output_apart(in_place: bool) -> None:
    """Refuse a layer whose first bottom and first top have one name."""
    need(not in_place, "cannot work in place: give the top another name than the bottom")
