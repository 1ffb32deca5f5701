"""Decisions: code that asks for the truth of a traced array, `if x.max() > 1`, runs once per path.

A run answers its decisions from a list, and with False where the list ends. The function is run again with the
last open answer flipped until every path was taken, and the outputs of the paths are joined: see `explore`. No
source code is needed. All runs of one trace share a graph, which stores equal operators once.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer import tracing
from anylayer.errors import AnyLayerError, TraceError, kind_and_text
from anylayer.graph.intervals import Intervals
from anylayer.graph.ir import Decisions, Graph, Value
from anylayer.graph.operators import INDEXED
from anylayer.graph.place import JoinError, is_users, place_of, position_of, refusal, user_frame
from anylayer.graph.sizes import is_static
from anylayer.graph.symbolic import plain, symbolic_shape
from anylayer.network import Array
from anylayer.tracing.array import TracedArray

if TYPE_CHECKING:
    from anylayer.tracing.objects import Form, Heap

MAX_PATHS = 64
"""The largest number of paths of one function."""
_MAX_REPEATED = 200_000  # the operators, or the questions, of one path times the number of different questions


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """A question for the truth of a value, and its answer in one run.

    condition: a boolean scalar of the graph. place: the user's line. position: where the expression
    stands. depth: the number of frames of the user's code. recorded: the number of operators recorded before the
    question.
    """

    condition: Value
    place: str
    position: Any
    depth: int
    recorded: int
    answer: bool

    def asks_same(self, other: Decision) -> bool:
        """Return whether another run came to the same question."""
        mine = self.condition, self.place, self.position, self.depth
        return mine == (other.condition, other.place, other.position, other.depth)


Writes = dict[int, tuple[TracedArray, Any]]
"""Arrays that are written to, each with its content before, by their ids."""


class Run:
    """One run of a function: decision k gets `answers[k]`, and False where the list ends.

    `taken` are the decisions so far, of `asked` questions: an equal one gets the same answer. `is_possible` is
    false once answers contradict each other, so that the network never takes this path. `raised` is the last
    exception that the code raises in NumPy, too: see may_raise. `sides` are the sides of joined ifs that run now,
    `joined` all of them, and `chosen` arrays that such an if chooses or has chosen, with their versions. `writes`
    are the arrays that each of these sides and each body of a recorded loop has written to, the innermost last.
    `loops` are the recorded loops whose bodies run now, `appended` the arrays that they append to lists, by id.
    `recorded` are the objects that are appended, and `heaps` those that hold their attributes, by the ids of the
    arrays: see objects.
    """

    def __init__(self, answers: Sequence[bool] = ()) -> None:
        self.answers, self.asked, self.is_possible = tuple(answers), 0, True
        self.taken: list[Decision] = []
        self.raised: Exception | None = None
        self.sides: list[Decision] = []
        self.joined: list[Decision] = []
        self.chosen: list[tuple[TracedArray, int]] = []
        self.writes: list[Writes] = []
        self.loops: list[Any] = []
        self.appended: dict[int, TracedArray] = {}
        self.recorded: dict[int, tuple[object, Form, Sequence[object], int]] = {}
        self.heaps: dict[int, Heap] = {}
        self._known: dict[Value, bool] = {}

    def decide(self, x: TracedArray) -> bool:
        """Return the answer to the question whether a traced array of one element is true."""
        condition = self.condition_of(x)
        if condition.const is not None:
            return bool(condition.const)
        self.asked += 1
        if condition not in self._known:
            self._known[condition] = self._answer(condition, len(x._graph.ops))
        return self._known[condition]

    def condition_of(self, x: TracedArray) -> Value:
        """Return the question whether a traced array of one element is true as a boolean scalar."""
        truth: Any = (x if x.dtype == np.bool_ else np.not_equal(x, 0)).reshape(())
        value: Value = truth._value
        return value

    def answer_of(self, condition: Value) -> bool | None:
        """Return the answer that a boolean scalar has on this path, or None if it was not asked for."""
        return self._known.get(condition)

    def enter(self, decision: Decision, answer: bool) -> None:
        """Begin one side of a joined if."""
        side = replace(decision, answer=answer)
        self.sides.append(side)
        if not self.loops:
            self.joined.append(side)
        self._known[side.condition] = answer

    def leave(self) -> None:
        """End the side of a joined if that runs now."""
        del self._known[self.sides.pop().condition]

    def path(self, graph: Graph) -> Array:
        """Return a traced boolean that is true where the network takes the path of this run up to here."""
        decisions = [*self.taken, *self.sides]
        conditions: list[Any] = [TracedArray(graph, d.condition) for d in decisions]
        return functools.reduce(np.logical_and, [c if d.answer else ~c for c, d in zip(conditions, decisions)])

    def _answer(self, condition: Value, recorded: int) -> bool:
        at = len(self.taken)
        if self.loops:
            raise refusal(
                "the values of the arrays decide in a loop, but not by the condition of an if whose sides only "
                "change local variables, arrays and lists; write such an if"
            )
        if at >= MAX_PATHS - 1:
            raise too_many(self.taken)
        frame = outer = user_frame()
        depth = 0
        while outer is not None:
            depth, outer = depth + is_users(outer), outer.f_back
        answer = at < len(self.answers) and self.answers[at]
        position = None if frame is None else position_of(frame)
        self.taken.append(Decision(condition, place_of(frame), position, depth, recorded, answer))
        return answer


current_run: ContextVar[Run | None] = ContextVar("current_run", default=None)
"""The run that answers decisions; None where they are refused."""
_changes: ContextVar[tuple[str, set[str]]] = ContextVar("changes", default=("", set()))


def guarded_index(op: str, inputs: Sequence[Any], graph: Graph) -> Sequence[Any]:
    """Return the inputs of an operator with its index 0 where the network does not take the path of this run.

    Only there it may be out of range, and engines refuse such an index even if the element is not used.
    """
    run = current_run.get()
    if (
        op not in INDEXED.names
        or run is None
        or not (run.taken or run.sides)
        or type(inputs[1]) is not TracedArray
    ):
        return inputs
    x, index = inputs[:2]
    low, high = Intervals(graph.producers).of(index._value)
    smallest = min((d for d in plain(x.shape) if is_static([d])), default=1)
    if index._const() is not None or (-smallest <= low and high < smallest and not symbolic_shape(x.shape)):
        return inputs
    if tracing.counts.certainly_inside(index, x):
        return inputs
    return [x, np.where(run.path(graph), index, index.dtype.type(0)), *inputs[2:]]


def too_many(decisions: Sequence[Decision], number: object = MAX_PATHS) -> TraceError:
    """Return the error for a function with more paths than the limit."""
    places = list(dict.fromkeys(d.place for d in decisions))
    lines = ", ".join(places[:6]) + (", ..." if len(places) > 6 else "")
    return refusal(
        f"the values of the arrays decide between more than {number} paths (at {lines}); use np.where, "
        "np.maximum or np.minimum, or a loop over a fixed number of steps",
        place=decisions[-1].place,
        kind=TooManyPaths,
    )


@contextmanager
def change_code(how: str) -> Iterator[None]:
    """Let copies of the user's functions join their ifs inside the context, with "loops" also record loops."""
    token = _changes.set((how, set()))
    try:
        yield
    finally:
        _changes.reset(token)


def changes_code() -> str:
    """Return how copies of the user's functions are changed: "ifs", "loops" or ""."""
    return _changes.get()[0]


def changed_functions() -> set[str]:
    """Return the names of the functions that the running trace has changed."""
    return _changes.get()[1]


class TooManyPaths(JoinError):
    """The values of the arrays decide between more paths than the limit."""


def records_loop() -> bool:
    """Return whether the body of a loop is recorded now: see recorded_loops."""
    return bool(getattr(current_run.get(), "loops", False))


def note_write(x: TracedArray) -> None:
    """Note that an array is written to, before its content changes."""
    run = current_run.get()
    if run is not None and id(x) in run.appended:
        raise refusal("an array that a loop on data has appended to a list is written to later; append a .copy()")
    if run is not None and id(x) in run.heaps:
        run.heaps[id(x)].note_write()
    if run is not None and run.writes:
        run.writes[-1].setdefault(id(x), (x, x._content))


def truth(x: TracedArray) -> bool:
    """Return whether a traced array is true: the answer of the running run, or that of a constant."""
    run = current_run.get()
    if run is None or x._const() is not None or any(type(d) is not int or d != 1 for d in x.shape):
        return bool(x._values(tracing.causes.bool_refusal))
    selects = tracing.counts.selects_something(x, run)
    return run.decide(x) if selects is None else selects


@functools.cache
def _try_ranges(code: CodeType) -> list[tuple[int, int]]:
    """Return the first position of each `try` or `with` of a code, and that after its last one. Comprehensions and
    generators have entries in the table of exceptions, too, but only to raise them again.
    """
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # absent in typeshed
    return [(e.start, e.end) for e in entries if dis.opname[code.co_code[e.target]] == "PUSH_EXC_INFO"]


def may_raise(condition: Callable[[], Any], error: Exception) -> bool:
    """Raise an exception on the path on which a condition holds, and return True, if the user's code may catch it.
    Otherwise NumPy fails for such inputs, and the network returns any numbers.
    """
    run, frame = current_run.get(), user_frame()
    if run is None:
        return False
    while frame is not None and frame.f_code is not _Paths.call_once.__code__:
        if is_users(frame) and any(a <= frame.f_lasti < b for a, b in _try_ranges(frame.f_code)):
            asked: Any = condition()
            if run.decide(asked) if type(asked) is TracedArray else asked:
                run.raised = error
                raise error
            return True
        frame = frame.f_back
    return False


def explore(graph: Graph, call: Callable[[], list[Value]]) -> list[Value]:
    """Call a function once for each path, and return its outputs as values of one graph.

    call: runs the function, and returns its outputs as values of `graph`.
    """
    paths = _Paths(graph, call)
    outputs = paths.outputs(())[0]
    if outputs is None:
        raise refusal("every path of forward raises; return a value", place=paths.runs[0].taken[-1].place)
    graph.decided = paths.decisions() if len(paths.runs) > 1 or paths.runs[0].joined else None
    return outputs


def without_branches(graph: Graph, call: Callable[[], list[Value]]) -> list[Value]:
    """Call a function that must not decide by the values of its arrays. The arguments are those of `explore`."""
    token = current_run.set(None)
    try:
        return call()
    finally:
        current_run.reset(token)


class _Paths:
    """The paths of one function."""

    def __init__(self, graph: Graph, call: Callable[[], list[Value]]) -> None:
        self.graph, self.call = graph, call
        self.runs: list[Run] = []

    def outputs(self, answers: Sequence[bool]) -> tuple[list[Value] | None, list[Decision]]:
        """Return the outputs of all paths that begin with these answers, joined, and the decisions of one path.

        There are no outputs if the network never takes such a path.
        """
        run = Run(answers)
        outputs = self.call_once(run)
        if len(self.runs) == 1 and len(run.taken) * max(len(self.graph.ops), run.asked) > _MAX_REPEATED:
            raise too_many(run.taken, f"{len(run.taken)} long")
        for at in reversed(range(len(answers), len(run.taken))):
            decision = run.taken[at]
            others, again = self.outputs([*(d.answer for d in run.taken[:at]), not decision.answer])
            is_same = len(again) > at and all(d.asks_same(e) for d, e in zip(again[: at + 1], run.taken))
            if is_same and (outputs is None or others is None):
                outputs = others if outputs is None else outputs
                continue
            if not is_same or outputs is None or others is None or len(outputs) != len(others):
                raise refusal(
                    "two runs of forward that take the same branches up to here compute different values; remove "
                    "random numbers, the time, counters and state that one call keeps for the next"
                    if outputs is None or others is None or not is_same
                    else f"forward returns {len(outputs)} outputs in one branch and {len(others)} in the other; "
                    "return the same number in both",
                    place=decision.place,
                    kind=JoinError,
                )
            sides = (outputs, others) if decision.answer else (others, outputs)
            outputs = [
                tracing.joins.join(self.graph, decision, a, b, f"output {i}")
                for i, (a, b) in enumerate(zip(*sides))
            ]
        return outputs, run.taken

    def decisions(self) -> Decisions:
        """Return the graph of all conditions, and which of them are true on each path."""
        conditions = self.graph.twin()
        conditions.outputs = list(
            dict.fromkeys(d.condition for run in self.runs for d in [*run.taken, *run.joined])
        )
        at = {condition: i for i, condition in enumerate(conditions.outputs)}
        conditions.drop_dead()
        runs = [run for run in self.runs if run.is_possible]
        paths = {tuple((at[d.condition], d.answer) for d in run.taken): run.taken[-1] for run in runs if run.taken}
        paths |= {((at[d.condition], d.answer),): d for run in runs for d in run.joined}
        return Decisions(conditions, {path: f"{last.place} ({last.answer})" for path, last in paths.items()})

    def call_once(self, run: Run) -> list[Value] | None:
        self.runs.append(run)
        if len(self.runs) > (1 if changes_code() and not changed_functions() else MAX_PATHS):
            raise too_many([d for earlier in self.runs for d in earlier.taken])
        token = current_run.set(run)
        try:
            outputs = self.call()
            if run.recorded:
                tracing.objects.require_unchanged()
            if run.sides or any(x._version != version for x, version in run.chosen):
                raise refusal(
                    "an array that an if chooses is written to later; write y = y + 1 in place of y += 1"
                )
            return outputs if run.is_possible else None
        except AnyLayerError:
            raise
        except Exception as error:
            if error is run.raised:  # NumPy raises it, too
                run.is_possible = False
            if not run.is_possible:
                return None
            if not run.taken:
                raise
            last, (kind, text) = run.taken[-1], kind_and_text(error)
            raise refusal(
                f'forward raised "{kind}: {text}" where the condition here is {last.answer}, which a graph cannot '
                "do; return a value in this branch, or use np.where",
                place=last.place,
                kind=JoinError,
            ) from error
        finally:
            current_run.reset(token)
