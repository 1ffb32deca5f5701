"""The state of a lowering: the values in buffers, the expressions for elements of others, and the loops."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from anylayer.errors import LayerError
from anylayer.graph import Graph, Op, Value
from anylayer.graph.expressions import Expression, Ranges, constant, symbol
from anylayer.graph.sized import elements_of
from anylayer.graph.sizes import Dim
from anylayer.graph.symbolic import Size
from anylayer.loops.constants import of_indices
from anylayer.loops.ir import INT, Buffer, Comment, Local, Scalar, Statement, Store, nested, product
from anylayer.loops.nests import Nest, join_groups, repeated_stores
from anylayer.loops.parameters import BlobElements, Parameters, ParamNumber
from anylayer.loops.scalars import Scalars, changes, divisions, divisors, loops_by_condition, read_by
from anylayer.loops.space import Space
from anylayer.network import Array

_FEW = 64
"""The largest number of elements of a constant, computed from sizes, of which an expression selects one."""
_MANY_ROWS = 32
"""The smallest number of rows that are divided among threads. The elements of fewer rows are divided, if a row has
at least _LONG_ROW of them."""
_LONG_ROW = 4096
_MAX_REPEATS = 4
"""The largest extent of an innermost loop whose body is repeated instead, because compilers make vector
instructions only of innermost loops."""
_MAX_CUTS = 4
"""The largest number of indices at which a loop is cut, so that the code stays short."""
Index = list[Expression]
ElementAt = Callable[[Sequence[Expression]], Scalar]
T = TypeVar("T")
Element = Callable[["Lowering", Op, int, Index], Scalar]
ELEMENTS: dict[str, Element] = {}
"""Operator -> function (lowering, operator, number of the output, indices) that returns an element."""
INLINED: dict[str, Callable[[Lowering, Op, Index], Scalar]] = {}
"""Operator of NESTS -> function (lowering, operator, indices) that returns an element, after its own loops."""
NESTS: dict[str, Callable[[Lowering, Op], None]] = {}
"""Operator -> function (lowering, operator) that appends loops and sets the buffers of its outputs."""


UNCOUNTED = "a size that is known only when the network runs"


class Unsupported(LayerError):
    """The error of an operator, or of a combination of its attributes, that has no loops."""


def entering(table: dict[str, T], *names: str) -> Callable[[T], T]:
    """Return a decorator that enters its function in a table under each of the names of operators."""

    def enter(function: T) -> T:
        table.update(dict.fromkeys(names, function))
        return function

    return enter


elements = partial(entering, ELEMENTS)
nests = partial(entering, NESTS)


def size_of(d: Any) -> Expression:
    """Return a size as an expression. That of a Dim has symbols for the sizes that depend on data."""
    if type(d) is Size:
        return d.expression
    if isinstance(d, Dim):
        counted: Expression = symbol(d.base.name) if d.base.expression is None else d.base.expression
        return counted * constant(d.factor)
    if isinstance(d, str):
        raise Unsupported(UNCOUNTED)
    return constant(int(d))


def sizes_of(value: Value) -> tuple[Expression, ...]:
    """Return the shape of a value as expressions."""
    return tuple(map(size_of, value.shape))


def given(op: Op, i: int = 0) -> Value:
    """Return a required input."""
    value = op.input(i)
    if value is None:
        raise Unsupported("an absent input")
    return value


@dataclass(slots=True)
class _LoopBody:
    """The body of nested loops under construction: its names, and statements before its last one."""

    names: set[str]
    statements: list[Statement] = field(default_factory=list)


class Lowering:
    """A program under construction from a graph.

    `buffers` maps values that are stored in memory to their buffers. `wanted` maps the graph's outputs to the
    buffers that they must be written to. `places` collects the source lines that the current loops compute.
    by_element: whether each element of a result is computed separately, as for the work items of a GPU.
    `states` are the buffers that several statements write.
    `splits` says whether a loop whose variable is divided becomes two loops. `counts` maps the symbols of sizes
    that depend on data to the locals that count the elements, with the largest sizes.
    """

    def __init__(self, graph: Graph, ranges: Ranges, parameters: Parameters, by_element: bool = False) -> None:
        self.graph = graph
        self.by_element = by_element
        self.selects = False
        self.splits = False
        self.parameters = parameters
        self.params: dict[ParamNumber, Local] = {}
        self.counts: dict[str, tuple[Local, int]] = {}
        self.space = Space(ranges)
        self.scalars = Scalars(self.space, near=by_element)
        self.buffers: dict[Value, Buffer] = {}
        self.wanted: dict[Value, Buffer] = {}
        self.inputs: Mapping[Value, ElementAt] = {}
        self.all: list[Buffer] = []
        self.states: set[Buffer] = set()
        self.body: list[Statement] = []
        self.places: dict[str, None] = {}
        self.described: set[str] = set()
        self.positions: dict[Value, list[int]] = {}
        self._found: dict[Any, Scalar] = {}
        self._scopes: list[_LoopBody] = []
        self._tables: dict[Value, Buffer] = {}
        self._count = count(1)

    def inside(self, graph: Graph, inputs: Mapping[Value, ElementAt]) -> Lowering:
        """Return the lowering of a graph inside this one, whose statements become the body of another one.

        inputs: functions that return the elements of inputs of the graph that are not in memory.
        """
        inner = copy.copy(self)
        inner.graph, inner.buffers, inner.wanted, inner.body, inner.places = graph, {}, {}, [], {}
        inner._found, inner._scopes, inner.inputs = {}, [], inputs
        return inner

    # ----------------------------------------------------------------- elements

    def element(self, value: Value, index: Sequence[Expression]) -> Scalar:
        """Return the element of a value at an index for each of its axes."""
        buffer = self.buffers.get(value)
        if buffer is not None:
            return self.scalars.load(buffer, buffer.offset(index))
        if value.const is not None:
            return self.constant(value, index)
        if value in self.inputs:
            return self.inputs[value](index)
        key = (value, tuple(index))
        scalar = self._found.get(key)
        if scalar is None:
            op = self.graph.producers[value]
            inlined = INLINED.get(op.op)
            scalar = self._found[key] = (
                ELEMENTS[op.op](self, op, op.outputs.index(value), list(index))
                if inlined is None
                else inlined(self, op, list(index))
            )
        if value in self.graph.producers and self.graph.producers[value].place:
            self.note_places(value)
        return scalar

    def copy(self, value: Value, buffer: Buffer, index: Index) -> Store:
        """Return the statement that stores an element of a value, and note the limit of indices."""
        element = self.element(value, index)
        interval = self.scalars.intervals.of(element) if element.dtype == INT else None
        if interval is not None and interval[0] >= 0:
            self.set_limit(buffer, int(interval[1]) + 1)
        return Store(buffer, buffer.offset(index), element)

    def set_limit(self, buffer: Buffer, limit: int) -> None:
        """Note that integers in a buffer are at least 0 and below a limit, unless others write to it, too."""
        if buffer.kind == "temporary" and buffer not in self.states:
            buffer.limit = limit

    def note_places(self, value: Value) -> None:
        """Record the source lines of a value that the current loops compute."""
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

    def operand(self, value: Value, index: Sequence[Expression], shape: Sequence[Any]) -> Scalar:
        """Return the element of a value that NumPy's broadcasting to `shape` selects for an index."""
        lead = len(shape) - len(value.shape)
        sizes = zip(sizes_of(value), map(size_of, shape[lead:]), index[lead:])
        return self.element(value, [self._along(own, whole, i) for own, whole, i in sizes])

    def _along(self, own: Expression, whole: Expression, i: Expression) -> Expression:
        """Return the index along an axis of size `own` that is broadcast to size `whole`."""
        if own.constant == 1 or (own != whole and self.space.equal(own, constant(1))):
            return constant(0)
        if not self.space.equal(own, whole):
            raise Unsupported(f"an axis of size {own} is broadcast to size {whole}, and is 1 only for some sizes")
        return i

    def constant(self, value: Value, index: Sequence[Expression]) -> Scalar:
        """Return an element of a constant: a number, an index expression, or an element of a table."""
        array: Any = value.const
        parameter = self.parameters.get(value)
        if isinstance(parameter, BlobElements):
            return self._blob(value, parameter, index)
        sized = elements_of(array) if parameter is None else [self._param(e) for e in parameter]
        if sized is not None:
            return self._sized(value, sized, index)
        array = np.asarray(array)
        varying = [a for a, d in enumerate(array.shape) if d > 1 and bool((array != array.take([0], a)).any())]
        array = array[tuple(slice(None) if a in varying else 0 for a in range(array.ndim))]
        if not varying:
            return self.scalars.const(array, value.dtype)
        places = [index[a] for a in varying]
        if all(p.constant is not None for p in places):
            return self.scalars.const(array[tuple(p.constant for p in places)], value.dtype)
        return of_indices(self.scalars, array, places) or self._table(value, array, places)

    def _table(self, value: Value, array: Array, places: Sequence[Expression]) -> Scalar:
        buffer = self._tables.get(value)
        if buffer is None:
            buffer = Buffer(self.name("table"), value.dtype, tuple(map(constant, array.shape)), "table", array)
            self._tables[value] = buffer
            self.all.append(buffer)
        return self.scalars.load(buffer, buffer.offset(places))

    def _blob(self, value: Value, blob: BlobElements, index: Sequence[Expression]) -> Scalar:
        """Return an element of a blob that is a parameter of the function."""
        name = f"blob{blob.number}"
        buffer = next((b for b in self.all if b.name == name), None)
        if buffer is None:
            buffer = Buffer(name, value.dtype, (constant(int(np.asarray(value.const).size)),), "blob")
            self.all.append(buffer)
        return self.scalars.load(buffer, Buffer("", value.dtype, sizes_of(value), "").offset(index))

    def _param(self, e: Any) -> Any:
        """Return a constant's element; for a ParamNumber, the scalar of the function's parameter."""
        if not isinstance(e, ParamNumber):
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
        if self.by_element:
            return self._by_comparisons(value, sized, place)
        buffer = self.new_buffer(value)
        for i, e in enumerate(sized):
            self.body.append(Store(buffer, constant(i), self.scalars.element(e, value.dtype)))
        return self.scalars.load(buffer, place)

    def _by_comparisons(self, value: Value, sized: Sequence[Any], place: Expression) -> Scalar:
        """Return the element at a position as a chain of comparisons with each possible position."""
        if len(sized) > _FEW:
            raise Unsupported(f"a constant of {len(sized)} elements that are computed from sizes")
        scalar = self.scalars.element(sized[-1], value.dtype)
        for i in reversed(range(len(sized) - 1)):
            here = self.scalars.truth("lt", self.scalars.index(place), self.scalars.index(constant(i + 1)))
            scalar = self.scalars.choice(here, self.scalars.element(sized[i], value.dtype), scalar)
        return scalar

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
        return f"{stem}{next(self._count)}"

    def new_buffer(self, value: Value) -> Buffer:
        """Return a buffer for a value: the output that it belongs to, or a temporary one."""
        buffer = self.buffers[value] = self.wanted.get(value) or self.temporary(value)
        return buffer

    def temporary(self, value: Value) -> Buffer:
        """Return a new temporary buffer of the type of a value."""
        self.all.append(Buffer(self.name("temporary"), value.dtype, sizes_of(value), "temporary"))
        return self.all[-1]

    def variable(self, extent: Expression) -> tuple[str, Expression]:
        """Return the name of a new loop variable, and the variable as an expression."""
        name = self.name("%")
        return name, self.space.variable(name, extent)

    def scoped(self, names: Iterable[str], compute: Callable[[], T]) -> tuple[list[Statement], T]:
        """Call `compute` inside a new loop body. Return the statements that must precede its result, and the
        result.

        names: the variables of the loops.
        """
        if not self._scopes and self.by_element:
            self._found.clear()
        scope = _LoopBody(set(names))
        self._scopes.append(scope)
        try:
            return scope.statements, compute()
        finally:
            self._scopes.pop()

    def inline(self, index: Sequence[Expression], loops: Callable[[], tuple[Local, list[Statement]]]) -> Local:
        """Move loops that accumulate a local to the outermost loop body in which an index can be computed."""
        at, scopes = self._depth(index), self._scopes
        self._scopes = scopes[: at + 1]
        local, statements = loops()
        self._scopes = scopes
        scopes[at].statements.extend(statements)
        scopes[at].names.add(local.name)
        return local

    def _depth(self, index: Sequence[Expression]) -> int:
        """Return the depth of the innermost loop body whose variables or locals an index depends on."""
        names = read_by(map(self.scalars.index, index), self.scalars)
        return max((i for i, scope in enumerate(self._scopes) if scope.names & names), default=0)

    def shared(self, loops: Sequence[tuple[str, Expression]], inner: list[Statement]) -> list[Statement]:
        """Return statements nested in parallel loops."""
        return nested(loops, inner, serial=0 if self.by_element else 1)

    def flush(self, loops: Sequence[Statement]) -> None:
        """Append loops, preceded by comments with the source lines that they compute."""
        self.body.extend(Comment(place) for place in self.places if place not in self.described)
        self.described.update(self.places)
        self.places = {}
        self.body.extend(loops)

    def fill(self, shape: Sequence[Expression], store: Callable[[Index], list[Statement]]) -> None:
        """Append loops over all indices of a shape. `store` returns the statements for one index. Adjacent axes
        are collapsed into one loop if that needs no further integer division.
        """
        if any(d.constant == 0 for d in shape):
            return
        axes = [a for a, d in enumerate(shape) if d.constant != 1]
        groups = [[a] for a in axes]
        best = self._nest(groups, shape, store)
        if len(axes) > 1 and not self.by_element:
            whole = self._nest([axes], shape, store)
            if whole.divisions <= best.divisions:
                best, groups = whole, [axes]
            else:
                best, groups = join_groups(best, groups, lambda groups: self._nest(groups, shape, store))
        splits: Mapping[int, Sequence[Expression]] = {}
        if self.splits:
            best, splits = self._split(best, groups, shape, store)
        if groups and len(groups[-1]) == 1 and len(groups) - 1 not in splits and not self.by_element:
            name, extent = best.loops[-1]
            cuts = changes(best.inner, self.scalars, name, extent.constant or 0)
            if 0 < len(cuts) <= _MAX_CUTS:
                best = self._nest(groups, shape, store, splits, cuts)
        self.flush(best.statements if self.by_element else loops_by_condition(best.statements, self.scalars))

    def _split(
        self,
        best: Nest,
        groups: Sequence[Sequence[int]],
        shape: Sequence[Expression],
        store: Callable[[Index], list[Statement]],
    ) -> tuple[Nest, Mapping[int, Sequence[Expression]]]:
        """Return loops in which a loop whose variable is divided by a factor of its extent is split into two
        loops, and the `splits` of `_nest` that they are.
        """
        splits: dict[int, tuple[Expression, ...]] = {}
        for at in range(len(groups)):
            sizes = self._divisors(best, at)
            while sizes:
                tried = {**splits, at: (*splits.get(at, ()), sizes.pop(0))}
                other = self._nest(groups, shape, store, tried)
                if other.divisions < best.divisions:
                    splits, best = tried, other
                    sizes = self._divisors(best, at)
        return best, splits

    def _divisors(self, nest: Nest, at: int) -> list[Expression]:
        """Return the factors of a loop's extent by which the statements of a nest divide its variable."""
        name, extent = nest.loops[at]
        sizes = divisors(nest.inner, self.scalars, name)
        return [size for size in sizes if not self.space.remainder(extent, size).terms]

    def _nest(
        self,
        groups: Sequence[Sequence[int]],
        shape: Sequence[Expression],
        store: Callable[[Index], list[Statement]],
        splits: Mapping[int, Sequence[Expression]] = MappingProxyType({}),
        cuts: Sequence[int] = (),
    ) -> Nest:
        """Return loops over groups of axes.

        splits: the extents of the inner loops of groups that have several loops, the innermost first. cuts: the
        indices at which the innermost loop, over one axis, is cut into several loops.
        """
        nests, index = self.loops_over(groups, shape, splits)
        loops = [one for nest in nests for one in nest]
        serial = 1 + len(splits.get(len(groups) - 1, ()))
        short = (loops[-1][1].constant or _MANY_ROWS) <= _MAX_REPEATS if loops else False
        if short and serial > 1 and not (cuts or self.by_element):
            store, serial = repeated_stores(store, *loops.pop()), serial - 1
        rows, long = (
            math.prod(extent.constant or often for _, extent in part)
            for part, often in ((loops[:-serial], _MANY_ROWS), (loops[-serial:], 0))
        )
        last = 0 if self.by_element or (rows < _MANY_ROWS and long >= _LONG_ROW) else serial
        if cuts:
            _, extent = loops.pop()
            ends, last = [0, *cuts, extent.constant or 0], 0
            store = self._cut(store, groups[-1][0], ends, parallel=not loops)
        before, inner = self.scoped([name for name, _ in loops], lambda: store(index))
        inner = [*before, *inner]
        count = divisions(inner, self.scalars)
        return Nest(count, nested(loops, inner, serial=last), inner, [nest[0] for nest in nests])

    def loops_over(
        self,
        groups: Sequence[Sequence[int]],
        shape: Sequence[Expression],
        splits: Mapping[int, Sequence[Expression]] = MappingProxyType({}),
    ) -> tuple[list[list[tuple[str, Expression]]], Index]:
        """Return the loops of each group of axes, outermost first, and an iteration's index. splits: `_nest`."""
        index: Index = [constant(0)] * len(shape)
        loops = []
        for at, group in enumerate(groups):
            extent, inside = product(shape[a] for a in group), []
            for size in splits.get(at, ()):
                inside.append((size, *self.variable(size)))
                extent = self.space.quotient(extent, size)
            name, rest = self.variable(extent)
            loops.append([(name, extent), *((inner, size) for size, inner, _ in inside[::-1])])
            for size, _, variable in inside[::-1]:
                rest = rest * size + variable
            for a in reversed(group):
                index[a] = rest if a == group[0] else self.space.remainder(rest, shape[a])
                rest = self.space.quotient(rest, shape[a])
        return loops, index

    def _cut(
        self, store: Callable[[Index], list[Statement]], axis: int, ends: Sequence[int], parallel: bool
    ) -> Callable[[Index], list[Statement]]:
        """Return a function that calls `store` in a loop over an axis for each pair of successive indices."""

        def loops(index: Index) -> list[Statement]:
            statements: list[Statement] = []
            for start, stop in pairwise(ends):
                name, variable = self.variable(constant(stop - start))
                here = [*index[:axis], variable + constant(start), *index[axis + 1 :]]
                before, inner = self.scoped([name], partial(store, here))
                statements += nested([(name, constant(stop - start))], [*before, *inner], parallel)
            return statements

        return loops
