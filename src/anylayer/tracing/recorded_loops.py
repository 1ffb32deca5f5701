"""Python's loops as an operator Loop, whose body is recorded once: `for i in range(n): if x[i] > 0: break`.

In changed code (see changed_code) the body of a loop runs in passes. In a pass, the variables and arrays that the
body changes have values that stand for any step. The first passes find out which these are; the operators of the
last one become the body of the operator. Lists that grow become stacked rows and a mask that says which exist. If
a variable is another kind of object before the first step than after it, the first step runs by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.operators import INDEXED
from anylayer.graph.place import place_of, refusal, user_frame
from anylayer.graph.sized import elements_of
from anylayer.graph.symbolic import Size, same
from anylayer.network import Array
from anylayer.tracing.array import Selection, TracedArray, restore
from anylayer.tracing.decisions import Run, Writes, changes_code, current_run
from anylayer.tracing.dtypes import BOOL, I8
from anylayer.tracing.element_loops import all_steps
from anylayer.tracing.grown import GrownList, LoopList, TracedList, Unreadable, unreadable_list
from anylayer.tracing.joined_ifs import ABSENT, OWN_REFERENCES
from anylayer.tracing.loop_items import Items, Kind, arrays_in, evaluate, items_of, iter_of, kind_in
from anylayer.tracing.loop_operator import MAX_STEPS, emit_loop, end_at, steps_up_to
from anylayer.tracing.loop_state import LoopState, variable_of
from anylayer.tracing.number_lists import NumberList
from anylayer.tracing.python_numbers import as_arrays, kind_of, number
from anylayer.tracing.record import running_graph, value_of

_FEW_STEPS = 3
"""The largest number of steps of a loop over fixed values that is not recorded as an operator."""
_MANY_STEPS = 1000
"""The number of steps above which a loop is recorded as an operator even if nothing in it depends on data."""
_MAX_PASSES = 12


def loop(
    parts: Any,
    names: Sequence[str],
    lists: Sequence[str],
    variables: Mapping[str, Any],
    appended: int,
    asks: bool,
) -> RecordedLoop | PlainLoop:
    """Return one execution of a loop statement, as changed code runs it.

    parts: the expression that a `for` iterates over, see loop_items.evaluate; None for a `while`. names: the
    local variables that the body assigns. lists: those that it changes; it appends to the first `appended`
    of them, and replaces elements of the others. variables: the local variables. asks: whether the body decides
    something; otherwise the loop is only recorded if it runs once per element of an open size, or has many steps.
    """
    run = current_run.get()
    iterable: Any = None if parts is None else evaluate(parts)
    items = Items(None, lambda k: None) if parts is None else items_of(iterable)
    if any(iterable is variables.get(n, ABSENT) for n in lists):
        raise refusal("a loop appends to the list that it iterates over; iterate over a copy of it")
    few = _FEW_STEPS if asks else _MANY_STEPS
    is_recorded = items is not None and (type(items.steps) is not int or items.steps > few)
    if run is not None and changes_code() == "loops" and items is not None and is_recorded:
        return RecordedLoop(run, items, names, lists, appended, variables, sys._getframe(1))
    iterator: Iterator[object] | None = None
    if parts is not None:
        iterator = iter_of(items) if items and type(iterable) in (Items, GrownList) else iter(iterable)
    return PlainLoop(iterator, (*names, *lists))


def _bases(x: Any) -> list[TracedArray]:
    """Return the arrays whose elements a value shares."""
    if type(x) is tuple:
        return [base for v in x for base in _bases(v)]
    return [x._base()] if type(x) is TracedArray and not x._scalar else []


class PlainLoop:
    """A loop that runs step by step, or the only side of an `if` that runs.

    Changed code runs a pass after `another()` returns true: the variables get their `states`, and the pass its
    `item`. After the last one, the variables get the `results`.
    """

    def __init__(self, iterator: Iterator[object] | None, names: Sequence[str]) -> None:
        self.iterator, self.names, self.going = iterator, names, True
        self.current: object = None

    def another(self) -> bool:
        if self.going and self.iterator is not None:
            self.current = next(self.iterator, ABSENT)
        return self.going and self.current is not ABSENT

    def states(self, variables: Mapping[str, object]) -> list[object]:
        return [variables.get(n, ABSENT) for n in self.names]

    results = states

    def item(self) -> object:
        return self.current

    def end(self, variables: Mapping[str, object], going: object = True) -> None:
        self.going = bool(going)


class RecordedLoop:
    """A loop that is recorded. Its methods are called by changed code: see PlainLoop.

    start: the values of the variables before the first step that the operator computes. kinds: the kinds of those
    that the loop carries. arrays: the arrays that it writes to. lists: those that grow. replaced: those whose
    elements are replaced.
    """

    def __init__(
        self,
        run: Run,
        items: Items,
        names: Sequence[str],
        lists: Sequence[str],
        appended: int,
        variables: Mapping[str, Any],
        frame: FrameType,
    ) -> None:
        for n, x in variables.items():  # before the loop
            if type(x) is GrownList and n not in lists:
                x.prepare()
            elif issubclass(type(x), Selection) and not issubclass(type(x), TracedList):
                x.made()
        self.run, self.items, self.names, self.list_names = run, items, names, lists
        self.graph, self.place = running_graph(), place_of(user_frame())
        self.start = {n: variables.get(n, ABSENT) for n in names}
        self.kinds: dict[str, Kind | None] = {n: kind_in(x) for n, x in self.start.items()}
        self.arrays: dict[int, TracedArray] = {}
        self.lists: dict[str, Any] = {}
        self.replaced: dict[str, NumberList] = {}
        for k, n in enumerate(lists):
            x = variables.get(n)
            if type(x) is list and sys.getrefcount(x) > OWN_REFERENCES:
                raise self.refusal(
                    f"the list '{n}' has other names; make a list in the function that has the loop"
                )
            kinds: set[Any] = {*map(kind_of, x)} if type(x) is list else set()
            if x is not None and k < appended and type(x) in (list, LoopList, GrownList):
                self.lists[n] = x
            elif x is not None and k >= appended and len(kinds) == 1 and None not in kinds:
                self.replaced[n] = NumberList(x, kinds.pop())
                x[:] = [unreadable_list(f"the list '{n}', which a loop changes,")]
        self.going: Any = True
        self.is_peeled = self.is_done = False
        uncarried = [x for n, x in self.start.items() if self.kinds[n] is None and type(x) is not Unreadable]
        self.is_first = any(x is not ABSENT for x in uncarried) and self._has_first_step()
        self.passes = 0
        state = LoopState(frame, {**variables, **self.replaced})
        if not state.is_complete:
            raise self.refusal("the code reaches too many objects to compare them; keep its tables in arrays")
        self.existing = state.arrays

    def refusal(self, why: str) -> Exception:
        return refusal(f"this loop on data cannot be recorded: {why}", place=self.place)

    def runs_once_per(self, size: int) -> bool:
        """Return whether the loop has as many steps as an axis has elements."""
        return type(self.items.steps) in (int, Size) and same(self.items.steps, size)

    # ------------------------------------------------------------------------- passes

    def another(self) -> bool:
        """Begin the next pass, or return False."""
        if self.is_done:
            return False
        self.passes += 1
        if self.passes > _MAX_PASSES:
            raise self.refusal(
                "each of its steps changes other variables; give each a value of its type before the loop"
            )
        self.first, self.counts = len(self.graph.ops), len(self.graph.counts)
        self.inside: list[Value] = []
        self.step, _ = self._placeholder("step", (), I8), self._placeholder("go", (), BOOL)
        self.run.loops.append(self)
        self.outer: Writes = {key: (x, x._content) for key, x in self.arrays.items() if not self.is_first}
        for x, _ in self.outer.values():
            x._content, x._version = self._placeholder("state", x.shape, x.dtype)._content, x._version + 1
        self.run.writes.append({})
        return True

    def states(self, variables: Mapping[str, Any]) -> list[Any]:
        """Return the values of the variables at the beginning of a pass."""
        values = [self._state(n) for n in self.names]
        lists = [LoopList() if n in self.lists else self._list(n, variables) for n in self.list_names]
        state = {**variables, **dict(zip((*self.names, *self.list_names), (*values, *lists)))}
        self.before = LoopState(sys._getframe(1), state)
        return [*values, *lists]

    def _list(self, name: str, variables: Mapping[str, Any]) -> Any:
        return self.replaced[name] if name in self.replaced else variables.get(name, ABSENT)

    def _state(self, name: str) -> Any:
        kind, start = self.kinds[name], self.start[name]
        if self.is_first:
            return start
        if kind is not None:
            return kind.value(iter([self._placeholder("state", k.shape, k.dtype) for k in kind.leaves()]))
        if start is ABSENT or type(start) is Unreadable:
            return ABSENT
        return Unreadable(
            f"'{name}' is another kind of object after a step of this loop than before; give it a number or an "
            "array of the same type and shape before the loop, such as np.int64(-1) or np.float32(0)"
        )

    def item(self) -> Any:
        """Return the item of the step."""
        at: Any = number(self.step, int)
        return self.items.item(0 if self.is_first else at + 1 if self.is_peeled else at)

    def _placeholder(self, stem: str, shape: Sequence[Any], dtype: Any) -> TracedArray:
        value = Value(self.graph.name(stem), tuple(shape), np.dtype(dtype))
        self.inside.append(value)
        return TracedArray(self.graph, value)

    def end(self, variables: Mapping[str, Any], going: Any) -> None:
        """End a pass. going: whether the loop goes on after this step."""
        self.run.loops.pop()
        written = self.run.writes.pop()
        ends = {n: variables.get(n, ABSENT) for n in self.names}
        for n, end in ends.items():
            if end is None or (self.start[n] is None and not self.is_first and not self._has_first_step()):
                raise self.refusal(f"'{n}' may be None after a step; use a number that does not occur otherwise")
        grown: dict[str, LoopList] = {n: variables[n] for n in self.lists if variables[n].entries}
        if self.is_first:
            self._end_first(written, ends, grown, going)
            return
        new = {key: x for key, (x, _) in written.items() if key in self.existing and key not in self.arrays}
        changed = self._other_kinds(ends)
        self.arrays.update(new)
        if new or changed:
            self._undo(written)
            self.graph.forget(self.first)
            if any(self.start[n] is not ABSENT for n in changed) and self._has_first_step():
                self.is_first = True
            else:
                self.kinds.update(dict.fromkeys(changed))
            return
        self._require_no_other_change(sys._getframe(1), variables, written)
        values = [a for n in self.names if self.kinds[n] is not None for a in arrays_in(ends[n])]
        values += [TracedArray(self.graph, x._content) for x in self.arrays.values()]
        states = len(values)
        parts = [x.together() for x in grown.values()]
        values += [a for rows, mask in parts for a in (*rows, mask) if a is not None]
        go = np.asarray(going) if type(going) is bool else as_arrays(going)
        if self.items.steps is None:
            go = end_at(MAX_STEPS, self.step, go if type(go) is TracedArray else TracedArray(self.graph, go))
            go = go.reshape(())
        results = [value_of(x) for x in (go, *values)]
        self._undo(written)
        self.is_done = True
        carried = [x for n in self.names if self.kinds[n] for x in (self.start[n], ends[n])]
        others = [x for v in carried for x in _bases(v) if id(x) in self.existing]
        self._close(results, states, grown, variables)
        self.run.chosen += [(x, x._version) for x in others]  # a variable may still be one of these

    def _undo(self, written: Writes) -> None:
        restore({key: x for key, x in written.items() if key not in self.outer})
        restore(self.outer)

    def _other_kinds(self, ends: Mapping[str, Any]) -> list[str]:
        """Return the variables that are of another kind after the step than before, or share an array."""
        names = []
        for n, end in ends.items():
            kind, after = self.kinds[n], kind_in(end)
            if kind is None:
                if after is not None and self.start[n] is not ABSENT and self._has_first_step():
                    names.append(n)
            elif after is None or not kind.fits(after) or self._is_shared(end):
                names.append(n)
        return names

    def _is_shared(self, x: Any) -> bool:
        """Return whether an array that a variable gets is one that the loop writes to, under another name."""
        return any(id(base) in self.arrays for base in _bases(x))

    # ---------------------------------------------------------------------- first step

    def _has_first_step(self) -> bool:
        """Return whether the first step can run by itself: there is one, and it has not done so."""
        return not self.is_peeled and (self.items.steps is None or type(self.items.steps) is int)

    def _end_first(
        self, written: Writes, ends: Mapping[str, Any], grown: Mapping[str, LoopList], going: Any
    ) -> None:
        for key, x in written.items():
            if self.run.writes:
                self.run.writes[-1].setdefault(key, x)
        for n, items in grown.items():
            for rows, mask in items.entries:
                self._append(n, rows, mask, items.element)
        self.is_first, self.start = False, dict(ends)
        self.going = number(as_arrays(going), bool) if type(going) is not bool else going
        self.kinds = {n: kind_in(x) for n, x in self.start.items()}
        self.is_peeled = True

    def _require_no_other_change(self, frame: FrameType, variables: Mapping[str, Any], written: Writes) -> None:
        contents = {key: x._content for key, (x, _) in written.items()}
        restore(written)
        changed = self.before.changed(LoopState(frame, variables))
        for key, (x, _) in written.items():
            x._content, x._version = contents[key], x._version + 1
        for name in changed:
            if variable_of(name) not in self.names:
                raise self.refusal(
                    f"'{name}' changes in each step, and is neither a local variable nor an array; use one of them"
                )
        for n, x in self.start.items():
            if self.kinds[n] and self._is_shared(x):
                raise self.refusal(
                    f"'{n}' is written to, and gets another array; write {n}[...] = ... in both places"
                )

    # ------------------------------------------------------------------------ operator

    def _close(
        self, results: list[Value], states: int, grown: Mapping[str, LoopList], variables: Mapping[str, Any]
    ) -> None:
        """Record the operator. results: the condition, the states and the rows after a step."""
        graph, ops = self.graph, self.graph.ops[self.first :]
        if len(graph.counts) != self.counts:
            raise self.refusal(
                "it selects a number of elements that depends on data; use np.where(mask, a, b), or "
                "x[i + np.arange(2)] for x[i : i + 2]"
            )
        graph.forget(self.first)
        names = [n for n in self.names if self.kinds[n] is not None]
        steps = self.items.steps if not self.is_peeled or self.items.steps is None else self.items.steps - 1
        goes_on = results[0].const is not None and bool(results[0].const) and self.going is True
        is_fixed = type(steps) in (int, Size) and goes_on
        contents = [TracedArray(graph, x._content) for x in self.arrays.values()]
        outputs = None
        if is_fixed and not names and not self.is_peeled:
            outputs = all_steps(graph, ops, steps, self.inside, contents, results[1:])
        if outputs is None:
            at = 2 + len(contents)
            body = _PassBody(graph, self.inside[:2], [*self.inside[at:], *self.inside[2:at]])
            body.take(ops)
            body.graph.outputs = [body.inner(v) for v in results]
            start = [value_of(x) for x in (*(a for n in names for a in arrays_in(self.start[n])), *contents)]
            most = MAX_STEPS if steps is None or type(steps) is TracedArray else steps
            if type(steps) is int and steps > MAX_STEPS:
                raise self.refusal(f"it takes {steps} steps, at most {MAX_STEPS} are supported; use whole arrays")
            limit = MAX_STEPS if steps is None else steps
            if type(steps) is TracedArray and not self.run.loops:
                limit = steps_up_to(steps, MAX_STEPS)
            go = self._condition()
            outputs = emit_loop(graph, body.graph, limit, go, start, body.captured, most, is_fixed, self.place)
        ends = iter([TracedArray(graph, v) for v in outputs[:states]])
        kinds = [(n, self.kinds[n]) for n in self.names]
        final = [self._unread(n) if kind is None else kind.value(ends) for n, kind in kinds]
        for x, value in zip(self.arrays.values(), ends):
            x._assign(value)
        new = iter([TracedArray(graph, v) for v in outputs[states:]])
        for n, items in grown.items():
            if type(self.lists[n]) is LoopList and not is_fixed:
                raise self.refusal(
                    f"'{n}' grows in a loop inside of another one, and the inner one has a number of steps that "
                    "depends on data; loop over a fixed range, and use an if"
                )
            has_mask = any(mask is not None for _, mask in items.entries)
            rows = [_as_rows(next(new)) for _ in items.entries[0][0]]
            self._append(n, rows, _as_rows(next(new)) if has_mask else None, items.element)
        self.final = [*final, *(self.lists.get(n, self._list(n, variables)) for n in self.list_names)]

    def _unread(self, name: str) -> Unreadable:
        return Unreadable(
            f"'{name}' is read after a loop on data that sets it; give it a number or an array of the same type "
            "and shape before the loop"
        )

    def _condition(self) -> object:
        """Return whether the loop runs at all: an unlimited one only runs where the network takes this path."""
        if self.items.steps is None and (self.run.sides or self.run.taken):
            return np.logical_and(self.run.path(self.graph), as_arrays(self.going))
        return as_arrays(self.going)

    def _append(self, name: str, rows: Sequence[Array], mask: Array | None, element: object) -> None:
        """Append rows to a list that grows, which becomes another object."""
        old = self.lists[name]
        result = self.lists[name] = GrownList(old) if type(old) is list else old
        if result is not old:
            old[:] = [unreadable_list(f"the list '{name}', which a loop has filled,")]
        result.add(rows, mask, element)

    def results(self, variables: Mapping[str, Any]) -> list[Any]:
        """Return the values of the variables after the loop."""
        final, self.final = self.final, []
        del self.before, self.start, self.existing  # which refer to the lists of the function
        return final


def _as_rows(x: Array) -> Array:
    """Return the rows (steps * n, ...) of an array (steps, n, ...)."""
    return x[:, 0] if x.shape[1] == 1 else x.reshape((-1, *x.shape[2:]))


class _PassBody:
    """The body of a loop, under construction from the operators of a pass.

    first, states: the values of the pass that stand for the step, the condition and the states.
    """

    def __init__(self, outer: Graph, first: Sequence[Value], states: Sequence[Value]) -> None:
        self.outer = outer
        self.graph = Graph(f"{outer.prefix}loop{len(outer.ops)}/", outer.scope)
        self.captured: list[Value] = []
        self.moved: dict[Value, Value] = {}
        stems = ("step", "go", *["state"] * len(states))
        self.values = {
            v: self.graph.input(self.graph.name(stem), v.shape, v.dtype)
            for v, stem in zip((*first, *states), stems)
        }

    def take(self, ops: Sequence[Op]) -> None:
        """Append operators that depend on the step or a state to the body, and others to the outer graph.

        Those that may read an index out of range stay in the body, which may never run.
        """
        for o in ops:
            inputs = [v for v in o.inputs if v is not None]
            if any(v in self.values for v in inputs) or o in INDEXED or o.body is not None:
                new = self.graph.append_copy(o, [None if v is None else self.inner(v) for v in o.inputs])
                self.values.update(zip(o.outputs, new))
            else:
                new = self.outer.append_copy(o, [None if v is None else self.moved.get(v, v) for v in o.inputs])
                self.moved.update(zip(o.outputs, new))

    def inner(self, v: Value) -> Value:
        """Return the value of the body for a value of the pass."""
        if v not in self.values:
            outer = self.moved.get(v, v)
            if outer.const is not None and elements_of(outer.const) is None:
                return self.graph.constant(outer.const, trusted=True)
            self.captured.append(outer)
            self.values[v] = self.graph.input(self.graph.name("outer"), outer.shape, outer.dtype)
        return self.values[v]
