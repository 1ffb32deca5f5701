"""Tracing code that nobody has looked at: two attempts, each made twice and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anylayer.errors import AnyLayerError, TraceError, kind_and_text
from anylayer.graph.ir import Graph, Value
from anylayer.graph.place import place_of_error, refusal
from anylayer.network import TensorType
from anylayer.tracing.reach import Reach
from anylayer.tracing.record import trace
from anylayer.tracing.standin import call_user, substitute_numpy
from anylayer.tracing.state import Snapshot, replace_counters, state_refusal

Function = Callable[[list[Any]], Sequence[Any]]
_OPERATOR_LIMIT = 5000
"""Operators from which on a second attempt is given up: such a graph writes single elements."""


def trace_checked(
    function: Function,
    types: Sequence[TensorType],
    *,
    prefix: str = "",
    rebuild: Callable[[], Function] | None = None,
    subject: Callable[[], Any] | None = None,
) -> Graph:
    """The graph of what `function` does, as `trace` gives it, for code that may do anything.

    Where it refuses, a second attempt runs the user's functions (see call_user) with a stand-in for NumPy that
    makes traced arrays; `rebuild` gives a function whose state is fresh for it. What succeeds is traced again,
    with the state that the first call has left. It must give the same graph and leave the same state, so that all
    later calls do the same; `subject` gives the object whose state and code these are, else it is the function.
    Raises TraceError that says what cannot be recorded, and where; also for an exception that the function raises
    on traced arrays.
    """
    try:
        return _trace_twice(function, types, prefix, None, subject)
    except TraceError as error:
        first = error
    again = rebuild() if rebuild is not None else function
    try:
        with substitute_numpy() as globals_of:
            return _trace_twice(again, types, prefix, _OPERATOR_LIMIT, subject, globals_of)
    except _UserError as error:  # perhaps of the stand-in's making
        raise (error if isinstance(first, _UserError) else first) from None
    except TraceError as error:  # the second attempt gets further
        raise error from None
    except AnyLayerError:
        raise first from None


class _UserError(TraceError):
    """The function raised an exception of its own."""


def _trace_twice(
    function: Function,
    types: Sequence[TensorType],
    prefix: str,
    limit: int | None,
    subject: Callable[[], Any] | None,
    globals_of: Callable[[dict[str, Any]], dict[str, Any]] = lambda space: space,
) -> Graph:
    graph = _trace_once(function, types, prefix, limit)
    reach = Reach(function if subject is None else subject(), globals_of)
    before = Snapshot(reach)
    _require_same(graph, _trace_once(function, types, prefix, limit))
    after = Snapshot(reach)
    if reach.unseeded is not None:
        what, place = reach.unseeded
        raise TraceError(f"{what}; what differs from call to call cannot be recorded", place)
    if reach.hears:
        raise refusal(
            "makes exceptions of warnings, or records them: NumPy warns by the values of the arrays, which are "
            "known only when the network runs; use np.where with np.isfinite or a test of the operands"
        )
    names = before.changed(after)
    if not names:
        return graph
    if any(name not in after.holders for name in names):
        raise state_refusal(next(name for name in names if name not in after.holders))
    with replace_counters(after, names):
        _require_same(graph, _trace_once(function, types, prefix, limit))
    return graph


def _require_same(graph: Graph, again: Graph) -> None:
    difference = compare(graph, again)
    if difference is not None:
        raise TraceError(
            "two calls do not do the same (random numbers, the time, a counter, a state that a call leaves): "
            f"{difference[0]}",
            *([difference[1]] if difference[1] else []),
        )


def _trace_once(function: Function, types: Sequence[TensorType], prefix: str, limit: int | None) -> Graph:
    try:
        return trace(lambda arrays: call_user(function, arrays), types, prefix=prefix, limit=limit, strict=True)
    except AnyLayerError:
        raise
    except Exception as error:
        place = place_of_error(error)
        kind, text = kind_and_text(error)
        raise _UserError(f"raises {kind} on traced arrays: {text}", *([place] if place else [])) from error


def compare(a: Graph, b: Graph) -> tuple[str, str] | None:
    """Where two graphs differ, as (what, place); None where they are the same but for names."""
    if len(a.ops) != len(b.ops):
        return f"one records {len(a.ops)} operators, the next {len(b.ops)}", ""
    known = dict(zip(a.inputs, b.inputs))
    for o, q in zip(a.ops, b.ops):
        if o.op != q.op or o.attrs != q.attrs or len(o.inputs) != len(q.inputs):
            return f"{o.op} and {q.op} differ", o.place
        for v, w in zip(o.inputs, q.inputs):
            if not _same(v, w, known):
                return f"{o.op} gets other values", o.place
        known.update(zip(o.outputs, q.outputs))
    if len(a.outputs) != len(b.outputs):
        return f"one gives {len(a.outputs)} outputs, the next {len(b.outputs)}", ""
    for i, (v, w) in enumerate(zip(a.outputs, b.outputs)):
        if not _same(v, w, known):
            return f"output {i} differs", ""
    return None


def _same(v: Value | None, w: Value | None, known: dict[Value, Value]) -> bool:
    if v is None or w is None:
        return v is w
    if v.const is None or w.const is None:
        return known.get(v) is w
    if v.const is w.const:
        return True
    return v.dtype == w.dtype and v.shape == w.shape and v.const.tobytes() == w.const.tobytes()
