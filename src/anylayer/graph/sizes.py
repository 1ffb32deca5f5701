"""Dynamic sizes (Dim), and the arithmetic of shapes that may contain them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from anylayer.graph.guards import traces_symbolically
from anylayer.graph.place import refusal
from anylayer.graph.symbolic import Size, as_index


class Dim:
    """A dynamic size: a number of at most `maximum` that depends on data. It equals only itself.

    A product with a number is a Dim too, and so is a quotient without remainder. Each multiple of a Dim is one
    object: `2 * d is 2 * d`, and `2 * d // 2 is d`. Every other use as a number (arithmetic, range, int,
    comparison by order) raises TraceError.

    base: the Dim that this one is a multiple of; itself if it is None.
    factor: how many times the base this size is.
    sources: the sizes that this one is computed from, and `expression` how, by their names; none of others.
    """

    __slots__ = ("_multiples", "base", "expression", "factor", "maximum", "name", "sources")

    def __init__(self, name: str, maximum: int, *, base: Dim | None = None, factor: int = 1) -> None:
        self.name = name
        self.maximum = maximum
        self.base = self if base is None else base
        self.factor = factor
        self._multiples: dict[int, Dim] = {1: self}
        self.expression: Any = None
        self.sources: tuple[Dim, ...] = ()

    def __repr__(self) -> str:
        return f"{self.name}<={self.maximum}"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def times(self, factor: int) -> Any:
        """Return `factor` times the base: 0 for factor 0, otherwise the Dim of this factor."""
        base = self.base
        if factor == 0:
            return 0
        if factor < 0:
            return self._unknown()
        if factor not in base._multiples:
            name, maximum = f"{factor}*{base.name}", base.maximum * factor
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
    """Return whether every size of a shape is a number."""
    return Dim not in map(type, shape)


def size_of(shape: Sequence[Any]) -> int:
    """Return the number of elements of a shape. Raises TraceError if a size is dynamic."""
    return math.prod(map(as_index, shape))


def product(shape: Sequence[Any]) -> tuple[int, list[Dim]]:
    """Return (number, dims): the number of elements is the number times all of `dims`, each the base of a Dim."""
    dims = [d for d in shape if isinstance(d, Dim)]
    fixed = math.prod(d for d in shape if not isinstance(d, Dim))
    return fixed * math.prod(d.factor for d in dims), [d.base for d in dims]


def stand_for(shape: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape with each Dim replaced by its maximum."""
    return tuple(d.maximum if isinstance(d, Dim) else d for d in shape)


def broadcast(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the shape to which NumPy broadcasts shapes. A Dim broadcasts with itself and with 1 only.

    Raises ValueError if the shapes do not broadcast.
    """
    first, *others = shapes
    if not traces_symbolically() and all(s == first for s in others):
        return tuple(first)
    rank = max(map(len, shapes))
    result: list[Any] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in shapes if len(s) >= -axis and not is_one(s[axis])]
        others = [d for d in sizes if not (type(d) is Size and d.value == 1)]
        if others and len(others) < len(sizes):
            sizes = [d for d in sizes if not is_fixed_to_one(d)]
        if any(d != sizes[0] for d in sizes[1:]):
            shown = " ".join(f"({','.join(map(str, s))})" for s in shapes)
            raise ValueError(f"operands could not be broadcast together with shapes {shown}")
        result.append(sizes[0] if sizes else 1)
    return tuple(result)


def is_one(size: Any) -> bool:
    """Return whether a size is the number 1. A symbolic size is not, even where it is 1 at the traced size."""
    return not isinstance(size, (Dim, Size)) and size == 1


def is_fixed_to_one(size: Any) -> bool:
    """Return whether a size is 1. A guard then fixes a symbolic size to 1, unless it is certainly 1."""
    return is_one(size) or (type(size) is Size and size.value == 1 and bool(size == 1))


def reduced_shape(shape: Sequence[Any], axes: Collection[int], keepdims: bool = True) -> tuple[Any, ...]:
    """Return the shape after a reduction over `axes`."""
    return tuple(1 if i in axes else d for i, d in enumerate(shape) if keepdims or i not in axes)


def numpy_axis(axis: Any, rank: int) -> int:
    """Return an axis counted from the front. Raises numpy.exceptions.AxisError if it is out of range."""
    return int(np.lib.array_utils.normalize_axis_index(axis, rank))


def numpy_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Return axes counted from the front; None means all axes.

    Raises numpy.exceptions.AxisError if one is out of range, ValueError if one is given twice.
    """
    if axis is None:
        return tuple(range(rank))
    return tuple(int(a) for a in np.lib.array_utils.normalize_axis_tuple(axis, rank))
