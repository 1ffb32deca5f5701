"""Trace a layer with open sizes, so that its code works for every size that the layer's own shape logic allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from anylayer.errors import AnyLayerError, LayerError, TraceError
from anylayer.graph import Graph, Value
from anylayer.graph.expressions import Expression, Ranges, constant, divided_by_common, symbol
from anylayer.graph.guards import Guard, symbolic_trace
from anylayer.graph.open_sizes import solved
from anylayer.graph.sized import elements_of
from anylayer.graph.sizes import Dim
from anylayer.graph.symbolic import new_size
from anylayer.layer import Bound
from anylayer.loops.composites import expanded
from anylayer.loops.ir import atoms_of, substituted
from anylayer.loops.parameters import Parameters, ParamNumber, find
from anylayer.network import MAX_VALUES, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.tracing import SizeDependsOnData, substitution, trace, trace_checked

_LETTERS = {1: "N", 2: "NC", 3: "NCL", 4: "NCHW", 5: "NCDHW"}
_TRIES = 16
"""The largest number of times that a layer is traced again, because a guard has fixed a size."""


@dataclass(slots=True)
class Opened:
    """A traced layer.

    `sizes` maps the symbol of each open size to (input, axis, factor): the axis has factor times that size. All
    sizes of the inputs are expressions of these symbols, and a caller must check each size. `guards` are
    conditions on the symbols. `traced` are their values during the trace. `notes` say why some sizes are fixed.
    `parameters` are the constants that come from params or blobs.
    """

    graph: Graph
    sizes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    traced: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    parameters: Parameters = field(default_factory=dict)


def opened(layer: Bound, *, free_params: bool = False) -> Opened:
    """Trace a layer at the types that it is bound for, with as many open sizes as it allows.

    free_params: whether params and blobs that do not affect control flow or shapes stay parameters of the
    function, instead of constants.

    Raises LayerError and TraceError where the layer cannot be traced at all.
    """
    try:
        found = _Opening(layer).run()
    except AnyLayerError as error:
        found = at_fixed_sizes(layer)
        found.notes.append(f"the code is for these sizes only: {error}")
    if free_params:
        types = [v.type for v in found.graph.inputs]
        ranges = {name: found.ranges[name] for name in found.sizes}

        def trace(other: Bound) -> Graph:
            return traced_openly(other, types, ranges)[0] if ranges else _at_fixed_sizes(other)

        found.graph, found.parameters = find(layer, trace, difference)
    return found


def at_fixed_sizes(layer: Bound, *, free_params: bool = False) -> Opened:
    """Trace a layer at the types that it is bound for.

    free_params: whether params that do not affect control flow or shapes stay parameters of the function. A note
    names those whose values 0 and 1 the layer may treat in another way.
    """
    if not free_params:
        return Opened(_at_fixed_sizes(layer))
    special: set[str] = set()
    graph, parameters = find(layer, _at_fixed_sizes, difference, special)
    free = {e.name for elements in parameters.values() if isinstance(elements, list) for e in elements
            if isinstance(e, ParamNumber)}  # fmt: skip
    names = ", ".join(sorted(free & special))
    notes = [f"other code may be needed where these are 0 or 1: {names}"] if names else []
    return Opened(graph, parameters=parameters, notes=notes)


def _at_fixed_sizes(layer: Bound) -> Graph:
    return expanded(simplify(_trace(layer, layer.types), exact=True))


def _trace(layer: Bound, types: Sequence[TensorType]) -> Graph:
    """Return the graph of a fresh instance of a layer at these types. Absent inputs stay absent."""

    def fresh() -> Callable[[list[Any]], list[Any]]:
        made = Bound(layer.node, layer.definition, types, layer.dialect, layer.dtype)
        return lambda arrays: made(arrays)

    if layer.definition.built_in:
        return trace(fresh(), types, prefix=f"{layer.node.name}/", scope=layer.node.name)
    subject = Bound(layer.node, layer.definition, types, layer.dialect, layer.dtype)
    try:
        return trace_checked(
            lambda arrays: subject(arrays),
            types,
            prefix=f"{layer.node.name}/",
            rebuild=fresh,
            subject=lambda: subject.instance,
        )
    except SizeDependsOnData as error:
        rule = "sizes that follow from those of its inputs. Write its forward so that it can be recorded"
        raise LayerError(f"{error.message}: a layer in generated code has {rule}", *error.places) from error


def traced_openly(layer: Bound, types: Sequence[TensorType], ranges: Ranges) -> tuple[Graph, list[Guard], Ranges]:
    """Return the graph of a layer traced at symbolic types whose symbols have these ranges, its guards, and the
    ranges that these narrow further.
    """
    with symbolic_trace(ranges) as recorded:
        with substitution.substitute_numpy() if layer.definition.built_in else nullcontext():
            graph = _trace(layer, types)
        with substitution.substitute_numpy():
            graph = expanded(graph)
    return graph, list(recorded.guards), dict(recorded.ranges)


class _Opening:
    """A search for the sizes that can stay open.

    `shapes` are the sizes of the inputs as expressions: a guard that fixes a size replaces its symbol. `ranges`
    are the least and the largest value of each symbol, as far as earlier traces have recorded them.
    """

    def __init__(self, layer: Bound) -> None:
        self.layer = layer
        self.names: dict[str, tuple[int, int]] = {}
        self.shapes: list[tuple[Expression, ...]] = []
        self.values: dict[str, int] = {}
        for i, kind in enumerate(layer.types):
            letters = _LETTERS.get(len(kind.shape), "")
            shape = []
            for axis, d in enumerate(kind.shape):
                if isinstance(d, Dim):
                    raise TraceError(f"input {i} has a size that is known only when the network runs")
                name = (letters[axis] if letters else f"D{axis}") + (str(i) if len(layer.types) > 1 else "")
                self.names[name] = (i, axis)
                self.values[name] = int(d)
                shape.append(symbol(name) if d else constant(0))
            self.shapes.append(tuple(shape))
        self.ranges = dict.fromkeys(self.names, (1, MAX_VALUES))

    def run(self) -> Opened:
        graph, guards, ranges = self.traced_until_fixed()
        if self.fix_sizes_that_code_reads(graph, guards, ranges):
            graph, guards, ranges = self.traced_until_fixed()
        self.require_same(graph, guards, ranges)
        found = {s for shape in self.shapes for e in shape for s in e.symbols}
        sizes = {}
        for name, (i, axis) in self.names.items():
            if name in found:
                times = solved(self.shapes[i][axis], name)
                sizes[name] = (i, axis, times[0] if times else 1)
        traced = {s: self.values[s] for s in sizes}
        ranges = {s: r for s, r in ranges.items() if s in found}
        limits = [Guard(symbol(s), ">=", constant(low)) for s, (low, _) in ranges.items() if low > 1]
        limits += [Guard(symbol(s), "<=", constant(high)) for s, (_, high) in ranges.items() if high < MAX_VALUES]
        return Opened(graph, sizes, ranges, [*limits, *guards], traced)

    def traced_until_fixed(self) -> tuple[Graph, list[Guard], Ranges]:
        """Trace the layer until no guard fixes another size, and no range becomes narrower: min(3, W) is 3 in the
        trace that follows a guard W >= 3.
        """
        for _ in range(_TRIES):
            graph, guards, ranges = self.trace(self.values)
            changed = next(filter(None, map(self.resolved, guards)), None)
            if changed is None and ranges == self.ranges:
                return graph, guards, ranges
            self.ranges = dict(ranges)
            if changed is not None:
                self.replace(changed)
        raise TraceError(f"its code relates its sizes to each other by more than {_TRIES} conditions")

    def fix_sizes_that_code_reads(self, graph: Graph, guards: Sequence[Guard], ranges: Ranges) -> bool:
        """Fix each open size that changes constants in the graph. Return whether there are any."""
        fixed = {}
        for name in sorted({s for shape in self.shapes for e in shape for s in e.symbols}):
            for values in self.others(guards, ranges, [name]):
                try:
                    problem = difference(graph, self.trace(values)[0])
                except AnyLayerError as error:
                    problem = error.message
                if problem:
                    fixed[name] = constant(self.values[name])
                break
        self.replace(fixed)
        return bool(fixed)

    def trace(self, values: Mapping[str, int]) -> tuple[Graph, list[Guard], Ranges]:
        """Return the graph at these values of the symbols, its guards, and the ranges of the symbols."""
        types = [
            TensorType(tuple(new_size(e.value(values), e) for e in shape), kind.dtype)
            for shape, kind in zip(self.shapes, self.layer.types)
        ]
        return traced_openly(self.layer, types, self.ranges)

    def resolved(self, guard: Guard) -> dict[str, Expression] | None:
        """Return the symbols that a guard fixes, with the expressions that replace them; None if it fixes none."""
        left, right = guard.left, guard.right
        if guard.relation != "==" or not isinstance(left, Expression) or not isinstance(right, Expression):
            return None
        for atom in (*atoms_of(left), *atoms_of(right)):
            a, b = atom.arguments if atom.function == "//" else (constant(0), constant(0))
            if str(a) in self.names and b.constant and self.values[str(a)] % b.constant == 0:
                return {str(a): symbol(str(a)) * b}
        difference: Expression = left - right
        while (shorter := divided_by_common(difference)) is not None:
            difference = shorter
        symbols = sorted(difference.symbols, key=lambda s: (self.names[s][1], self.names[s][0]), reverse=True)
        for name in symbols:
            rest = difference - symbol(name)
            for other in (rest, -(difference + symbol(name))):
                for only in other.symbols - {name}:
                    if other in (symbol(only), -symbol(only)):
                        return {name: symbol(only)}
        return {symbols[0]: constant(self.values[symbols[0]])} if symbols else None

    def replace(self, changed: Mapping[str, Expression]) -> None:
        """Replace symbols by expressions."""
        for name, e in changed.items():
            if name in e.symbols:
                factor = (e // symbol(name)).constant or 1
                self.values[name] //= factor
        self.shapes = [tuple(substituted(e, changed) for e in shape) for shape in self.shapes]
        self.ranges = dict.fromkeys(self.names, (1, MAX_VALUES)) if changed else self.ranges

    def require_same(self, graph: Graph, guards: Sequence[Guard], ranges: Ranges) -> None:
        """Raise TraceError unless a trace at other sizes that fulfil the guards has the operators of `graph`."""
        for values in self.others(guards, ranges):
            other, _, _ = self.trace(values)
            problem = difference(graph, other)
            if problem:
                raise TraceError(problem)
            return
        if any(e.symbols for shape in self.shapes for e in shape):
            raise TraceError("no other sizes were found at which its trace can be compared")

    def others(
        self, guards: Sequence[Guard], ranges: Ranges, only: Sequence[str] = ()
    ) -> Iterator[dict[str, int]]:
        """Yield choices of other values for the symbols, at which the guards hold.

        only: the symbols that change; all of them if it is empty.
        """
        for steps in (1, 2, 3, 5, 8, -1):
            for order in (1, 0):
                values = {
                    n: v + steps + order * i if n in only or not only else v
                    for i, (n, v) in enumerate(self.values.items())
                }
                inside = all(low <= values[n] <= high for n, (low, high) in ranges.items() if n in values)
                if inside and all(g.holds(values) for g in guards):
                    yield values


def difference(a: Graph, b: Graph, changed: dict[Value, Value] | None = None) -> str:
    """Return how two traces at different sizes differ in more than the sizes, or "".

    changed: if given, constants may differ, and the pairs that differ are added to this dict.
    """
    if len(a.ops) != len(b.ops):
        return f"it records {len(a.ops)} operators at some sizes and {len(b.ops)} at others"
    same = dict(zip(a.inputs, b.inputs))
    for o, q in zip(a.ops, b.ops):
        known = len(o.inputs) == len(q.inputs) and all(
            _equal(v, w, same, changed) for v, w in zip(o.inputs, q.inputs)
        )
        shapes = [v.shape for v in o.outputs] == [v.shape for v in q.outputs]
        if o.op != q.op or repr(o.attrs) != repr(q.attrs) or not known or not shapes:
            line = f" at {o.place}" if o.place else ""
            return f"operator {o.op}{line} is another one at other sizes, or has other numbers"
        if o.body is not None and q.body is not None and (problem := difference(o.body, q.body)):
            return problem
        same.update(zip(o.outputs, q.outputs))
    outputs = all(_equal(v, w, same, changed) for v, w in zip(a.outputs, b.outputs))
    return "" if outputs and len(a.outputs) == len(b.outputs) else "it returns other arrays at other sizes"


def _equal(
    v: Value | None, w: Value | None, same: Mapping[Value, Value], changed: dict[Value, Value] | None = None
) -> bool:
    if v is None or w is None:
        return v is w
    if v.const is None or w.const is None:
        return same.get(v) is w
    first, second = elements_of(v.const), elements_of(w.const)
    if first is not None or second is not None:
        return first == second and v.dtype == w.dtype and v.shape == w.shape
    if v.type == w.type and v.const.tobytes() == w.const.tobytes():
        return True
    if changed is None or v.type != w.type:
        return False
    changed[v] = w
    return True
