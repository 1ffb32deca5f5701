"""Tracing of unknown code: up to two attempts, each of which is repeated and compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from anylayer import tracing
from anylayer.errors import AnyLayerError, InputError, TraceError, kind_and_text
from anylayer.graph.guards import current_trace, repeated_trace, traces_symbolically, unguarded
from anylayer.graph.ir import Graph, Value
from anylayer.graph.place import JoinError, place_of_error, refusal
from anylayer.graph.repetition import (
    TooManyOperators,
    TooMuchInAll,
    allow_operators,
    limit_repetition,
    need_operators,
    recorded_in_all,
)
from anylayer.graph.sized import elements_of
from anylayer.graph.symbolic import plain
from anylayer.network import Array, Function, TensorType
from anylayer.tracing.noticed import lost, noticed_calls
from anylayer.tracing.reach import Reach
from anylayer.tracing.record import SizeDependsOnData, call_user, running_graph, trace
from anylayer.tracing.state import GENERATORS, Snapshot, replace_counters, state_refusal

Forward = Callable[[list[Array]], Sequence[Array]]
_MAX_OPERATORS = 5000
"""The largest number of operators that a second attempt may record. Larger graphs come from code that writes
element by element."""
_MAX_JOINED_OPERATORS = 20_000
"""The largest number of operators where both sides of ifs on sizes are recorded, as in loops over classes."""
_JOINED_TRACES = 16
"""How often such code may be traced after the first time."""
_MAX_SAMPLE = 1 << 24
"""The largest number of elements of an input for which it is found out whether code loops over a size."""
_MAX_OPEN_OPERATORS = 1000
"""The number of operators with symbolic sizes above which code is also traced with fixed sizes, to find out
whether it loops over a size. Operators with symbolic sizes take longer to record."""


@dataclass(slots=True)
class Questions:
    """How code is traced that asks whether something is selected.

    how: questions of masks are "decisions", or answered as those of "sizes", or both sides of ifs on masks and on
    sizes are recorded ("joined"). most: the largest number of sizes that may be asked for. asked: whether a
    question of a mask was answered as one of a size. names: the sizes of these masks.
    """

    how: str = "decisions"
    most: float = math.inf
    asked: bool = False
    names: set[str] = field(default_factory=set)

    def need_few(self, names: Set[str]) -> None:
        """Raise TooManyQuestions if the code asks for more sizes than allowed."""
        if len(names) > self.most:
            raise TooManyQuestions("the code asks for many selections whether they are empty")


class TooManyQuestions(TraceError):
    """The code asks for more selections than Questions allow whether they are empty."""


_questions: ContextVar[Questions | None] = ContextVar("questions", default=None)


@contextmanager
def answer_questions(how: str, most: float = math.inf) -> Iterator[Questions]:
    """Answer questions in a way inside the context; see Questions."""
    answers = Questions(how, most)
    token = _questions.set(answers)
    try:
        yield answers
    finally:
        _questions.reset(token)


def questions() -> Questions:
    """Return how questions are answered now."""
    return _questions.get() or Questions()


def trace_checked(
    function: Forward,
    types: Sequence[TensorType],
    *,
    prefix: str = "",
    rebuild: Callable[[], Forward] | None = None,
    subject: Callable[[], Any] | None = None,
    is_repeated: bool = True,
) -> Graph:
    """Trace a function that may do anything, and return its graph. The arguments are those of `trace`.

    If the first attempt fails, a second one runs the user's functions (see call_user) with a substitute for NumPy
    whose functions create traced arrays; `rebuild` returns a function with fresh state for it.

    An attempt that succeeds is repeated, with the state that the first call left behind. The second call must
    record the same graph and leave the same state, so that all later calls do the same. Afterwards the objects of
    the user have the content that they had before. `subject` returns the object whose code and state are examined
    (default: the function). Without `is_repeated`, the function has been traced for these types before.

    Code with more paths or operators than the limit is traced again with ifs that are joined, and then with loops
    that are recorded: see joined_ifs, recorded_loops.

    Raises TraceError, with the user's line, for everything that cannot be recorded, and for an exception that the
    function raises.
    """
    code = _Code(function, types, prefix, rebuild, subject, is_repeated)
    code = replace(code, before=code.state_before())
    try:
        return _with_changed_code(code)
    finally:
        code.restore()


def _with_changed_code(code: _Code) -> Graph:
    """Trace a function as it is, and else with its ifs joined or its loops recorded."""
    first: TraceError | None = None
    try:
        if questions().how != "joined":
            return _attempts(code)
    except (JoinError, TooManyOperators) as error:
        first = error
    causes: list[TraceError] = []
    for how in ("ifs", "loops"):
        code = code.fresh()
        try:
            with limit_repetition(), tracing.decisions.change_code(how):
                return _attempts(code)
        except SizeDependsOnData:
            raise
        except TraceError as error:
            causes.append(error)
    if isinstance(first, TooManyOperators) and not traces_symbolically():
        try:
            return _trace_twice(code.fresh(), None)  # long code without loops that can be recorded
        except TraceError:
            pass
    cause = next((e for e in causes if isinstance(e, TooMuchInAll)), causes[-1])
    raise cause if first is None else tracing.joined_ifs.with_reason(first, cause)


@dataclass(frozen=True, slots=True)
class _Code:
    """What is traced: the arguments of `trace_checked`."""

    function: Forward
    types: Sequence[TensorType]
    prefix: str
    rebuild: Callable[[], Forward] | None
    subject: Callable[[], Any] | None
    is_repeated: bool
    before: Snapshot | None = None

    def fresh(self) -> _Code:
        """Return the code with fresh state."""
        self.restore()
        return self if self.rebuild is None else replace(self, function=self.rebuild())

    def restore(self) -> None:
        """Give everything that a call may change the content that it had before the first call."""
        if self.before is not None:
            self.before.restore(self.reach())

    def reach(self, counterpart: Function = lambda x: x) -> Reach:
        """Return what a call may change."""
        return Reach(counterpart(self.function if self.subject is None else self.subject()))

    def state_before(self, counterpart: Function = lambda x: x) -> Snapshot | None:
        """Return the state before a call, or None if the call itself makes the object that is examined."""
        with suppress(AttributeError, IndexError):
            return Snapshot(self.reach(counterpart))
        return None


def _attempts(code: _Code) -> Graph:
    """Trace a function in one or two attempts."""
    if traces_symbolically():  # plain NumPy would turn the sizes into numbers
        with repeated_trace() as restart:
            restart()
            try:
                with tracing.substitution.substitute_numpy() as counterpart:
                    sizes = current_trace.get()
                    is_long = tracing.decisions.changes_code() == "ifs" or (sizes is not None and sizes.symbols)
                    limit = _MAX_OPEN_OPERATORS if is_long else _MAX_OPERATORS
                    limit = _MAX_JOINED_OPERATORS if questions().how == "joined" else limit
                    graph = _trace_twice(code, limit, counterpart, restart)
                place = _counts_to_size(code)
                if not place:
                    return graph
            except TooManyOperators:
                if _loops_over_size(code):
                    raise
            else:
                raise refusal(
                    "a loop runs once for each element of an open size; loop over range(...) or an array in a "
                    "statement `for`, so that the loop itself is recorded",
                    place=place,
                    kind=JoinError,
                )
            restart()
            with tracing.substitution.substitute_numpy() as counterpart:
                return _trace_twice(code.fresh(), _MAX_OPERATORS, counterpart, restart)
    first: TraceError | None = None
    try:
        if not tracing.decisions.changes_code():
            return _trace_twice(code, _MAX_OPERATORS)
    except (SizeDependsOnData, tracing.decisions.TooManyPaths, TooManyOperators):
        raise
    except TraceError as error:
        first = error
    limit = _MAX_OPEN_OPERATORS if tracing.decisions.changes_code() == "ifs" else _MAX_OPERATORS
    try:
        with tracing.substitution.substitute_numpy() as counterpart:
            return _trace_twice(code.fresh(), limit, counterpart)
    except _UserError as error:  # the substitute may have caused it
        chosen = error if first is None or isinstance(first, _UserError) else first
        raise chosen from chosen.__cause__
    except TraceError as error:  # the second attempt got further
        raise error from None
    except InputError:  # the results are of a kind that no file holds
        raise
    except AnyLayerError as error:
        raise first or error from None


def _counts_to_size(code: _Code) -> str:
    """Return the line where a function records one step per element of an open size, or ""."""
    sizes = current_trace.get()
    if sizes is None or not sizes.symbols or not sizes.fixes or not _loops_over_size(code):
        return ""
    return sizes.fixes


def _loops_over_size(code: _Code) -> bool:
    """Return whether a function's number of operators differs at twice the sizes, or exceeds the limit."""
    trace_of_sizes = current_trace.get()
    if trace_of_sizes is None or not trace_of_sizes.symbols:
        return True
    counts: list[int] = []

    def counted(arrays: list[Array]) -> Sequence[Array]:
        try:
            outputs: Sequence[Array] = call_user(function, arrays)
            return outputs
        finally:
            counts.append(len(running_graph().ops))

    for factor in (1, 2):
        symbols = {name: factor * value for name, value in trace_of_sizes.symbols.items()}
        numbers = [TensorType(tracing.counts.shape_at(t.shape, symbols), t.dtype) for t in code.types]
        if any(math.prod(plain(t.shape)) > _MAX_SAMPLE for t in numbers):
            return True  # the code may make constants of these sizes
        function = code.fresh().function
        try:
            with unguarded(), tracing.substitution.substitute_numpy():
                trace(counted, numbers, limit=_MAX_OPERATORS, strict=True)
        except TooManyOperators:
            return True
        except Exception:  # a layer may refuse other sizes than those that it was made for, after it has computed
            pass
    return len({*counts}) != 1


class _UserError(TraceError):
    """The function raised an exception of its own."""


def _trace_twice(
    code: _Code,
    limit: int | None,
    counterpart: Function = lambda x: x,
    restart: Callable[[], None] = lambda: None,
) -> Graph:
    sizes, before_this, initial = current_trace.get(), recorded_in_all(), code.state_before(counterpart)
    graph = _trace_once(code, limit)
    if questions().how == "joined":
        allow_operators(_JOINED_TRACES * (recorded_in_all() - before_this))
    if not code.is_repeated or (sizes is not None and sizes.turn == 1):  # compared with that of the other turn
        return graph
    needed, place = recorded_in_all() - before_this, None
    if sizes is not None and sizes.turn == 0 and not sizes.empty and not sizes.filled:
        needed *= 2  # the other turn comes
        asked = [g.place for g in sizes.guards if not sizes.counts.keys().isdisjoint(g.symbols)]
        if asked:
            place = asked[-1]
            needed += 3 * max(sizes.recorded - before_this, 0)  # and in both the other answer of a question
    need_operators(needed, place)
    reach = code.reach(counterpart)
    before = Snapshot(reach)
    later: list[Snapshot] = []
    restart()
    with noticed_calls(reach.files) as calls:
        again = _trace_once(code, limit, lambda: later.append(Snapshot(reach)))
    if len(later) > 1 and initial is not None and initial.restore(reach)[0]:
        restart()
        _require_same_state_on_all_paths(code, limit, initial, again, reach)
    names = list(dict.fromkeys(name for after in later for name in before.changed(after)))
    states = [GENERATORS if isinstance(before.values.get(name), dict) else name for name in names]
    _require_same(graph, again, [] if calls.differing else states)
    for what, place in calls.differing:
        raise TraceError(
            f"{what}; a value that differs from call to call cannot be recorded; pass it as an input", place
        )
    graph.notes += [n for n in dict.fromkeys(map(lost, calls.writing)) if n not in graph.notes]
    if reach.handles_warnings:
        raise refusal(
            "forward turns warnings into exceptions, or records them; NumPy's warnings depend on the values of "
            "the arrays, which are known only when the network runs; use np.where with np.isfinite or a test of "
            "the operands"
        )
    after = later[-1]
    if not names:
        return graph
    if any(name not in after.numbers for name in names):
        raise state_refusal(next(name for name in names if name not in after.numbers))
    restart()
    with replace_counters(after, names):
        _require_same(graph, _trace_once(code, limit))
    return graph


def _require_same_state_on_all_paths(
    code: _Code, limit: int | None, initial: Snapshot, again: Graph, reach: Reach
) -> None:
    """Raise TraceError if state is set on some of the paths between which the data decide.

    It may be an array or object that a path makes once and keeps, if the graph is that of a call in which all
    paths have done so.
    """
    changes: list[tuple[list[str], list[str]]] = []
    graph = _trace_once(code, limit, lambda: changes.append(initial.restore(reach)))
    difference = compare(graph, again)
    sets = [{*(changed if difference else lasting)} for changed, lasting in changes]
    for names in sets:
        for name in sorted(names ^ sets[0]):
            raise refusal(
                f"{name} is set where the values of the arrays decide, but state that is kept between two calls "
                "cannot be recorded; return the value",
                place=next(iter(again.decided.paths.values())).rpartition(" (")[0] if again.decided else "",
            )
    _require_same(graph, again, sorted(sets[0]))


def _require_same(graph: Graph, again: Graph, states: Sequence[str] = ()) -> None:
    """Raise TraceError if two calls record different graphs. states: what has changed between them, if known."""
    difference = compare(graph, again)
    if difference is not None:
        if states:
            raise state_refusal(states[0], difference[1] or None)
        raise TraceError(
            f"two calls of forward record different operators: {difference[0]}; remove random numbers, the time, "
            "counters and state that one call keeps for the next",
            *([difference[1]] if difference[1] else []),
        )


def _trace_once(code: _Code, limit: int | None, after_run: Callable[[], None] = lambda: None) -> Graph:
    def call(arrays: list[Array]) -> Sequence[Array]:
        outputs: Sequence[Array] = call_user(code.function, arrays)
        return outputs

    sizes = current_trace.get()
    try:
        with nullcontext() if sizes is None or sizes.turn is None else tracing.loops.watch_loops(sizes):
            return trace(call, code.types, prefix=code.prefix, limit=limit, strict=True, after_run=after_run)
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
        if o.body is not None and q.body is not None and (inner := compare(o.body, q.body)) is not None:
            return inner
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
