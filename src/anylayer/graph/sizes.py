"""Dim: a size that is known only when the network runs; and the arithmetic of shapes that may hold one."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.graph.place import refusal


class Dim:
    """A size of at most `maximum` that depends on data. It equals only itself.

    Its product with a number is a Dim too, the same object each time, and so is an exact quotient: `2 * d` of one
    `d` is one size, and `2 * d // 2` is `d`. Any other use of its number (arithmetic, range, int, comparison by
    order) raises TraceError, so that code which would misuse it refuses by itself.
    """

    __slots__ = ("_multiples", "base", "factor", "maximum", "name")

    def __init__(self, name: str, maximum: int, *, base: Dim | None = None, factor: int = 1) -> None:
        self.name = name
        self.maximum = maximum
        self.base = self if base is None else base
        self.factor = factor
        self._multiples: dict[int, Dim] = {1: self}

    def __repr__(self) -> str:
        return f"{self.name}<={self.maximum}"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def times(self, factor: int) -> Any:
        """The size `factor` times the base: 0 for factor 0, else the one Dim of this factor."""
        base = self.base
        if factor == 0:
            return 0
        if factor < 0:
            return self._unknown()
        if factor not in base._multiples:
            name, maximum = f"{base.name}*{factor}", base.maximum * factor
            base._multiples[factor] = Dim(name, maximum, base=base, factor=factor)
        return base._multiples[factor]

    def __mul__(self, other: object) -> Any:
        return self.times(self.factor * int(other)) if isinstance(other, (int, np.integer)) else self._unknown()

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Any:
        if isinstance(other, Dim) and other.base is self.base and self.factor % other.factor == 0:
            return self.factor // other.factor
        if isinstance(other, (int, np.integer)) and other > 0 and self.factor % int(other) == 0:
            return self.times(self.factor // int(other))
        return self._unknown()

    def __mod__(self, other: object) -> Any:
        exact = isinstance(other, Dim) and other.base is self.base and self.factor % other.factor == 0
        if exact or (isinstance(other, (int, np.integer)) and other > 0 and self.factor % int(other) == 0):
            return 0
        return self._unknown()

    def _unknown(self, *_: object) -> Any:
        raise refusal(f"the size {self!r} is known only when the network runs")

    __bool__ = __int__ = __index__ = __float__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = _unknown
    __truediv__ = __rtruediv__ = __rfloordiv__ = __rmod__ = _unknown
    __pow__ = __rpow__ = __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown


def is_static(shape: Sequence[Any]) -> bool:
    """Whether every size is a number."""
    return not any(isinstance(d, Dim) for d in shape)


def size_of(shape: Sequence[Any]) -> int:
    """The number of elements. Raises TraceError where a size depends on data."""
    return math.prod(operator.index(d) for d in shape)


def product(shape: Sequence[Any]) -> tuple[int, list[Dim]]:
    """The number of elements as a number times the sizes that depend on data, which are no multiples."""
    dims = [d for d in shape if isinstance(d, Dim)]
    fixed = math.prod(d for d in shape if not isinstance(d, Dim))
    return fixed * math.prod(d.factor for d in dims), [d.base for d in dims]


def stand_for(shape: Sequence[Any]) -> tuple[int, ...]:
    """The shape with each Dim's maximum in its place."""
    return tuple(d.maximum if isinstance(d, Dim) else d for d in shape)


def broadcast(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape NumPy's broadcasting gives; a Dim meets itself or 1. Raises ValueError where shapes clash."""
    first, *others = shapes
    if all(s == first for s in others):
        return tuple(first)
    rank = max(map(len, shapes))
    result: list[Any] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in shapes if len(s) >= -axis and not is_one(s[axis])]
        if any(d != sizes[0] for d in sizes[1:]):
            shown = " ".join(f"({','.join(map(str, s))})" for s in shapes)
            raise ValueError(f"operands could not be broadcast together with shapes {shown}")
        result.append(sizes[0] if sizes else 1)
    return tuple(result)


def is_one(size: Any) -> bool:
    """Whether a size is the number 1."""
    return not isinstance(size, Dim) and size == 1


def axis_of(axis: Any, rank: int) -> int:
    """A checked axis counted from the front, as NumPy checks it."""
    return int(np.lib.array_utils.normalize_axis_index(axis, rank))


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Checked axes counted from the front; None means all of them."""
    if axis is None:
        return tuple(range(rank))
    return tuple(int(a) for a in np.lib.array_utils.normalize_axis_tuple(axis, rank))
