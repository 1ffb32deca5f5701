"""Trace code that selects elements by their values: x[mask], np.nonzero.

A first trace fails at such a selection, because its size depends on data. The code is then traced twice with a
symbol for each such size, with two examples of its value, and both traces become one graph with dynamic sizes.

Code may ask whether nothing is selected (`if len(keep) == 0: return ...`). It is traced once more with nothing. If
it then returns something else than the arrays without elements that the graph returns in this case, both traces
are joined; the selection of the other one is filled, so that its operators run on at least one element. Other
comparisons of these sizes by the user's code are decisions: see anylayer.tracing.decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from anylayer import compile as compilation
from anylayer import tracing
from anylayer.errors import TraceError
from anylayer.graph import Dim, Graph
from anylayer.graph.expressions import symbol
from anylayer.graph.guards import SymbolicTrace, current_trace, symbolic_trace
from anylayer.graph.place import refusal
from anylayer.graph.symbolic import Size, new_size
from anylayer.network import TensorType
from anylayer.tracing import SizeDependsOnData
from anylayer.tracing.record import current_graph

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
        running.decide = tracing.counts.decide_size
        return _check_conditions(trace(types), running, lambda _: trace(types))
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
            recorded.decide = tracing.counts.decide_size
            graph = _check_conditions(again(recorded), recorded, again)
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


def _check_conditions(graph: Graph, trace: SymbolicTrace, again: Callable[[SymbolicTrace], Graph]) -> Graph:
    """Remove the conditions on sizes that depend on data from a trace, and return the graph in which they are
    decided. Raises TraceError for one that cannot be.
    """
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
        if len(trace.empty) + len(trace.filled) >= _MAX_EMPTY:
            raise refusal(f"the code finds more than {_MAX_EMPTY} selections empty", place=place)
        empty = _traced_again(trace, again, trace.empty | {name}, trace.filled)
        if _agrees(graph, empty, trace, name):
            continue
        larger = trace.counts[name].limit.symbols & trace.counts.keys()
        full = _traced_again(trace, again, trace.empty, trace.filled | {name} | larger)
        if name not in full.filled:
            raise refusal("the code does something else if an input has no elements", place=place)
        token = current_graph.set(full)
        try:
            return tracing.decisions.join_selected(full, empty, name, place)
        finally:
            current_graph.reset(token)
    return graph


def _traced_again(
    trace: SymbolicTrace, again: Callable[[SymbolicTrace], Graph], empty: frozenset[str], filled: frozenset[str]
) -> Graph:
    """Trace the code once more where some selections are empty and others are filled, and return the graph."""
    with symbolic_trace(trace.ranges, trace.symbols, trace.turn) as other:
        other.empty, other.filled, other.decide = empty, filled, trace.decide
        graph = _check_conditions(again(other), other, again)
    trace.guards.update(other.guards)
    for size, (low, high) in other.ranges.items():
        least, most = trace.ranges.get(size, (low, high))
        is_count = size in other.counts
        trace.ranges[size] = (min if is_count else max)(low, least), min(high, most)
    trace.counts.update({name: count for name, count in other.counts.items() if name not in trace.counts})
    return graph


def _agrees(graph: Graph, empty: Graph, trace: SymbolicTrace, name: str) -> bool:
    """Return whether a trace in which selection `name` is empty returns arrays without elements, of the shapes
    that `graph` has in this case.
    """
    values = {**trace.symbols, name: 0}
    for other, count in trace.counts.items():  # a selection of an empty one is empty
        values[other] = min(values.get(other, count.example), count.limit.value(values))
    for v, w in zip(graph.outputs, empty.outputs, strict=True):
        shape = [d.expression.value(values) if type(d) is Size else d for d in v.shape]
        if (shape, v.dtype) != ([int(d) for d in w.shape], w.dtype) or 0 not in shape:
            return False
    return True
