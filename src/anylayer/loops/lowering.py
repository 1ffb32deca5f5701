"""The state of a lowering: which values are buffers, what an element of the others is, and the loops so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anylayer.errors import LayerError
from anylayer.graph import Graph, Op, Value
from anylayer.graph.expressions import Expression, Ranges, constant
from anylayer.graph.sized import elements_of
from anylayer.graph.sizes import Dim
from anylayer.graph.symbolic import Size
from anylayer.loops.ir import Buffer, Comment, Local, Loop, Scalar, Statement, Store, atoms_of
from anylayer.loops.parameters import Blob, Param, Parameters
from anylayer.loops.scalars import Scalars
from anylayer.loops.space import Space
from anylayer.network import Array

_EXACT = 2**24
"""Integers below this are exact in every dtype of floats."""
Index = list[Expression]
Element = Callable[["Lowering", Op, int, Index], Scalar]
ELEMENTS: dict[str, Element] = {}
"""Operator -> function (lowering, operator, number of the output, indices) that returns an element."""
NESTS: dict[str, Callable[[Lowering, Op], None]] = {}
"""Operator -> function (lowering, operator) that appends loops and sets the buffers of its outputs."""


class Unsupported(LayerError):
    """The error of an operator, or of a combination of its attributes, that has no loops."""


def elements(*names: str) -> Callable[[Element], Element]:
    """Enter a function that returns elements of these operators. Used as a decorator."""

    def enter(function: Element) -> Element:
        ELEMENTS.update(dict.fromkeys(names, function))
        return function

    return enter


def nests(*names: str) -> Callable[[Callable[[Lowering, Op], None]], Callable[[Lowering, Op], None]]:
    """Enter a function that appends the loops of these operators. Used as a decorator."""

    def enter(function: Callable[[Lowering, Op], None]) -> Callable[[Lowering, Op], None]:
        NESTS.update(dict.fromkeys(names, function))
        return function

    return enter


def size_of(d: Any) -> Expression:
    """Return a size as an expression. Raises Unsupported for one that depends on data."""
    if type(d) is Size:
        return d.expression
    if isinstance(d, Dim):
        raise Unsupported("a size that is known only when the network runs")
    return constant(int(d))


def sizes_of(value: Value) -> tuple[Expression, ...]:
    """Return the shape of a value as expressions."""
    return tuple(map(size_of, value.shape))


def given(op: Op, i: int = 0) -> Value:
    """Return an input that must be there."""
    value = op.inputs[i] if i < len(op.inputs) else None
    if value is None:
        raise Unsupported("an absent input")
    return value


def optional(op: Op, i: int) -> Value | None:
    """Return an input that may be absent."""
    return op.inputs[i] if i < len(op.inputs) else None


class Lowering:
    """A program while it is made from a graph.

    `buffers` are the values that are in memory. `wanted` are buffers that the graph's outputs must go to. `places`
    collects the source lines of the elements that the current loops compute.
    """

    def __init__(self, graph: Graph, ranges: Ranges, parameters: Parameters) -> None:
        self.graph = graph
        self.parameters = parameters
        self.params: dict[Param, Local] = {}
        self.space = Space(ranges)
        self.scalars = Scalars(self.space)
        self.buffers: dict[Value, Buffer] = {}
        self.wanted: dict[Value, Buffer] = {}
        self.all: list[Buffer] = []
        self.body: list[Statement] = []
        self.places: dict[str, None] = {}
        self.described: set[str] = set()
        self.positions: dict[Value, list[int]] = {}
        self._found: dict[Any, Scalar] = {}
        self._tables: dict[Value, Buffer] = {}
        self._count = 0

    # ----------------------------------------------------------------- elements

    def element(self, value: Value, index: Sequence[Expression]) -> Scalar:
        """Return the element of a value at an index for each of its axes."""
        buffer = self.buffers.get(value)
        if buffer is not None:
            return self.scalars.load(buffer, buffer.offset(index))
        if value.const is not None:
            return self.constant(value, index)
        key = (value, tuple(index))
        found = self._found.get(key)
        if found is None:
            op = self.graph.producers[value]
            found = self._found[key] = ELEMENTS[op.op](self, op, op.outputs.index(value), list(index))
        if value in self.graph.producers and self.graph.producers[value].place:
            self.note_places(value)
        return found

    def note_places(self, value: Value) -> None:
        """Note the source lines of a value that the current loops compute."""
        pending, seen = [value], {value}
        while pending:
            op = self.graph.producers.get(pending.pop())
            if op is None:
                continue
            self.places[op.place] = None
            for v in op.inputs:
                if v is not None and v not in self.buffers and v not in seen:
                    seen.add(v)
                    pending.append(v)

    def operand(self, value: Value, index: Sequence[Expression]) -> Scalar:
        """Return the element that broadcasting pairs with an index of more axes."""
        own = list(index[len(index) - len(value.shape) :])
        return self.element(value, [constant(0) if _is_one(d) else i for d, i in zip(value.shape, own)])

    def constant(self, value: Value, index: Sequence[Expression]) -> Scalar:
        """Return an element of a constant: a number, an index expression, or an element of a table."""
        array: Any = value.const
        parameter = self.parameters.get(value)
        if isinstance(parameter, Blob):
            return self._blob(value, parameter, index)
        sized = elements_of(array) if parameter is None else [self._param(e) for e in parameter]
        if sized is not None:
            return self._sized(value, sized, index)
        array = np.asarray(array)
        kept = [a for a, d in enumerate(array.shape) if d > 1 and bool((array != array.take([0], a)).any())]
        array = array[tuple(slice(None) if a in kept else 0 for a in range(array.ndim))]
        if not kept:
            return self.scalars.const(array, value.dtype)
        places = [index[a] for a in kept]
        if all(p.constant is not None for p in places):
            return self.scalars.const(array[tuple(p.constant for p in places)], value.dtype)
        return self._affine(array, places) or self._table(value, array, places)

    def _affine(self, array: Array, places: Sequence[Expression]) -> Scalar | None:
        """Return an element of an array of integers that is a sum of multiples of its indices, else None."""
        if array.dtype.kind == "b" or not (np.abs(array) < _EXACT).all() or (array != np.rint(array)).any():
            return None
        start = int(array.flat[0])
        total, wanted = constant(start), np.full(array.shape, start, np.int64)
        for axis, place in enumerate(places):
            step = int(array[tuple(int(a == axis) for a in range(array.ndim))]) - start
            total = total + constant(step) * place
            wanted = wanted + step * np.arange(array.shape[axis]).reshape(
                [-1 if a == axis else 1 for a in range(array.ndim)]
            )
        return self.scalars.cast(self.scalars.index(total), array.dtype) if (wanted == array).all() else None

    def _table(self, value: Value, array: Array, places: Sequence[Expression]) -> Scalar:
        buffer = self._tables.get(value)
        if buffer is None:
            buffer = Buffer(self.name("table"), value.dtype, tuple(map(constant, array.shape)), "table", array)
            self._tables[value] = buffer
            self.all.append(buffer)
        return self.scalars.load(buffer, buffer.offset(places))

    def _blob(self, value: Value, blob: Blob, index: Sequence[Expression]) -> Scalar:
        """Return an element of a blob that is a parameter."""
        name = f"blob{blob.number}"
        buffer = next((b for b in self.all if b.name == name), None)
        if buffer is None:
            buffer = Buffer(name, value.dtype, (constant(int(np.asarray(value.const).size)),), "blob")
            self.all.append(buffer)
        return self.scalars.load(buffer, Buffer("", value.dtype, sizes_of(value), "").offset(index))

    def _param(self, e: Any) -> Any:
        """Return an element of a constant: for a Param, the scalar that holds it."""
        if not isinstance(e, Param):
            return e
        if e not in self.params:
            self.params[e] = Local(f"param{len(self.params)}", np.dtype(np.float64))
        return self.scalars.argument(self.params[e])

    def _sized(self, value: Value, sized: Sequence[Any], index: Sequence[Expression]) -> Scalar:
        """Return an element of a constant that is computed from sizes."""
        if all(e is sized[0] or (not isinstance(e, Scalar) and str(e) == str(sized[0])) for e in sized):
            return self.scalars.element(sized[0], value.dtype)
        sizes = [constant(int(d)) for d in value.shape]
        place = Buffer("", value.dtype, tuple(sizes), "table").offset(index)
        if place.constant is not None:
            return self.scalars.element(sized[place.constant], value.dtype)
        buffer = self.new_buffer(value)
        for i, e in enumerate(sized):
            self.body.append(Store(buffer, constant(i), self.scalars.element(e, value.dtype)))
        return self.scalars.load(buffer, place)

    def number(self, value: Value | None) -> list[Expression] | None:
        """Return the elements of a small integer constant as expressions, or None where they are computed."""
        if value is None or value.const is None or value.dtype.kind not in "iu":
            return None
        sized = elements_of(value.const)
        flat: Sequence[Any] = sized if sized is not None else value.const.reshape(-1).tolist()
        return [e if isinstance(e, Expression) else constant(int(e)) for e in flat]

    # ------------------------------------------------------------------ buffers

    def name(self, stem: str) -> str:
        """Return a name that is not used yet."""
        self._count += 1
        return f"{stem}{self._count}"

    def new_buffer(self, value: Value) -> Buffer:
        """Return a buffer for a value: the output that it belongs to, or a temporary one."""
        buffer = self.wanted.get(value)
        if buffer is None:
            buffer = Buffer(self.name("temporary"), value.dtype, sizes_of(value), "temporary")
            self.all.append(buffer)
        self.buffers[value] = buffer
        return buffer

    def used_buffers(self) -> set[Buffer]:
        """Return the buffers that the statements read or write."""
        stores = list(stores_of(self.body))
        found = {s.buffer for s in stores}
        seen: set[Scalar] = set()
        pending = list(scalars_of(self.body))
        for s in stores:
            pending += self.scalars.behind(s.offset)
        while pending:
            x = pending.pop()
            if x not in seen:
                seen.add(x)
                pending += [*x.args, *self.scalars.behind(x.data[1] if x.op == "load" else x.data)]
                if x.op == "load":
                    found.add(x.data[0])
        return found

    def variable(self, extent: Expression) -> tuple[str, Expression]:
        """Return the name of a new loop variable, and the variable as an expression."""
        name = self.name("%")
        return name, self.space.variable(name, extent)

    def flush(self, loops: Sequence[Statement]) -> None:
        """Append loops, after the source lines that they compute."""
        self.body.extend(Comment(place) for place in self.places if place not in self.described)
        self.described.update(self.places)
        self.places = {}
        self.body.extend(loops)

    def fill(self, shape: Sequence[Expression], store: Callable[[Index], list[Statement]]) -> None:
        """Append loops over all indices of a shape. `store` returns what is done at one index.

        Axes that can share a loop do, where this needs no division.
        """
        axes = [a for a, d in enumerate(shape) if d.constant != 1]
        best = self._nest([[a] for a in axes], shape, store)
        if len(axes) > 1:
            groups = [[a] for a in axes]
            whole = self._nest([axes], shape, store)
            if divisions(whole[1], self.scalars) <= divisions(best[1], self.scalars):
                best = whole
            else:
                at = len(groups) - 2
                while at >= 0:
                    tried = [*groups[:at], groups[at] + groups[at + 1], *groups[at + 2 :]]
                    other = self._nest(tried, shape, store)
                    if divisions(other[1], self.scalars) <= divisions(best[1], self.scalars):
                        best, groups = other, tried
                    at -= 1
        self.flush(best[0])

    def _nest(
        self,
        groups: Sequence[Sequence[int]],
        shape: Sequence[Expression],
        store: Callable[[Index], list[Statement]],
    ) -> tuple[list[Statement], list[Statement]]:
        """Return loops over groups of axes, and the statements inside."""
        index: Index = [constant(0)] * len(shape)
        loops = []
        for group in groups:
            extent = constant(1)
            for a in group:
                extent = extent * shape[a]
            name, rest = self.variable(extent)
            for a in reversed(group):
                index[a] = rest if a == group[0] else self.space.remainder(rest, shape[a])
                rest = self.space.quotient(rest, shape[a])
            loops.append((name, extent))
        inner = store(index)
        return nested(loops, inner), inner


def nested(
    loops: Sequence[tuple[str, Expression]], inner: list[Statement], parallel: bool = True
) -> list[Statement]:
    """Return statements inside of loops, the first one outermost. Parallel loops share the rounds of all outer
    loops but the last."""
    kept = [(name, extent) for name, extent in loops if extent.constant != 1]
    outer = kept[: max(len(kept) - 1, 1)] if parallel else []
    for name, extent in reversed(kept[len(outer) :]):
        inner = [Loop(name, extent, inner)]
    return [Loop(outer[0][0], outer[0][1], inner, True, outer[1:])] if outer else inner


def divisions(statements: Sequence[Statement], scalars: Scalars) -> int:
    """Return the number of integer divisions in the scalars of statements."""
    seen: set[Any] = set()

    def of_expression(e: Expression) -> int:
        if e in seen:
            return 0
        seen.add(e)
        inside = sum(of(scalars.data[s]) for s in e.symbols if s in scalars.data)
        return inside + len({a for a in atoms_of(e) if a.function == "//"})

    def of(x: Scalar) -> int:
        if x in seen:
            return 0
        seen.add(x)
        own = x.data[1] if x.op == "load" else x.data if x.op == "index" else None
        return sum(map(of, x.args)) + (of_expression(own) if own is not None else 0)

    return sum(of(x) for x in scalars_of(statements)) + sum(
        of_expression(s.offset) for s in statements if isinstance(s, Store)
    )


def scalars_of(statements: Sequence[Any]) -> Iterator[Scalar]:
    """Yield the scalars that statements use, those in loops too."""
    for s in statements:
        if isinstance(s, Loop):
            yield from scalars_of(s.body)
        elif not isinstance(s, Comment):
            yield s.condition if hasattr(s, "condition") else s.value
            yield from scalars_of(getattr(s, "body", ()))


def stores_of(statements: Sequence[Any]) -> Iterator[Store]:
    """Yield the stores among statements, those in loops too."""
    for s in statements:
        if isinstance(s, Store):
            yield s
        yield from stores_of(getattr(s, "body", ()))


def _is_one(d: Any) -> bool:
    return not isinstance(d, (Dim, Size)) and d == 1
