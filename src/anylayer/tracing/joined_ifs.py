"""Ifs whose two sides are both computed, and joined afterwards, so that paths do not multiply.

Code with more paths than the limit is traced once more with its functions compiled from changed source code (see
changed_code): an `if` on data becomes a loop over both sides. Writes to arrays are undone after each side, and the
arrays get the joined content. Whatever else a side changes is refused.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.errors import TraceError
from anylayer.graph import TooManyOperators
from anylayer.graph.place import JoinError, place_of, position_of, refusal, user_frame
from anylayer.graph.symbolic import same_shape
from anylayer.tracing import changed_code
from anylayer.tracing.array import TracedArray, copy_of, restore
from anylayer.tracing.decisions import Decision, Writes, current_run
from anylayer.tracing.grown import Unreadable
from anylayer.tracing.loop_state import LoopState, variable_of
from anylayer.tracing.python_numbers import PythonNumber, as_dtype_of, kind_of, number
from anylayer.tracing.record import running_graph

ABSENT = object()
"""The value of a variable that is not bound."""


class BothSides:
    """One execution of an `if` statement: a loop over the sides that the network may take.

    names: the local variables that the sides assign. variables: the local variables before the statement. plain:
    the sides only assign values without effects. may_return: one side ends with `return`; outside of a loop that
    is recorded, the answer is then a decision. `side` is the answer to the condition in the current iteration.
    """

    def __init__(
        self,
        condition: Any,
        names: Sequence[str],
        variables: Mapping[str, Any],
        plain: bool = True,
        may_return: bool = False,
    ) -> None:
        self.names = names
        self.start = [variables.get(n, ABSENT) for n in names]
        self.run, self.side = current_run.get(), False
        joins = self.run is not None and not (may_return and not (self.run.loops or self.run.sides))
        self.decision = self._decision(condition) if joins else None
        self.left = [True, False] if self.decision is not None else [bool(condition)]
        self.first: list[tuple[Any, Any]] = []
        self.contents: Writes = {}
        self.state: LoopState | None = None
        if self.decision is not None and not plain:
            self.state = LoopState(sys._getframe(1), variables)

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
            return values
        self.run.leave()
        before = self.run.writes.pop()
        pairs = [(x, _frozen(x)) for x in values]
        contents: Writes = {key: (x, x._content) for key, (x, _) in before.items()}
        restore(before)
        self._require_no_other_change(variables)
        if self.side:
            self.first, self.contents = pairs, contents
            return self.start
        condition: Any = TracedArray(running_graph(), self.decision.condition)
        for key, (x, _) in {**self.contents, **contents}.items():
            sides = [copy_of(x), copy_of(x)]
            for side, written in zip(sides, (self.contents, contents)):
                side._content = written[key][1] if key in written else side._content
            x._assign(np.where(condition, *sides))
        return [self.choice(n, condition, a, b) for n, a, b in zip(self.names, self.first, pairs)]

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
        raise refusal(
            f"'{name}' is a different kind of object after the two sides of this if; give it arrays of one shape "
            "and dtype, or numbers of one type, in both",
            place=self.decision.place if self.decision is not None else None,
        )


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
