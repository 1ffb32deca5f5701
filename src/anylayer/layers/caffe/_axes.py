"""Axes as Caffe counts them (include/caffe/blob.hpp CanonicalAxisIndex), and shapes that must fit along them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from anylayer.layer import need

LARGEST_MAP = 1 << 27
"""Most cells a map may have once it is padded."""


def canonical(axis: int, x: Any, name: str = "axis") -> int:
    """`axis` of `x` as an index from 0; a negative one counts from the end."""
    rank = len(x.shape)
    need(
        -rank <= axis < rank,
        f"{name} must lie in {-rank}..{rank - 1} for an input of shape {tuple(x.shape)}, got {axis}",
    )
    return axis % rank


def spread(x: Any, operand_shape: Sequence[int], axis: int, what: str) -> tuple[int, ...]:
    """The shape that lets an operand, whose axes lie on those of `x` from `axis` on, broadcast against `x`.

    Raises LayerError where the operand's shape is not that of `x` from `axis` on.
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


def learned(x: Any, axis: int, num_axes: int) -> tuple[int, ...]:
    """The shape of a weight that covers `num_axes` axes of `x` from `axis` on (-1: all of them; 0: one value)."""
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
    """Refuse padding that makes a map huge: a file may claim any."""
    padded = tuple(n + 2 * p for n, p in zip(sizes, pads))
    need(
        not any(pads) or prod(padded) <= LARGEST_MAP,
        f"pad {tuple(pads)} makes a map of {padded} out of {tuple(sizes)}: more than {LARGEST_MAP} cells",
    )
