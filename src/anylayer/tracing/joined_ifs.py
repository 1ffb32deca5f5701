"""Ifs whose two sides are both computed, and joined afterwards, so that paths do not multiply.

Code with more paths than the limit is traced once more with its functions compiled from changed source code (see
changed_code): an `if` on data becomes a loop over both sides. Writes to arrays are undone after each side, and the
arrays get the joined content. Whatever else a side changes is refused.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.errors import TraceError
from anylayer.graph import TooManyOperators
from anylayer.graph.expressions import constant
from anylayer.graph.guards import OPPOSITE, RELATIONS, Guard, current_trace
from anylayer.graph.operators import EXTREMES, NEEDS_ELEMENTS
from anylayer.graph.place import JoinError, place_of, position_of, refusal, user_frame
from anylayer.graph.symbolic import Size, depends_on_data, same_shape
from anylayer.tracing import changed_code
from anylayer.tracing.array import TracedArray, copy_of, restore
from anylayer.tracing.decisions import Decision, Writes, current_run
from anylayer.tracing.grown import GrownList, Unreadable
from anylayer.tracing.loop_state import LoopState, variable_of
from anylayer.tracing.primitives import as_array
from anylayer.tracing.python_numbers import PythonNumber, as_dtype_of, kind_of, number
from anylayer.tracing.record import running_graph

ABSENT = object()
"""The value of a variable that is not bound."""
_joins_questions: ContextVar[bool] = ContextVar("joins_questions", default=False)


@contextmanager
def join_questions() -> Iterator[None]:
    """Join ifs that ask whether something is selected, inside the context, as those that ask for values."""
    token = _joins_questions.set(True)
    try:
        yield
    finally:
        _joins_questions.reset(token)


def joins_questions() -> bool:
    """Return whether ifs that ask whether something is selected are joined now."""
    return _joins_questions.get()


def _references(items: Sequence[object]) -> int:
    """Return the references to a list that only the variable of a frame holds, as changed code counts them."""
    variables = locals()
    x = variables["items"]
    return sys.getrefcount(x)


OWN_REFERENCES = _references([])


@dataclass(frozen=True, slots=True)
class Question:
    """A comparison of sizes that depend on data, which is not evaluated yet."""

    a: Any
    relation: str
    b: Any

    def __bool__(self) -> bool:
        return bool(RELATIONS[self.relation](self.a, self.b))

    def guard(self, relation: str) -> Guard:
        left, right = (x.expression if type(x) is Size else constant(x) for x in (self.a, self.b))
        return Guard(left, relation, right)

    def symbols(self) -> frozenset[str]:
        """Return the names of the sizes."""
        return self.guard(self.relation).symbols

    def array(self) -> Any:
        """Return the answer as an array, or None if it is known."""
        trace = current_trace.get()
        if trace is None or any(trace.certain(self.guard(r)) for r in (self.relation, OPPOSITE[self.relation])):
            return None
        return RELATIONS[self.relation](as_array(self.a, np.int64), as_array(self.b, np.int64))


def compare(a: Any, relation: str, b: Any) -> Any:
    """Return a comparison of the condition of an if. That of sizes is not evaluated where it may be joined."""
    sizes = [x for x in (a, b) if type(x) is Size and depends_on_data(x)]
    if sizes and joins_questions() and all(type(x) in (int, Size) for x in (a, b)):
        return Question(a, relation, b)
    return RELATIONS[relation](a, b)


class BothSides:
    """One execution of an `if` statement: a loop over the sides that the network may take.

    names: the local variables that the sides assign. lists: those to which they append. variables: the local
    variables before the statement. plain: the sides only assign values without effects. may_return: one side ends
    with `return`; outside of a loop that is recorded, the answer is then a decision. `side` is the answer to the
    condition in the current iteration.
    """

    def __init__(
        self,
        condition: Any,
        names: Sequence[str],
        lists: Sequence[str],
        variables: Mapping[str, Any],
        plain: bool = True,
        may_return: bool = False,
    ) -> None:
        self.names, self.lists = names, {n: variables.get(n, ABSENT) for n in lists}
        self.start = [variables.get(n, ABSENT) for n in names]
        self.run, self.side, self.names_asked = current_run.get(), False, frozenset[str]()
        joins = self.run is not None and not (may_return and not (self.run.loops or self.run.sides))
        if joins:
            condition = compare(condition, "!=", 0) if type(condition) is Size else condition
            answer = condition.array() if type(condition) is Question else None
            self.names_asked = condition.symbols() if answer is not None else frozenset()
            condition = condition if answer is None else answer
        self.decision = self._decision(condition) if joins else None
        self.left = [True, False] if self.decision is not None else [bool(condition)]
        self.first: list[tuple[Any, Any]] = []
        self.contents: Writes = {}
        self.state: LoopState | None = None
        self.old: dict[str, list[Any]] = {}
        if self.decision is not None and joins_questions():
            for n in lists:
                x = variables.get(n)
                if type(x) is list and sys.getrefcount(x) <= OWN_REFERENCES + 1:
                    self.old[n], self.lists[n] = x, GrownList(x)
        if self.decision is not None and not plain:
            self.state = LoopState(sys._getframe(1), {**variables, **self.lists})

    def _decision(self, condition: Any) -> Decision | None:
        x = condition.array if type(condition) is PythonNumber else condition
        if self.run is None or type(x) is not TracedArray or x._const() is not None or x.size != 1:
            return None
        value = self.run.condition_of(x)
        if value.const is not None or self.run.answer_of(value) is not None:
            return None
        frame = user_frame()
        position = None if frame is None else position_of(frame)
        return Decision(value, place_of(frame), position, 0, len(x._graph.ops), True)

    def another(self) -> bool:
        """Begin the next side, or return False."""
        if self.left:
            self.side = self.left.pop(0)
            if self.run is not None and self.decision is not None:
                self.run.enter(self.decision, self.side)
                self.run.writes.append({})
            return True
        return False

    def results(self, variables: Mapping[str, Any]) -> list[Any]:
        """Return the values that the variables get after a side: those of before the statement, or joined ones."""
        values = [variables.get(n, ABSENT) for n in self.names]
        if self.run is None or self.decision is None:
            return [*values, *(variables.get(n, ABSENT) for n in self.lists)]
        self.run.leave()
        self._require_elements()
        before = self.run.writes.pop()
        pairs = [(x, _frozen(x)) for x in values]
        contents: Writes = {key: (x, x._content) for key, (x, _) in before.items()}
        restore(before)
        self._require_no_other_change(variables)
        if self.side:
            self.first, self.contents = pairs, contents
            return [*self.start, *self.lists.values()]
        condition: Any = TracedArray(running_graph(), self.decision.condition)
        for key, (x, _) in {**self.contents, **contents}.items():
            sides = [copy_of(x), copy_of(x)]
            for side, written in zip(sides, (self.contents, contents)):
                side._content = written[key][1] if key in written else side._content
            x._assign(np.where(condition, *sides))
        for n, items in self.old.items():
            if not self.lists[n].entries:
                self.lists[n] = items
            else:
                items[:] = [Unreadable(f"the list '{n}', to which an if appends, is read under another name")]
        self.state = None  # which refers to the lists of the function
        joined = [self.choice(n, condition, a, b) for n, a, b in zip(self.names, self.first, pairs)]
        return [*joined, *self.lists.values()]

    def grown(self, variables: Mapping[str, Any]) -> list[Any]:
        """Return the lists to which the sides append."""
        return (
            [*self.lists.values()] if self.decision is not None else [variables.get(n, ABSENT) for n in self.lists]
        )

    def _require_elements(self) -> None:
        """Refuse operators of a side that fail for the sizes with which the network does not take it."""
        trace = current_trace.get()
        if trace is None or self.decision is None:
            return
        values = trace.examples(dict.fromkeys(self.names_asked, 0))
        for o in running_graph().ops[self.decision.recorded :] if self.names_asked else ():
            shape, result = (
                [d.expression.value(values) if type(d) is Size else d for d in v.shape]
                for v in (o.first, o.outputs[0])
            )
            needs = o in NEEDS_ELEMENTS or o in EXTREMES or o.op in ("ArgMax", "ArgMin")
            if needs and 0 in shape and 0 not in result:
                raise refusal(
                    "both sides of this if are recorded, and this needs an element where nothing is selected; ask "
                    "for mask.any() before x[mask]",
                    place=o.place,
                )

    def _require_no_other_change(self, variables: Mapping[str, Any]) -> None:
        """Refuse what a side changes other than local variables and arrays."""
        if self.state is None:
            return
        for name in self.state.changed(LoopState(sys._getframe(2), variables)):
            if variable_of(name) not in self.names:
                raise refusal(
                    f"'{name}' changes in one side of an if that depends on data, which both sides of are "
                    "recorded; only local variables, arrays, and lists that grow by .append(...) may change there",
                    place=self.decision.place if self.decision is not None else None,
                )

    def choice(self, name: str, condition: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> Any:
        """Return the value that is `first` where the condition is true, and `second` where it is false. Each is an
        object, and the value that it had at the end of its side.
        """
        if first[0] is second[0]:
            return first[0]
        a, b = first[1], second[1]
        if a is ABSENT or b is ABSENT:
            return ABSENT
        if Unreadable in (type(a), type(b)):
            return a if type(a) is Unreadable else b
        kind = kind_of(a)
        if kind is not None and kind is kind_of(b):
            if type(a) is not PythonNumber and type(b) is not PythonNumber and repr(a) == repr(b):
                return a
            return number(np.where(condition, as_dtype_of(a, kind), as_dtype_of(b, kind)), kind)
        if type(a) is tuple and type(b) is tuple and len(a) == len(b):
            parts = zip(zip(first[0], a), zip(second[0], b))
            return tuple(self.choice(name, condition, v, w) for v, w in parts)
        if type(a) is type(b) and type(a) in (str, bytes, type(None)) and a == b:
            return a
        scalars = _is_scalar(a), _is_scalar(b)
        arrays = [x for x in (a, b) if type(x) is TracedArray]
        same = all(scalars) or (len(arrays) == 2 and not any(scalars))
        if self.run is not None and same and a.dtype == b.dtype and same_shape(a.shape, b.shape):
            result: Any = np.where(condition, a, b)
            result._scalar = scalars[0]
            others = [x for x in (first[0], second[0], result) if type(x) is TracedArray and not x._scalar]
            self.run.chosen += [(x._base(), x._base()._version) for x in others]
            return result
        place = self.decision.place if self.decision is not None else None
        why = "give it arrays of one shape and dtype, or numbers of one type, in both"
        if joins_questions() and len(arrays) == 2 and not any(scalars):
            return Unreadable(
                f"'{name}' is an array of another size after the two sides of the if at {place}; {why}"
            )
        raise refusal(f"'{name}' is a different kind of object after the two sides of this if; {why}", place=place)


def _frozen(x: Any) -> Any:
    """Return a value that later writes to an array do not change."""
    if type(x) is tuple:
        return tuple(map(_frozen, x))
    if type(x) is not TracedArray:
        return x
    result = copy_of(x)
    result._scalar = x._scalar
    return result


def _is_scalar(x: Any) -> Any:
    """Return whether an object is a NumPy scalar, which cannot be written to."""
    return x._scalar if type(x) is TracedArray else issubclass(type(x), np.generic)


def truth(x: Any, negated: bool = False) -> Any:
    """Return the truth of a value as a bool that may depend on data."""
    if negated and type(x) is Size:
        x = compare(x, "!=", 0)
    if negated and type(x) is Question:
        return Question(x.a, OPPOSITE[x.relation], x.b)
    array = x.array if type(x) is PythonNumber else x
    run = current_run.get()
    if run is None or type(array) is not TracedArray or array._const() is not None or array.size != 1:
        return bool(x) is not negated
    result = TracedArray(array._graph, run.condition_of(array))
    return number(np.logical_not(result) if negated else result, bool)


def builtins_of_changed_code() -> Mapping[str, Any]:
    """Return what the changed code calls, by name."""
    return {
        changed_code.IF: BothSides,
        changed_code.LOOP: tracing.recorded_loops.loop,
        changed_code.ITEM: tracing.loop_items.item_at,
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
