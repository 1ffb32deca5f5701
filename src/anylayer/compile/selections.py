"""Trace code that selects elements by their values: x[mask], np.nonzero.

A first trace fails at such a selection, because its size depends on data. The code is then traced twice with a
symbol for each such size, with two examples of its value, and both traces become one graph with dynamic sizes.

Code may ask whether nothing is selected (`if len(keep) == 0: return ...`). It is traced once more with nothing,
and must then return the arrays without elements that the graph returns in this case. Other conditions on these
sizes are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from anylayer import compile as compilation
from anylayer.errors import TraceError
from anylayer.graph import Dim, Graph
from anylayer.graph.expressions import symbol
from anylayer.graph.guards import SymbolicTrace, current_trace, symbolic_trace
from anylayer.graph.place import refusal
from anylayer.graph.symbolic import Size, new_size
from anylayer.network import TensorType
from anylayer.tracing import SizeDependsOnData

if TYPE_CHECKING:
    from anylayer.compile.symbolic import Trace

Tracer = Callable[[Sequence[TensorType]], Graph]
_MAX_EMPTY = 8
"""The largest number of selections that a function may find empty."""


def trace_with_selections(trace: Tracer, types: Sequence[TensorType]) -> Graph:
    """Return the graph that `trace` returns for inputs of these types. It may have dynamic sizes.

    types: a Dim in the shape of an input is a size that depends on data, too.
    """
    running = current_trace.get()
    if running is not None:
        graph = trace(types)
        _check_conditions(graph, running, lambda _: trace(types))
        return graph
    dims: list[Any] = [d for t in types for d in t.shape if isinstance(d, Dim)]
    try:
        return trace(types)
    except SizeDependsOnData:
        pass
    except TraceError:
        if not dims:
            raise

    def again(recorded: SymbolicTrace) -> Graph:
        return trace([_sized(t, recorded) for t in types])

    def traced(turn: int) -> Trace:
        with symbolic_trace({}, turn=turn) as recorded:
            graph = again(recorded)
            _check_conditions(graph, recorded, again)
        examples = {name: count.example for name, count in recorded.counts.items()}
        return compilation.symbolic.Trace(graph, examples, tuple(recorded.guards), recorded.ranges)

    first = traced(0)
    return compilation.symbolic.for_every_size(first, traced(1), first.ranges, dims=dims)


def _sized(kind: TensorType, trace: SymbolicTrace) -> TensorType:
    """Return the type of an input with symbolic sizes in place of its Dims."""

    def size(d: Any) -> Any:
        if not isinstance(d, Dim):
            return d
        value = trace.count(d.base.name, d.base.maximum)
        return 0 if value is None else new_size(value, symbol(d.base.name)) * d.factor

    return TensorType(tuple(map(size, kind.shape)), kind.dtype)


def _check_conditions(graph: Graph, trace: SymbolicTrace, again: Callable[[SymbolicTrace], Graph]) -> None:
    """Remove the conditions on sizes that depend on data from a trace. Raises TraceError for one that matters."""
    conditions = [g for g in trace.guards if not trace.counts.keys().isdisjoint(g.symbols)]
    for guard in conditions:
        del trace.guards[guard]
    for guard in conditions:
        if not trace.asks_for_nothing(guard):
            raise refusal(
                f"{guard} is asked of a number of selected elements, which is known only when the network runs. "
                "It can be recorded whether nothing is selected (len(x) == 0); x[:n] selects at most n elements",
                place=guard.place,
            )
    for name in dict.fromkeys(name for guard in conditions for name in guard.symbols):
        place = next(g.place for g in conditions if name in g.symbols)
        _compare_with_nothing(graph, trace, again, name, place)


def _compare_with_nothing(
    graph: Graph, trace: SymbolicTrace, again: Callable[[SymbolicTrace], Graph], name: str, place: str
) -> None:
    """Trace the code once more where selection `name` is empty. Raises TraceError unless it returns arrays without
    elements, of the shapes that `graph` has in this case.
    """
    if len(trace.empty) >= _MAX_EMPTY:
        raise refusal(f"the code finds more than {_MAX_EMPTY} selections empty", place=place)
    values = {**trace.symbols, name: 0}
    for other, count in trace.counts.items():  # a selection of an empty one is empty
        values[other] = min(values.get(other, count.example), count.limit.value(values))
    with symbolic_trace(trace.ranges, trace.symbols, trace.turn) as nothing:
        nothing.empty = trace.empty | {name}
        empty = again(nothing)
        _check_conditions(empty, nothing, again)
    trace.guards.update(nothing.guards)
    for size, (low, high) in trace.ranges.items():
        least, most = nothing.ranges[size]
        trace.ranges[size] = max(low, least), min(high, most)
    for i, (v, w) in enumerate(zip(graph.outputs, empty.outputs, strict=True)):
        shape = [d.expression.value(values) if type(d) is Size else d for d in v.shape]
        if (shape, v.dtype) != ([int(d) for d in w.shape], w.dtype) or 0 not in shape:
            raise refusal(
                f"output {i} is {w.type} if nothing is selected here, which the operators for {v.type} do not "
                "compute. Return an array without elements, or use np.where",
                place=place,
            )
