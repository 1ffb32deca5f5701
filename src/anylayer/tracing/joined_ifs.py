"""Ifs whose two sides are both computed, and joined afterwards, so that paths do not multiply.

Code with more paths than the limit is traced once more with its functions compiled from changed source code (see
changed_code): an `if` on data becomes a loop over both sides. Writes to arrays are undone after each side, and the
arrays get the joined content. Whatever else a side changes is refused.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer import tracing
from anylayer.errors import TraceError
from anylayer.graph import TooManyOperators
from anylayer.graph.guards import OPPOSITE, RELATIONS, Guard, current_trace
from anylayer.graph.place import JoinError, place_of, position_of, refusal, user_frame
from anylayer.graph.symbolic import Size, depends_on_data, same_shape
from anylayer.tracing import changed_code
from anylayer.tracing.array import TracedArray, copy_of, restore
from anylayer.tracing.counts import comparison, guard_of, lacking_elements
from anylayer.tracing.decisions import Decision, Run, Writes, current_run
from anylayer.tracing.grown import GrownList, Unreadable, unreadable_list
from anylayer.tracing.loop_items import arrays_in, kind_in
from anylayer.tracing.loop_state import OWN_PREFIX, LoopState, variable_of
from anylayer.tracing.python_numbers import PythonNumber, Scalar, is_exact, number
from anylayer.tracing.record import running_graph

if TYPE_CHECKING:
    from anylayer.tracing.recorded_loops import PlainLoop

_End = tuple[Any, Any]
"""An object, and the value that it had at the end of a side."""
_PLAIN = (bool, int, float, str, bytes, type(None))
ABSENT = object()
"""The value of a variable that is not bound."""


def _references(items: Sequence[object]) -> int:
    """Return the references to a list that only the variable of a frame holds, as changed code counts them."""
    variables = locals()
    x = variables["items"]
    return sys.getrefcount(x)


OWN_REFERENCES = _references([])


@dataclass(frozen=True, slots=True)
class Question:
    """A comparison of sizes that depend on data, which is not evaluated yet."""

    guard: Guard
    a: int
    b: int

    def __bool__(self) -> bool:
        return RELATIONS[self.guard.relation](self.a, self.b)

    def opposite(self) -> Question:
        return replace(self, guard=replace(self.guard, relation=OPPOSITE[self.guard.relation]))

    def array(self) -> Any:
        """Return the answer as an array, or None if it is known."""
        trace = current_trace.get()
        if trace is None or trace.certain(self.guard) or trace.certain(self.opposite().guard):
            return None
        return comparison(self.a, self.guard.relation, self.b)


def compare(a: Scalar, relation: str, b: Scalar) -> object:
    """Return a comparison of the condition of an if. That of sizes is not evaluated where it may be joined."""
    guard = guard_of(a, relation, b) if tracing.checked.questions().how == "joined" else None
    if guard is not None and (depends_on_data(a) or depends_on_data(b)):
        return Question(guard, a, b)
    return RELATIONS[relation](a, b)


def both_sides(
    condition: object,
    names: Sequence[str],
    lists: Sequence[str],
    variables: Mapping[str, object],
    plain: bool,
    may_return: bool,
) -> BothSides | PlainLoop:
    """Return one execution of an `if` statement, as changed code runs it: a loop over the sides that the network
    may take.

    names: the local variables that the sides assign. lists: those to which they append. variables: the local
    variables before the statement. plain: the sides only assign values without effects. may_return: one side ends
    with `return`; outside of a loop that is recorded, the answer is then a decision.
    """
    run = current_run.get()
    if run is not None and not (may_return and not (run.loops or run.sides)):
        condition = compare(condition, "!=", 0) if type(condition) is Size else condition
        question = condition if type(condition) is Question else None
        answer = None if question is None else question.array()
        question = None if answer is None else question
        decision = _decision(run, condition if answer is None else answer)
        if decision is not None:
            state = None if plain else sys._getframe(1)
            return BothSides(run, decision, question, names, lists, variables, state)
    return tracing.recorded_loops.PlainLoop(iter([bool(condition)]), (*names, *lists))


def _decision(run: Run, condition: object) -> Decision | None:
    """Return the decision of a condition that depends on data, and is not known."""
    x = condition.array if type(condition) is PythonNumber else condition
    if type(x) is not TracedArray or x._const() is not None or x.size != 1:
        return None
    value, frame = run.condition_of(x), user_frame()
    if value.const is not None or run.answer_of(value) is not None:
        return None
    position = None if frame is None else position_of(frame)
    return Decision(value, place_of(frame), position, 0, len(x._graph.ops), True)


class BothSides:
    """An `if` of which both sides are executed. Its methods are called by changed code: see PlainLoop.

    question: the sizes that the condition compares, if it does. lists: those to which the sides append, by name,
    of which `old` are replaced. ends: for each side, the variables at its end, and their values then. contents:
    the arrays that it has written to, with their contents then. before: the state before the sides.
    """

    def __init__(
        self,
        run: Run,
        decision: Decision,
        question: Question | None,
        names: Sequence[str],
        lists: Sequence[str],
        variables: Mapping[str, object],
        frame: FrameType | None,
    ) -> None:
        self.run, self.decision, self.question, self.names = run, decision, question, names
        self.start = [variables.get(n, ABSENT) for n in names]
        self.old: dict[str, list[object]] = {}
        self.lists: dict[str, object] = {}
        is_joined = tracing.checked.questions().how == "joined"
        for n in lists:
            x = variables.get(n, ABSENT)
            if is_joined and type(x) is list and sys.getrefcount(x) <= OWN_REFERENCES:
                self.old[n] = x
            self.lists[n] = GrownList(x) if type(x) is list and n in self.old else x
        self.ends: list[list[_End]] = []
        self.contents: list[Writes] = []
        self.before = None if frame is None else LoopState(frame, {**variables, **self.lists})

    def another(self) -> bool:
        """Begin the next side, or return False."""
        if len(self.ends) == 2:
            return False
        self.run.enter(self.decision, self.item())
        self.run.writes.append({})
        return True

    def item(self) -> bool:
        """Return the answer to the condition: first true, then false."""
        return not self.ends

    def states(self, variables: Mapping[str, object]) -> list[object]:
        """Return the values of the variables at the beginning of a side."""
        return [*self.start, *self.lists.values()]

    def end(self, variables: Mapping[str, object]) -> None:
        """End a side."""
        self.run.leave()
        self._require_elements()
        written = self.run.writes.pop()
        self.ends.append([(x, _frozen(x)) for x in (variables.get(n, ABSENT) for n in self.names)])
        self.contents.append({key: (x, x._content) for key, (x, _) in written.items()})
        restore(written)
        if self.before is not None:
            same = {n for n, x in zip(self.names, self.start) if variables.get(n) is x}
            self._require_no_other_change(self.before, LoopState(sys._getframe(1), variables), same)

    def results(self, variables: Mapping[str, object]) -> list[object]:
        """Return the joined values of the variables."""
        condition = TracedArray(running_graph(), self.decision.condition)
        for key, (x, _) in {**self.contents[0], **self.contents[1]}.items():
            sides = [copy_of(x), copy_of(x)]
            for side, written in zip(sides, self.contents):
                side._content = written[key][1] if key in written else side._content
            x._assign(np.where(condition, *sides))
        for n, items in self.old.items():
            grown = self.lists[n]
            if type(grown) is GrownList and not grown.entries:
                self.lists[n] = items
            else:
                items[:] = [unreadable_list(f"the list '{n}', to which an if appends,")]
        self.before = None  # which refers to the lists of the function
        joined = [self.choice(n, condition, a, b) for n, a, b in zip(self.names, *self.ends)]
        return [*joined, *self.lists.values()]

    def _require_elements(self) -> None:
        """Refuse operators of a side that fail for the sizes with which the network does not take it."""
        trace = current_trace.get()
        if trace is None or self.question is None:
            return
        sizes = trace.examples(dict.fromkeys(self.question.guard.symbols, 0))
        o = next(lacking_elements(running_graph().ops[self.decision.recorded :], sizes), None)
        if o is not None:
            raise refusal(
                "both sides of this if are recorded, and this needs an element where nothing is selected; ask for "
                "mask.any() before x[mask]",
                place=o.place,
            )

    def _require_no_other_change(self, before: LoopState, after: LoopState, same: Set[str]) -> None:
        """Refuse what a side changes other than local variables and arrays, as a list by `items += [x]`.

        same: the variables that still hold the object that they held before.
        """
        for name in before.changed(after):
            if variable_of(name) not in self.names or variable_of(name) in same:
                raise refusal(
                    f"'{name}' changes in one side of an if that depends on data, which both sides of are "
                    "recorded; only local variables, arrays, and lists that grow by .append(...) may change there",
                    place=self.decision.place,
                )

    def choice(self, name: str, condition: TracedArray, first: _End, second: _End) -> object:
        """Return the value that is `first` where the condition is true, and `second` where it is false."""
        (x, a), (y, b) = first, second
        if x is y:
            return x
        if a is ABSENT or b is ABSENT:
            return ABSENT
        if Unreadable in (type(a), type(b)):
            return a if type(a) is Unreadable else b
        if type(a) is tuple and type(b) is tuple and len(a) == len(b):
            return tuple(self.choice(name, condition, *pairs) for pairs in zip(zip(x, a), zip(y, b)))
        if type(a) is type(b) and (
            a.expression == b.expression if type(a) is Size else type(a) in _PLAIN and repr(a) == repr(b)
        ):
            return a
        kind, other = kind_in(a), kind_in(b)
        if kind and other and kind.fits(other):
            pairs = zip(arrays_in(a), arrays_in(b))
            result = kind.value(iter([np.where(condition, v, w) for v, w in pairs]))
            others = [v for v in (x, y, result) if type(v) is TracedArray and not v._scalar]
            self.run.chosen += [(v._base(), v._base()._version) for v in others]
            return result
        if kind and other and {kind.name, other.name} == {"number", "scalar"}:
            scalar, plain = (kind, b) if kind.name == "scalar" else (other, a)
            is_named = not name.startswith(OWN_PREFIX)  # or the value of `2 if c else x[0]`, as of max(2, x[0])
            if kind.dtype == other.dtype or is_exact(plain, scalar.dtype, strict=is_named):
                arrays = [v.astype(scalar.dtype) for v in (*arrays_in(a), *arrays_in(b))]
                return scalar.value(iter([np.where(condition, *arrays)]))
        rows = self._rows(a, b)
        if rows is not None:
            return rows
        why = "give it arrays of one shape and dtype, or numbers of one type, in both"
        place = self.decision.place
        if kind and other and kind.name == other.name == "array" and tracing.checked.questions().how == "joined":
            return Unreadable(
                f"'{name}' is an array of another size after the two sides of the if at {place}; {why}"
            )
        what = "the value" if name.startswith(OWN_PREFIX) else f"'{name}'"
        raise refusal(f"{what} is a different kind of object after the two sides of this if; {why}", place=place)

    def _rows(self, first: object, second: object) -> TracedArray | None:
        """Return the array of one side that has no rows where the other side is taken, which has none either."""
        trace = current_trace.get()
        if trace is None or self.question is None:
            return None
        for question, full, empty in ((self.question, first, second), (self.question.opposite(), second, first)):
            if type(full) is not TracedArray or type(empty) is not TracedArray or not (full.ndim and empty.ndim):
                continue
            nothing, shape = dict.fromkeys(question.guard.symbols, 0), full.shape
            is_selected = type(shape[0]) is Size and shape[0].expression.symbols == nothing.keys()
            if not is_selected or not trace.asks_for_nothing(question.guard):
                continue
            if same_shape((shape[0].expression.value(nothing), *shape[1:]), empty.shape):
                return full
        return None


def _frozen(x: Any) -> Any:
    """Return a value that later writes to an array do not change."""
    if type(x) is tuple:
        return tuple(map(_frozen, x))
    if type(x) is not TracedArray:
        return x
    result = copy_of(x)
    result._scalar = x._scalar
    return result


def truth(x: object, negated: bool = False) -> object:
    """Return the truth of a value as a bool that may depend on data."""
    if negated and type(x) is Size:
        x = compare(x, "!=", 0)
    if negated and type(x) is Question:
        return x.opposite()
    array = x.array if type(x) is PythonNumber else x
    run = current_run.get()
    if run is None or type(array) is not TracedArray or array._const() is not None or array.size != 1:
        return bool(x) is not negated
    result = TracedArray(array._graph, run.condition_of(array))
    return number(np.logical_not(result) if negated else result, bool)


def builtins_of_changed_code() -> Mapping[str, object]:
    """Return what the changed code calls, by name."""
    return {
        changed_code.IF: both_sides,
        changed_code.LOOP: tracing.recorded_loops.loop,
        changed_code.ITEM: tracing.loop_items.item_at,
        changed_code.IS: tracing.objects.same_object,
        changed_code.IN: tracing.sets.contains,
        changed_code.TRUTH: truth,
        changed_code.COMPARE: compare,
        changed_code.LOCALS: builtins.locals,
        changed_code.UNBOUND: ABSENT,
    }


def with_reason(error: TraceError, cause: TraceError) -> TraceError:
    """Return the error for paths that cannot be joined, with the reason why ifs and loops could not be either."""
    if isinstance(cause, (JoinError, TooManyOperators)):
        return error
    return type(error)(
        f"{error.message}. It cannot be recorded as ifs with both sides computed, and loops, either: {cause}",
        *error.places,
    )
