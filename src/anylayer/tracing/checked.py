"""Tracing of unknown code: up to two attempts, each of which is repeated and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anylayer.errors import AnyLayerError, TraceError, kind_and_text
from anylayer.graph.guards import current_trace, repeated_trace, traces_symbolically, unguarded
from anylayer.graph.ir import Graph, TooManyOperators, Value
from anylayer.graph.place import place_of_error, refusal
from anylayer.graph.sized import elements_of
from anylayer.graph.symbolic import Size
from anylayer.network import Array, TensorType
from anylayer.tracing.reach import Reach
from anylayer.tracing.record import running_graph, trace
from anylayer.tracing.state import Snapshot, replace_counters, state_refusal
from anylayer.tracing.substitution import call_user, substitute_numpy
from anylayer.tracing.unseeded import noticed_calls

Forward = Callable[[list[Array]], Sequence[Array]]
_MAX_OPERATORS = 5000
"""The largest number of operators that a second attempt may record. Larger graphs come from code that writes
element by element."""
_MAX_OPEN_OPERATORS = 1000
"""The number of operators with symbolic sizes above which code is also traced with fixed sizes, to find out
whether it loops over a size. Operators with symbolic sizes take longer to record."""


def trace_checked(
    function: Forward,
    types: Sequence[TensorType],
    *,
    prefix: str = "",
    rebuild: Callable[[], Forward] | None = None,
    subject: Callable[[], Any] | None = None,
) -> Graph:
    """Trace a function that may do anything, and return its graph. The arguments are those of `trace`.

    If the first attempt fails, a second one runs the user's functions (see call_user) with a substitute for NumPy
    whose functions create traced arrays; `rebuild` returns a function with fresh state for it.

    An attempt that succeeds is repeated, with the state that the first call left behind. The second call must
    record the same graph and leave the same state, so that all later calls do the same. `subject` returns the
    object whose code and state are examined (default: the function).

    Raises TraceError, with the user's line, for everything that cannot be recorded, and for an exception that the
    function raises.
    """
    if traces_symbolically():  # plain NumPy would turn the sizes into numbers
        with repeated_trace() as restart:
            try:
                with substitute_numpy() as counterpart:
                    return _trace_twice(
                        function, types, prefix, _MAX_OPEN_OPERATORS, subject, counterpart, restart
                    )
            except TooManyOperators:
                fresh = rebuild if rebuild is not None else lambda: function
                if _loops_over_size(fresh, types):
                    raise
            restart()
            with substitute_numpy() as counterpart:
                return _trace_twice(fresh(), types, prefix, _MAX_OPERATORS, subject, counterpart, restart)
    try:
        return _trace_twice(function, types, prefix, None, subject)
    except TraceError as error:
        first = error
    again = rebuild() if rebuild is not None else function
    try:
        with substitute_numpy() as counterpart:
            return _trace_twice(again, types, prefix, _MAX_OPERATORS, subject, counterpart)
    except _UserError as error:  # the substitute may have caused it
        chosen = error if isinstance(first, _UserError) else first
        raise chosen from chosen.__cause__
    except TraceError as error:  # the second attempt got further
        raise error from None
    except AnyLayerError:
        raise first from None


def _loops_over_size(rebuild: Callable[[], Forward], types: Sequence[TensorType]) -> bool:
    """Return whether a function's number of operators depends on the sizes, or exceeds the limit."""
    trace_of_sizes = current_trace.get()
    if trace_of_sizes is None or not trace_of_sizes.symbols:
        return True
    counts: list[int] = []

    def counted(arrays: list[Array]) -> Sequence[Array]:
        try:
            found: Sequence[Array] = call_user(function, arrays)
            return found
        finally:
            counts.append(len(running_graph().ops))

    for more in (0, 1):
        symbols = {name: value + more for name, value in trace_of_sizes.symbols.items()}
        shapes = [tuple(d.expression.value(symbols) if type(d) is Size else d for d in t.shape) for t in types]
        numbers = [TensorType(shape, t.dtype) for shape, t in zip(shapes, types)]
        function = rebuild()
        try:
            with unguarded(), substitute_numpy():
                trace(counted, numbers, limit=_MAX_OPERATORS, strict=True)
        except TooManyOperators:
            return True
        except Exception:  # a layer may refuse other sizes than those that it was made for, after it has computed
            pass
    return len({*counts}) != 1


class _UserError(TraceError):
    """The function raised an exception of its own."""


def _trace_twice(
    function: Forward,
    types: Sequence[TensorType],
    prefix: str,
    limit: int | None,
    subject: Callable[[], Any] | None,
    counterpart: Callable[[Any], Any] = lambda x: x,
    restart: Callable[[], None] = lambda: None,
) -> Graph:
    graph = _trace_once(function, types, prefix, limit)
    reach = Reach(counterpart(function if subject is None else subject()))
    before = Snapshot(reach)
    restart()
    with noticed_calls(reach.files) as found:
        again = _trace_once(function, types, prefix, limit)
    _require_same(graph, again)
    after = Snapshot(reach)
    for what, place in found:
        raise TraceError(
            f"{what}; a value that differs from call to call cannot be recorded; pass it as an input", place
        )
    if reach.handles_warnings:
        raise refusal(
            "forward turns warnings into exceptions, or records them; NumPy's warnings depend on the values of "
            "the arrays, which are known only when the network runs; use np.where with np.isfinite or a test of "
            "the operands"
        )
    names = before.changed(after)
    if not names:
        return graph
    if any(name not in after.holders for name in names):
        raise state_refusal(next(name for name in names if name not in after.holders))
    restart()
    with replace_counters(after, names):
        _require_same(graph, _trace_once(function, types, prefix, limit))
    return graph


def _require_same(graph: Graph, again: Graph) -> None:
    difference = compare(graph, again)
    if difference is not None:
        raise TraceError(
            f"two calls of forward record different operators: {difference[0]}; remove random numbers, the time, "
            "counters and state that one call keeps for the next",
            *([difference[1]] if difference[1] else []),
        )


def _trace_once(function: Forward, types: Sequence[TensorType], prefix: str, limit: int | None) -> Graph:
    try:
        return trace(lambda arrays: call_user(function, arrays), types, prefix=prefix, limit=limit, strict=True)
    except AnyLayerError:
        raise
    except Exception as error:
        place = place_of_error(error)
        kind, text = kind_and_text(error)
        raise _UserError(
            f'forward raised "{kind}: {text}" when it was called with traced arrays, which have no values; '
            "compute only with NumPy functions, operators and anylayer.ops",
            *([place] if place else []),
        ) from error


def compare(a: Graph, b: Graph) -> tuple[str, str] | None:
    """Return the first difference between two graphs as (description, place), or None if only names differ."""
    if len(a.ops) != len(b.ops):
        return f"the first records {len(a.ops)} operators, the second {len(b.ops)}", ""
    same = dict(zip(a.inputs, b.inputs))
    for o, q in zip(a.ops, b.ops):
        if o.op != q.op or o.attrs != q.attrs or len(o.inputs) != len(q.inputs):
            return f"{o.op} and {q.op} differ", o.place
        for v, w in zip(o.inputs, q.inputs):
            if not _same(v, w, same):
                return f"{o.op} reads different values", o.place
        same.update(zip(o.outputs, q.outputs))
    if len(a.outputs) != len(b.outputs):
        return f"the first returns {len(a.outputs)} outputs, the second {len(b.outputs)}", ""
    for i, (v, w) in enumerate(zip(a.outputs, b.outputs)):
        if not _same(v, w, same):
            return f"output {i} differs", ""
    return None


def _same(v: Value | None, w: Value | None, same: dict[Value, Value]) -> bool:
    if v is None or w is None:
        return v is w
    if v.const is None or w.const is None:
        return same.get(v) is w
    if v.const is w.const:
        return True
    same_elements = elements_of(v.const) == elements_of(w.const)
    return same_elements and v.type == w.type and v.const.tobytes() == w.const.tobytes()
