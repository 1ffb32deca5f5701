"""Shapes as values, and values made of shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import (
    Enum,
    Operation,
    attribute,
    axes_of,
    axis_of,
    count_of,
    known,
    layer,
    need,
    single,
    whole,
)

_MOST = 1 << 26


class _Sized(Operation):
    out_type: str = attribute(Enum("int32", "int64"), "int32")


@layer("Shape")
class Shape(_Sized):
    """The sizes of the axes."""

    def forward(self, x: Any) -> Any:
        return np.array(x.shape, self.out_type)


@layer("ShapeN")
class ShapeN(_Sized):
    """The sizes of the axes of each input."""

    N: int = attribute("int64")

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("output", count_of(attr, "N")),)

    def forward(self, *xs: Any) -> Any:
        return [np.array(x.shape, self.out_type) for x in xs]


@layer("Size")
class Size(_Sized):
    """The number of values."""

    def forward(self, x: Any) -> Any:
        return np.array(math.prod(x.shape), self.out_type)


@layer("Rank")
class Rank(Operation):
    """The number of axes."""

    def forward(self, x: Any) -> Any:
        return np.array(len(x.shape), np.int32)


@layer("Reshape")
class Reshape(Operation):
    """The same values in another shape; one size may be -1: what is left."""

    def forward(self, x: Any, shape: Any) -> Any:
        wanted = whole(shape, "shape")
        need(
            wanted.count(-1) <= 1 and all(d >= -1 for d in wanted),
            f"shape must be sizes of which one may be -1, got {wanted}",
        )
        count, rest = math.prod(x.shape), math.prod(d for d in wanted if d >= 0)
        if -1 in wanted:
            need(rest and count % rest == 0, f"{count} values of {tuple(x.shape)} do not divide into {wanted}")
            wanted[wanted.index(-1)] = count // rest
        need(
            math.prod(wanted) == count,
            f"{count} values of {tuple(x.shape)} do not fit shape {wanted}, which has {math.prod(wanted)}",
        )
        return x.reshape(wanted)


@layer("Flatten")
class Flatten(Operation):
    """All axes behind the first as one (written by OpenCV's tools for text graphs)."""

    def forward(self, x: Any) -> Any:
        need(len(x.shape) >= 1, "a scalar has no axis")
        return x.reshape(x.shape[0], math.prod(x.shape[1:]))


@layer("Squeeze")
class Squeeze(Operation):
    """Without axes of size 1: those named, or all of them."""

    squeeze_dims: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Any) -> Any:
        rank = len(x.shape)
        gone = axes_of(self.squeeze_dims, rank, "squeeze_dims") or [i for i, d in enumerate(x.shape) if d == 1]
        for axis in gone:
            need(x.shape[axis] == 1, f"axis {axis} of {tuple(x.shape)} has size {x.shape[axis]}, 1 is needed")
        return x.reshape([d for i, d in enumerate(x.shape) if i not in gone])


@layer("ExpandDims")
class ExpandDims(Operation):
    """With a further axis of size 1."""

    def forward(self, x: Any, dim: Any) -> Any:
        axis = axis_of(single(dim, "dim"), len(x.shape) + 1, "dim")
        return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))


@layer("Fill")
class Fill(Operation):
    """One value in a given shape."""

    harmless = frozenset({"index_type"})

    def forward(self, dims: Any, value: Any) -> Any:
        return np.broadcast_to(value, _sizes(dims, "dims"))


@layer("BroadcastTo")
class BroadcastTo(Operation):
    """The values repeated along axes of size 1, and along new axes in front."""

    def forward(self, x: Any, shape: Any) -> Any:
        return np.broadcast_to(x, _sizes(shape, "shape"))


def _sizes(value: Any, what: str) -> list[int]:
    sizes = whole(value, what)
    need(all(d >= 0 for d in sizes), f"{what} must be sizes, got {sizes}")
    return sizes


@layer("BroadcastArgs")
class BroadcastArgs(Operation):
    """The shape that two shapes broadcast to."""

    def forward(self, a: Any, b: Any) -> Any:
        return np.array(np.broadcast_shapes(tuple(whole(a, "s0")), tuple(whole(b, "s1"))), a.dtype)


@layer("Range")
class Range(Operation):
    """start, start + delta, ... below limit."""

    def forward(self, start: Any, limit: Any, delta: Any) -> Any:
        first, last, step = (known(v, n) for v, n in ((start, "start"), (limit, "limit"), (delta, "delta")))
        need(step != 0, "delta must not be 0")
        count = (
            math.ceil((float(last) - float(first)) / float(step))
            if np.isfinite([first, last, step]).all()
            else _MOST
        )
        need(count < _MOST, f"from {first} to {last} by {step} would be {count} values, {_MOST} are the most")
        return first + np.arange(max(count, 0), dtype=first.dtype) * step


@layer("LinSpace")
class LinSpace(Operation):
    """Values at equal distances from start to stop."""

    def forward(self, start: Any, stop: Any, num: Any) -> Any:
        first, last, count = known(start, "start"), known(stop, "stop"), single(num, "num")
        need(0 < count < _MOST, f"num must lie in 1..{_MOST - 1}, got {count}")
        return np.linspace(first, last, count, dtype=first.dtype)


@layer("InvertPermutation")
class InvertPermutation(Operation):
    """Where each number stands in a permutation."""

    def forward(self, x: Any) -> Any:
        order = whole(x, "x")
        need(sorted(order) == list(range(len(order))), f"x must be a permutation, got {order[:20]}")
        return np.argsort(known(x, "x")).astype(x.dtype)
