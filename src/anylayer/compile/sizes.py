"""The operators that compute expressions of symbolic sizes when a network runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from anylayer.errors import TraceError
from anylayer.graph.expressions import Atom, Expression, Ranges, bounds, symbol
from anylayer.graph.ir import Graph, Value
from anylayer.graph.open_sizes import solved
from anylayer.graph.reals import Real
from anylayer.graph.sized import Element
from anylayer.tracing.primitives import ONNX_TYPES

_INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)
_REAL_OPERATORS = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow", "sqrt": "Sqrt", "abs": "Abs"}
_ROUNDING = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}


class SizeOperators:
    """A recorder of the operators that compute expressions of sizes. Equal expressions are computed once."""

    def __init__(self, graph: Graph, ranges: Ranges) -> None:
        self.graph = graph
        self.ranges = ranges
        self.known: dict[Expression, tuple[Value, int]] = {}
        self.made: dict[Any, Value] = {}

    def add(self, value: Value, shape: Sequence[Any]) -> None:
        """Add an array of the graph, from whose `shape` the values of symbols can be computed."""
        for axis, d in enumerate(shape):
            e = getattr(d, "expression", None)
            if e is not None:
                self.known.setdefault(e, (value, axis))

    def array(self, elements: Sequence[Element], dtype: DTypeLike, shape: Sequence[int]) -> Value:
        """Return the array with these elements."""
        key = tuple(elements), np.dtype(dtype), tuple(shape)
        if key not in self.made:
            self.made[key] = self._array(elements, np.dtype(dtype), tuple(shape))
        return self.made[key]

    def _array(self, elements: Sequence[Element], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Value:
        real = any(isinstance(e, (Real, float)) for e in elements)
        kind = _FLOAT64 if real else _INT64
        parts = [self._element(e, kind) for e in elements]
        value = parts[0] if len(parts) == 1 else self._emit("Concat", parts, len(parts), kind, axis=0)
        if dtype != kind:
            value = self._cast(value, dtype)
        if shape == (len(elements),):
            return value
        if not shape:
            axes = self.graph.constant(np.zeros(1, np.int64))
            return self.graph.emit("Squeeze", [value, axes], [((), dtype)], place="", scope="")[0]
        target = self.graph.constant(np.array(shape, np.int64))
        return self.graph.emit("Reshape", [value, target], [(shape, dtype)], place="", scope="")[0]

    def _emit(self, op: str, inputs: Sequence[Value], n: int, dtype: np.dtype[Any], **attrs: Any) -> Value:
        return self.graph.emit(op, inputs, [((n,), dtype)], attrs, place="", scope="")[0]

    def _cast(self, x: Value, dtype: np.dtype[Any]) -> Value:
        return self._emit("Cast", [x], int(x.shape[0]), dtype, to=ONNX_TYPES[dtype])

    def _element(self, e: Element, dtype: np.dtype[Any]) -> Value:
        if isinstance(e, Real):
            return self._real(e)
        value = self.expression(e) if isinstance(e, Expression) else self.graph.constant(np.array([e], dtype))
        return value if value.dtype == dtype else self._cast(value, dtype)

    def expression(self, e: Expression) -> Value:
        """Return the value of an expression as int64 of shape (1,)."""
        if e not in self.made:
            self.made[e] = self._expression(e)
        return self.made[e]

    def _expression(self, e: Expression) -> Value:
        if e in self.known:
            value, axis = self.known[e]
            return self._emit("Shape", [value], 1, _INT64, start=axis, end=axis + 1)
        positive: list[Value] = []
        negative: list[Value] = []
        offset = 0
        for monomial, c in e.terms.items():
            if not monomial:
                offset = c
                continue
            factors = [self._atom(atom) for atom, power in monomial for _ in range(power)]
            if abs(c) != 1:
                factors.append(self._number(abs(c)))
            (positive if c > 0 else negative).append(self._folded("Mul", factors))
        if offset > 0 or not positive:
            positive.append(self._number(offset))
        elif offset < 0:
            negative.append(self._number(-offset))
        total = self._folded("Add", positive)
        return self._emit("Sub", [total, self._folded("Add", negative)], 1, _INT64) if negative else total

    def _folded(self, op: str, values: Sequence[Value]) -> Value:
        total = values[0]
        for v in values[1:]:
            total = self._emit(op, [total, v], 1, _INT64)
        return total

    def _number(self, n: int) -> Value:
        return self.graph.constant(np.array([n], np.int64))

    def _atom(self, atom: Atom) -> Value:
        if not atom.function:
            return self._symbol(atom.name)
        if atom.function in _ROUNDING:
            rounded = self._emit(_ROUNDING[atom.function], [self._real(atom.arguments[0])], 1, _FLOAT64)
            return self._cast(rounded, _INT64)
        values = list(map(self.expression, atom.arguments))
        if atom.function != "//":
            return self._emit(atom.function.capitalize(), values, 1, _INT64)
        a, b = values
        low, divisor = bounds(atom.arguments[0], self.ranges)[0], bounds(atom.arguments[1], self.ranges)[0]
        if low < 0 or divisor <= 0:  # ONNX Div rounds towards 0, Mod has the sign of the divisor
            a = self._emit("Sub", [a, self._emit("Mod", [a, b], 1, _INT64)], 1, _INT64)
        return self._emit("Div", [a, b], 1, _INT64)

    def _symbol(self, name: str) -> Value:
        """Return the value of a symbol, from an input's size that is a multiple of it plus a number."""
        if symbol(name) in self.known:
            return self.expression(symbol(name))
        for e in self.known:
            found = solved(e, name)
            if found is not None:
                factor, offset = found
                value = self.expression(e)
                if offset:
                    value = self._emit("Sub", [value, self._number(offset)], 1, _INT64)
                return self._emit("Div", [value, self._number(factor)], 1, _INT64) if factor != 1 else value
        raise TraceError(
            f"size '{name}' cannot be computed from the shapes of the inputs here; an input needs a size that is "
            f"'{name}', a multiple of it or a sum of it and a number"
        )

    def _real(self, r: Real) -> Value:
        if r not in self.made:
            self.made[r] = self._computed_real(r)
        return self.made[r]

    def _computed_real(self, r: Real) -> Value:
        if r.function == "float":
            only = r.arguments[0]
            if isinstance(only, Expression):
                return self._cast(self.expression(only), _FLOAT64)
            return self.graph.constant(np.array([only], _FLOAT64))
        return self._emit(_REAL_OPERATORS[r.function], list(map(self._real, r.arguments)), 1, _FLOAT64)
