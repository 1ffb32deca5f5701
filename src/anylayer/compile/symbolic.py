"""Make one graph for every size from two traces of a network with symbolic sizes.

Each trace records which numbers were computed from the sizes of the inputs (anylayer.graph.symbolic). Numbers that
both traces compute by the same expression become operators that compute it when the network runs. If a plain
number differs between the traces, a layer's code has fixed a size; this raises an error that names the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from anylayer.errors import TraceError
from anylayer.graph.expressions import Atom, Expression, Ranges, bounds, constant, of_atom, symbol
from anylayer.graph.guards import Guard
from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.open_sizes import solved
from anylayer.graph.operators import is_sized_by_data
from anylayer.graph.reals import Real
from anylayer.graph.repetition import TooMuchInAll
from anylayer.graph.sized import Element, elements_of
from anylayer.graph.sizes import Dim, size_of
from anylayer.graph.symbolic import Size, holds_symbolic
from anylayer.network import MAX_VALUES, Array, DType
from anylayer.optimize.simplify import simplify
from anylayer.tracing.primitives import ONNX_TYPES


@dataclass(frozen=True, slots=True)
class Trace:
    """The graph of a network at one choice of sizes.

    `symbols` are the values of the symbols. `guards` are the conditions under which the graph is valid, and
    `ranges` the least and the largest value of each symbol.
    """

    graph: Graph
    symbols: Mapping[str, int]
    guards: Sequence[Guard] = ()
    ranges: Ranges = field(default_factory=dict)


def for_every_size(
    a: Trace, b: Trace, ranges: Ranges, rewrite: Callable[[Graph], Graph] | None = None, dims: Sequence[Dim] = ()
) -> Graph:
    """Return one graph for every size, from the traces at two choices of sizes.

    rewrite: a function that simplifies the graph of a trace. It is applied if its results for both traces are
    equal. dims: sizes that the symbols of the same names stand for.

    Raises TraceError, which names the node and the line, where the traces differ in more than the sizes.
    """
    if rewrite is not None:
        try:
            return _Unifier(replace(a, graph=rewrite(a.graph)), replace(b, graph=rewrite(b.graph)), ranges).run()
        except TraceError:
            pass
    dims_by_size = {constant(d.factor) * size_expression(d.base): d for d in dims}
    unifier = _Unifier(a, b, ranges)
    unifier.dims.update(dims_by_size)
    graph = unifier.run()
    first, second = a.graph.decided, b.graph.decided
    if first is not None and second is not None:
        of_conditions = _Unifier(replace(a, graph=first.conditions), replace(b, graph=second.conditions), ranges)
        of_conditions.dims.update(dims_by_size)
        graph.decided = replace(first, conditions=of_conditions.run())
    return graph


def size_expression(d: Dim) -> Expression:
    """Return a size that depends on data as an expression of those that it is computed from, or as a symbol."""
    expression: Expression = d.expression
    return symbol(d.name) if expression is None or len(expression.symbols) != len(d.sources) else expression


def simplify_sized(graph: Graph, engine: str | None = None, *, exact: bool = False) -> Graph:
    """Return a graph with symbolic sizes, simplified. engine, exact: as in optimize.simplify.

    A rewrite rule must not read a constant that is computed from the sizes, so these constants are inputs while
    the rules are applied.
    """
    hidden = Graph(graph.prefix, graph.scope)
    hidden.limit, hidden.notes = graph.limit, list(graph.notes)
    hidden.reserve(v.name for o in graph.ops for v in o.outputs)
    hidden.inputs = list(graph.inputs)
    stand_ins: dict[Value, Value] = {}
    for v in (*(v for o in graph.ops for v in o.inputs), *graph.outputs):
        if v is not None and v not in stand_ins and elements_of(v.const) is not None:
            stand_ins[v] = hidden.input(hidden.name("sizes"), v.shape, v.dtype)
    for o in graph.ops:
        copy = replace(o, inputs=[v if v is None else stand_ins.get(v, v) for v in o.inputs])
        hidden.ops.append(copy)
        hidden.producers.update(dict.fromkeys(o.outputs, copy))
    hidden.outputs = [stand_ins.get(v, v) for v in graph.outputs]
    simple = simplify(hidden, engine, exact=exact)
    simple.inputs = list(graph.inputs)
    for v, stand_in in stand_ins.items():
        stand_in.const = v.const
    return simple


class _Unifier:
    """A walk through two traces that builds the graph for every size.

    `unified` maps a value of `a` to its value in the new graph, `partner` to its value in `b`. `dims` are the
    symbolic sizes of the new graph, by expression. `place` and `scope` are those of the operator that is compared.
    """

    def __init__(self, a: Trace, b: Trace, ranges: Ranges, outer: _Unifier | None = None) -> None:
        self.a, self.b, self.ranges = a, b, ranges
        self.graph = Graph(a.graph.prefix, a.graph.scope)
        self.graph.limit = a.graph.limit
        self.graph.notes = list(a.graph.notes)
        self.dims: dict[Expression, Dim] = outer.dims if outer is not None else {}
        self.dynamic: dict[Dim, tuple[Dim, Dim]] = outer.dynamic if outer is not None else {}
        self.unified: dict[Value, Value] = {}
        self.partner: dict[Value, Value] = {}
        self.operators = SizeOperators(self.graph, ranges)
        self.place = self.scope = ""

    def run(self) -> Graph:
        for a, b in zip(self.a.graph.inputs, self.b.graph.inputs):
            self.scope = a.name
            value = self.graph.input(a.name, self.shape(a.shape, b.shape), a.dtype)
            self.operators.add(value, a.shape, a.elements or ())
            self.pair(a, b, value)
        for x, y in zip_longest(self.a.graph.ops, self.b.graph.ops):
            self.operator(x, y)
        self.scope, self.place = "an output", ""
        self.graph.outputs = [self.value(x, y) for x, y in zip(self.a.graph.outputs, self.b.graph.outputs)]
        self.graph.drop_dead()
        return self.graph

    def refuse(self, why: str) -> TraceError:
        """Return the error for a node that computes something else at the other sizes."""
        first, second = (", ".join(f"{n}={v}" for n, v in t.symbols.items()) for t in (self.a, self.b))
        names = ", ".join(f"'{n}'" for n in self.a.symbols)
        where = f"node '{self.scope}'" + (f" ({self.place})" if self.place else "")
        return TraceError(
            f"{where} computes something else at {second} than at {first}: {why}. So {names} cannot be open in "
            "this network; give numbers, or keep the sizes in the layer's code as they come from x.shape"
        )

    def pair(self, a: Value, b: Value, unified: Value) -> None:
        self.unified[a] = unified
        self.partner[a] = b

    def size(self, a: Any, b: Any) -> Any:
        """Return the size that is `a` in the first trace and `b` in the second."""
        if isinstance(a, str) or isinstance(b, str):
            if a != b:
                raise self.refuse(f"a size is {a}, then {b}")
            return a
        if type(a) is Size and type(b) is Size:
            if a.expression != b.expression:
                raise self.refuse(f"a size is {a.expression} = {a}, then {b.expression} = {b}")
            return self.dim(a.expression)
        if isinstance(a, Dim) and isinstance(b, Dim):
            return self.dynamic_size(a, b)
        if isinstance(a, Dim) or isinstance(b, Dim) or int(a) != int(b):
            raise self.refuse(f"a size is {a}, then {b}")
        return int(a)

    def dim(self, e: Expression) -> Dim:
        if e not in self.dims:
            times = solved(e, next(iter(e.symbols)))
            if times is not None and times[0] > 1 and times[1] == 0:
                self.dims[e] = self.dim(symbol(next(iter(e.symbols)))).times(times[0])
                return self.dims[e]
            high = bounds(e, self.ranges)[1]
            new = self.dims[e] = Dim(str(e), int(min(max(high, 1), MAX_VALUES)))
            sources = [self.dims.get(symbol(name)) for name in sorted(e.symbols)]
            if len(e.symbols) > 1 or e != symbol(*e.symbols):
                new.expression, new.sources = e, tuple(d for d in sources if d is not None)
        return self.dims[e]

    def whole(self, e: Element) -> Any:
        """Return an element that is an integer as a size of the new graph."""
        return e if not isinstance(e, Expression) else self.dim(e) if e.constant is None else e.constant

    def dynamic_size(self, a: Dim, b: Dim) -> Dim:
        """Return the size that depends on data, `a` in the first trace and `b` in the second."""
        if a.base is not a or b.base is not b:
            raise self.refuse(f"a size is {a!r}, then {b!r}")
        partner, new = self.dynamic.setdefault(a, (b, Dim(a.name, MAX_VALUES)))
        if partner is not b:
            raise self.refuse(f"a size that depends on data is {a!r}, then {b!r}")
        return new

    def shape(self, a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
        if len(a) != len(b):
            raise self.refuse(f"an array has shape {tuple(a)}, then {tuple(b)}")
        return tuple(map(self.size, a, b))

    def operator(self, a: Op | None, b: Op | None) -> None:
        one = next(o for o in (a, b) if o is not None)
        if a is not None and b is not None and a.scope != b.scope:  # one operator still belongs to the last node
            one = next((o for o in (a, b) if o.scope == self.scope), a)
        self.scope, self.place = one.scope, one.place
        if a is None or b is None or (a.op, a.domain, a.scope) != (b.op, b.domain, b.scope):
            names = " and ".join(o.op if o is not None else "nothing" for o in (a, b))
            raise self.refuse(f"operators {names}")
        for name in {*a.attrs, *b.attrs}:
            first, second = a.attrs.get(name), b.attrs.get(name)
            if repr(first) != repr(second) or holds_symbolic(first):
                raise self.refuse(f"{a.op} with {name}={first}, then with {name}={second}")
        if len(a.inputs) != len(b.inputs):
            raise self.refuse(f"{a.op} of {len(a.inputs)} arrays, then of {len(b.inputs)}")
        inputs = [self.argument(a, i, x, y) for i, (x, y) in enumerate(zip(a.inputs, b.inputs))]
        types = [(self.shape(x.shape, y.shape), x.dtype) for x, y in zip(a.outputs, b.outputs)]
        number = self.number(a, inputs)
        outputs = [number] if number else self.graph.append_copy(a, inputs, types=types, body=self.body(a, b))
        for x, y, unified in zip(a.outputs, b.outputs, outputs):
            self.pair(x, y, unified)
            if is_sized_by_data(a) or a.op == "Loop":
                self.operators.add(unified, x.shape)

    def number(self, a: Op, inputs: Sequence[Value | None]) -> Value | None:
        """Return the input of an Identity by which the tracer marks a number computed from sizes, else None."""
        sized = a.op == "Identity" and a.inputs[0] is not None and elements_of(a.inputs[0].const) is not None
        return inputs[0] if sized and not a.domain else None

    def body(self, a: Op, b: Op) -> Graph | None:
        """Return the body of a call, also for every size."""
        if a.body is None or b.body is None:
            return None
        parts = Trace(a.body, self.a.symbols), Trace(b.body, self.b.symbols)
        try:
            return _Unifier(*parts, self.ranges, self).run()
        except TooMuchInAll as error:
            raise TooMuchInAll(error.message, *([self.place] if self.place else [])) from None
        except TraceError as error:
            raise self.refuse(error.message) from error

    def argument(self, o: Op, at: int, a: Value | None, b: Value | None) -> Value | None:
        if a is None or b is None:
            if a is not b:
                raise self.refuse(f"{o.op} with and without its input {at}")
            return None
        if o.op == "Reshape" and at == 1 and self.elements(a, b) is not None:
            return self.target(o, a, b)
        return self.value(a, b)

    def elements(self, a: Value, b: Value) -> tuple[Element, ...] | None:
        """Return the elements of a constant that both traces compute from the sizes in the same way, else None."""
        elements = elements_of(a.const)
        return elements if elements == elements_of(b.const) else None

    def value(self, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None:
            return self.constant(a, b)
        if self.partner.get(a) is not b:
            raise self.refuse("it reads other arrays")
        return self.unified[a]

    def constant(self, a: Value, b: Value) -> Value:
        """Return a constant that both traces have, or operators that compute it from the sizes."""
        elements = self.elements(a, b)
        if elements is not None:
            value = self.operators.array(elements, a.dtype, a.shape)
            if not any(isinstance(e, (Real, float)) for e in elements):
                value.elements = tuple(map(self.whole, elements))
            return value
        if a.const is not None and elements_of(a.const) is None and elements_of(b.const) is None and _equal(a, b):
            return self.graph.constant(a.const, trusted=True)
        before, after = _text_of(a), _text_of(b)
        raise self.refuse(f"a constant is {before}, then {after}. It was computed from a size as a plain number")

    def target(self, o: Op, a: Value, b: Value) -> Value:
        """Return the shape input of a Reshape. A symbolic size becomes 0 where the input has it at the same axis,
        and a single other one -1 (inferred). Otherwise all sizes are computed."""
        elements = self.elements(a, b)
        if elements is None or o.inputs[0] is None:
            return self.constant(a, b)
        old = self.unified[o.inputs[0]].shape if o.inputs[0] in self.unified else ()
        new = list(map(self.whole, elements))
        target = [0 if isinstance(d, Dim) and i < len(old) and old[i] is d else d for i, d in enumerate(new)]
        rest = [i for i, d in enumerate(target) if isinstance(d, Dim)]
        empty = any(d == 0 and not isinstance(n, Dim) for d, n in zip(target, new))
        if empty or len(rest) > 1 or (-1 in target and rest):
            return self.constant(a, b)
        return self.graph.constant(np.array([-1 if i in rest else d for i, d in enumerate(target)], np.int64))


def _equal(a: Value, b: Value) -> bool:
    if a.const is b.const:
        return True
    x, y = np.asarray(a.const), np.asarray(b.const)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def _text_of(v: Value) -> str:
    elements = elements_of(v.const)
    if elements is not None:
        return str(list(elements))
    array: Array = np.asarray(v.const)
    return str(array.tolist()) if array.size <= 4 else str(v.type)


_INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)
_REAL_OPERATORS = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow", "sqrt": "Sqrt", "abs": "Abs"}
_ROUNDING = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}


class SizeOperators:
    """A recorder of the operators that compute expressions of sizes. Equal expressions are computed once."""

    def __init__(self, graph: Graph, ranges: Ranges) -> None:
        self.graph = graph
        self.ranges = ranges
        self.known: dict[Expression, tuple[Value, int]] = {}
        self.held: dict[Expression, tuple[Value, int]] = {}
        self.made: dict[Any, Value] = {}

    def add(self, value: Value, shape: Sequence[Any], elements: Sequence[Any] = ()) -> None:
        """Add an array of the graph, from whose `shape` and `elements` the values of symbols can be computed."""
        for table, sizes in ((self.known, shape), (self.held, elements)):
            for i, d in enumerate(sizes):
                e = getattr(d, "expression", None)
                if e is not None:
                    table.setdefault(e, (value, i))

    def array(self, elements: Sequence[Element], dtype: DTypeLike, shape: Sequence[int]) -> Value:
        """Return the array with these elements."""
        key = tuple(elements), np.dtype(dtype), tuple(shape)
        if key not in self.made:
            self.made[key] = self._array(elements, np.dtype(dtype), tuple(shape))
        return self.made[key]

    def _array(self, elements: Sequence[Element], dtype: DType, shape: tuple[int, ...]) -> Value:
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

    def _emit(self, op: str, inputs: Sequence[Value], n: int, dtype: DType, **attrs: Any) -> Value:
        return self.graph.emit(op, inputs, [((n,), dtype)], attrs, place="", scope="")[0]

    def _cast(self, x: Value, dtype: DType) -> Value:
        return self._emit("Cast", [x], int(x.shape[0]), dtype, to=ONNX_TYPES[dtype])

    def _element(self, e: Element, dtype: DType) -> Value:
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
        if e in self.held:
            value, i = self.held[e]
            flat = self.graph.emit("Reshape", [value, self._number(-1)], [((size_of(value.shape),), value.dtype)])[
                0
            ]
            part = self._emit("Gather", [flat, self._number(i)], 1, value.dtype, axis=0)
            return part if value.dtype == _INT64 else self._cast(part, _INT64)
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
            (positive if c > 0 else negative).append(self._fold("Mul", factors))
        if offset > 0 or not positive:
            positive.append(self._number(offset))
        elif offset < 0:
            negative.append(self._number(-offset))
        total = self._fold("Add", positive)
        return self._emit("Sub", [total, self._fold("Add", negative)], 1, _INT64) if negative else total

    def _fold(self, op: str, values: Sequence[Value]) -> Value:
        total = values[0]
        for v in values[1:]:
            total = self._emit(op, [total, v], 1, _INT64)
        return total

    def _number(self, n: int) -> Value:
        return self.graph.constant(np.array([n], np.int64))

    def _atom(self, atom: Atom) -> Value:
        e = of_atom(atom)
        if e in self.known or e in self.held:
            return self.expression(e)
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
        for e in (*self.known, *self.held):
            solution = solved(e, name)
            if solution is not None:
                factor, offset = solution
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
