"""Loops whose number of steps depends on data: `while order.size > 0`.

A trace runs such a loop a few times. Where the code asks for the third time, at the same place, whether anything
is left, the operators of two iterations are compared. What both compute alike from the values that one iteration
leaves to the next becomes the body of an operator Loop, the local variables get its results, and the question is
answered so that the loop ends. The operators of the iterations are removed, and whoever reads their values after
the loop is refused: see Graph.forget. No source code is read.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise, starmap
from types import CodeType, FrameType
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.graph.expressions import Expression, symbol
from anylayer.graph.guards import OPPOSITE, Guard, SymbolicTrace
from anylayer.graph.ir import Graph, Value
from anylayer.graph.place import frame_outside, is_users, place_of, position_of, refusal, user_place
from anylayer.graph.repetition import recorded_in_all
from anylayer.graph.sized import equal_constants
from anylayer.graph.symbolic import Size
from anylayer.tracing.array import Selection, TracedArray
from anylayer.tracing.counts import guard_of
from anylayer.tracing.decisions import records_loop
from anylayer.tracing.grown import GrownList, Unreadable, repeated_list, set_local, unreadable_list
from anylayer.tracing.loop_exits import lead_to_the_same
from anylayer.tracing.loop_state import LoopState, variable_of
from anylayer.tracing.loop_uses import Watch, is_only_appended_to
from anylayer.tracing.masked_loops import MaskedBody, Unfit
from anylayer.tracing.python_numbers import PythonNumber
from anylayer.tracing.record import running_graph

_SEEN = 3
"""The number of questions after which a loop is closed in the first of two traces. In the second it is one more,
so that whatever Python counts in a loop differs between them."""


@dataclass(slots=True)
class Head:
    """The state of a frame where it asks whether anything is left.

    size: the name of the size that it asks for. asked_for: that size, or an expression such as min(n, 20). ops,
    counts: how many operators and sizes the trace had. arrays: the values of the local arrays. lists: the contents
    of the local lists. state: everything that is not recorded.
    end: the offset of the question, and the answer that ends the loop. exits: the states where the iteration asks
    whether one element is left, and would end the loop: see Loops.ends_at_one. earlier: the conditions that the
    code asked for before this question. asked: the places that ask for a size before the loop does, by its name.
    """

    size: str
    asked_for: Expression
    ops: int
    counts: int
    locals: dict[str, Any]
    state: LoopState
    arrays: dict[str, Value] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=dict)
    end: tuple[int, bool] = (0, False)
    exits: list[Head] = field(default_factory=list)
    guards: set[Guard] = field(default_factory=set)
    earlier: frozenset[Guard] = frozenset()
    asked: dict[str, str] = field(default_factory=dict)


def _head(frame: FrameType, guard: Guard, graph: Graph) -> Head:
    variables = {
        n: x.made() if _is_selection(x) else x.array if type(x) is PythonNumber else x
        for n, x in frame.f_locals.items()
    }
    arrays = {n: x._value for n, x in variables.items() if type(x) is TracedArray and x._graph is graph}
    lists = {n: list(x) for n, x in variables.items() if type(x) is list}
    state = LoopState(frame, variables)
    (size,) = guard.symbols
    sides = [e for e in (guard.left, guard.right) if isinstance(e, Expression) and e.symbols]
    return Head(size, sides[0], len(graph.ops), len(graph.counts), variables, state, arrays, lists)


def _is_selection(x: object) -> bool:
    return issubclass(type(x), Selection) and not issubclass(type(x), GrownList)


class Loops:
    """The questions of one call of the user's code, by frame and position in its code. `questions` are the sizes
    that it asks for outside of a `while`.
    """

    def __init__(self) -> None:
        self.heads: dict[tuple[FrameType, Any], list[Head]] = {}
        self.watches: dict[tuple[FrameType, Any], Watch] = {}
        self.questions: set[str] = set()

    def ends_at_one(self, trace: SymbolicTrace, guard: Guard) -> bool | None:
        """Return the answer to a question that would end a loop because one element is left, as in `if order.size
        == 1: break`, for more elements. Return None for another question.

        The loop ends then in any case if the rest of the iteration only selects from the others, of which there
        are none. This is checked where the loop is closed.
        """
        if records_loop():
            return None
        frame = frame_outside(sys._getframe(1), _OWN)
        name = next(iter(guard.symbols), "")
        heads = [h[-1] for (f, p), h in self.heads.items() if f is frame and h and is_in_while(frame, p)]
        head = next((h for h in heads if h.size == name), None)
        if head is None or len(guard.symbols) != 1:
            return None
        answer = guard.holds({name: 1})
        relation = OPPOSITE[guard.relation] if answer else guard.relation
        other = replace(guard, relation=relation, place=user_place())
        if not SymbolicTrace({name: (2, max(2, trace.ranges[name][1]))}).certain(other):
            return None
        if not lead_to_the_same(frame.f_code, head.end, (frame.f_lasti, answer)):
            return None
        head.exits.append(_head(frame, guard, running_graph()))
        head.guards.add(other)
        trace.guards[other] = other  # which refuses a loop that is not closed
        return not answer

    def asked(self, trace: SymbolicTrace, guard: Guard, result: bool) -> bool:
        """Close the loop that asks a question about a size, whose answer is `result`. Return False if no loop ends
        here.
        """
        frame = frame_outside(sys._getframe(1), _OWN)
        if records_loop() or not is_users(frame) or not trace.asks_for_nothing(guard):
            return False
        (name,) = guard.symbols
        trace.recorded = recorded_in_all()
        key = frame, position_of(frame)
        for other, earlier_heads in self.heads.items():
            if other != key and earlier_heads and all(h.size != name for h in earlier_heads):
                earlier_heads[-1].asked.setdefault(name, place_of(frame))
        whiles = _whiles_of(frame.f_code, key[1])
        if not whiles:
            if not trace.certain(guard):
                self.questions.add(name)
                tracing.checked.questions().need_few(self.questions)
            return False
        heads = self.heads.setdefault(key, [])
        heads.append(_head(frame, guard, running_graph()))
        heads[-1].end = frame.f_lasti, not result
        heads[-1].earlier = frozenset(trace.guards)
        uses = ((frame.f_code, loop, name, None) for loop in whiles for name in heads[-1].lists)
        if len(heads) == 1 and not all(starmap(is_only_appended_to, uses)):
            self.watches[key] = Watch(frame)
        if (
            len(heads) < _SEEN + (trace.turn or 0)
            or not is_in_while(frame)
            or not _are_connected(running_graph(), heads)
        ):
            return False
        watch = self.watches.pop(key, None)
        if watch is not None:
            watch.stop()
        _Closing(frame, trace, running_graph(), heads, watch).close()
        del heads[:]
        return True


_OWN = (__name__, "anylayer.graph.symbolic", "anylayer.graph.guards", "anylayer.tracing.joined_ifs")
"""The modules whose frames are between the user's question and this one."""


@cache
def _loops_of(code: CodeType) -> list[tuple[int, int, bool]]:
    """Return the first and the last position of each loop of a code, and whether it is a `for`."""
    instructions = {i.offset: i for i in dis.get_instructions(code)}
    ends: dict[int, int] = {}
    for i in instructions.values():
        if "JUMP_BACKWARD" in i.opname:
            ends[i.argval] = max(i.offset, ends.get(i.argval, 0))
    return [(a, b, instructions[a].opname in ("FOR_ITER", "SEND")) for a, b in ends.items()]


def _around(code: CodeType, offset: int) -> tuple[int, int, bool] | None:
    """Return the innermost loop around an instruction: its first and last position, and whether it is a `for`."""
    around = [loop for loop in _loops_of(code) if loop[0] <= offset <= loop[1]]
    return min(around, key=lambda loop: loop[1] - loop[0], default=None)


def is_in_while(frame: FrameType, position: object = None) -> bool:
    """Return whether the innermost loop around the running instruction is a `while`, in which there is also an
    instruction at a place in the source.
    """
    loop = _around(frame.f_code, frame.f_lasti)
    if loop is None or loop[2]:
        return False
    return position is None or position in list(frame.f_code.co_positions())[loop[0] // 2 : loop[1] // 2 + 1]


@cache
def _whiles_of(code: CodeType, position: object) -> list[tuple[int, int]]:
    """Return the first and the last position of each `while` that contains an instruction at a place in the
    source. A compiler may repeat it before the loop.
    """
    positions = list(code.co_positions())
    return [(a, b) for a, b, of in _loops_of(code) if not of and position in positions[a // 2 : b // 2 + 1]]


@cache
def _own_references() -> int:
    """Return the references to a list that only a frame holds: its variable, an argument, maybe its f_locals."""
    items = [0]
    variables = dict(sys._getframe(items[0]).f_locals)
    return sys.getrefcount(variables["items"]) - 1


def _sized_arrays(head: Head) -> dict[str, Value]:
    """Return the local arrays whose first axis has the size that is asked for."""
    e = head.asked_for
    return {n: v for n, v in head.arrays.items() if v.shape and getattr(v.shape[0], "expression", None) == e}


def _are_connected(graph: Graph, heads: list[Head]) -> bool:
    """Return whether each iteration makes an array with the size that is asked for of the one before."""
    for before, after in pairwise(heads):
        names = _sized_arrays(before).keys() & _sized_arrays(after).keys()
        if not any(before.arrays[n] in _sources(graph, [after.arrays[n]], before.ops) for n in names):
            return False
    return True


def _sources(graph: Graph, values: Iterable[Value], first: int) -> set[Value]:
    """Return all values from which operators from number `first` on compute `values`, and these values."""
    new = {v for o in graph.ops[first:] for v in o.outputs}
    waiting = list(values)
    seen = set(waiting)
    while waiting:
        v = waiting.pop()
        for x in graph.producers[v].inputs if v in new else ():
            if x is not None and x not in seen:
                seen.add(x)
                waiting.append(x)
    return seen


class _Closing:
    """The end of a loop: two iterations become an operator, and the frame gets its results."""

    def __init__(
        self, frame: FrameType, trace: SymbolicTrace, graph: Graph, heads: list[Head], watch: Watch | None
    ) -> None:
        self.frame, self.trace, self.graph, self.heads, self.watch = frame, trace, graph, heads, watch
        self.start, self.middle, self.end = heads[:_SEEN]
        self.final = heads[-1].locals
        self.place = place_of(frame)
        inside = enumerate(graph.ops[self.start.ops :], self.start.ops)
        self.at = {v: i for i, o in inside for v in o.outputs}
        self.memo: dict[Value, Value] = {}
        names = [next(iter(n.expression.symbols)) if type(n) is Size else "" for n in graph.counts.values()]
        inner, outer = names[self.middle.counts : self.end.counts], names[self.start.counts : self.middle.counts]
        self.symbols = {self.middle.size: self.start.asked_for, **dict(zip(inner, map(symbol, outer)))}

    def unfit(self, why: str) -> Exception:
        return refusal(
            f"this loop runs until nothing is left, and {why}. A loop is recorded if its iterations compute the "
            "same from local arrays, take one element, select from the others, and append to local lists",
            place=self.place,
        )

    # ----------------------------------------------------------- two iterations are equal

    def changes(self) -> dict[str, tuple[Value, Value]]:
        """Return the values of the local arrays that change, at the start and in the middle."""
        return {
            n: (v, self.middle.arrays[n])
            for n, v in self.start.arrays.items()
            if n in self.middle.arrays and self.middle.arrays[n] is not v
        }

    def same(self, b: Value | None, a: Value | None) -> bool:
        """Return whether `b` of the second iteration is computed as `a` of the first is."""
        if b is None or a is None:
            return a is b
        if b.const is not None or a.const is not None:
            return equal_constants(b.const, a.const, self.equal_sizes)
        if b in self.leaves:
            return a in self.leaves[b]
        if b in self.memo:
            return self.memo[b] is a
        if b is a:
            return not self.varies(b)
        if self.at.get(b, -1) < self.middle.ops or a not in self.graph.producers:
            return False
        self.memo[b] = a
        o, q = self.graph.producers[b], self.graph.producers[a]
        return (
            (o.op, o.domain, o.attrs, len(o.inputs)) == (q.op, q.domain, q.attrs, len(q.inputs))
            and o.outputs.index(b) == q.outputs.index(a)
            and (b.dtype, len(b.shape)) == (a.dtype, len(a.shape))
            and o.body is q.body
            and all(map(self.same, o.inputs, q.inputs))
        )

    def equal_sizes(self, mine: Sequence[Any], other: Sequence[Any]) -> bool:
        """Return whether sizes of the second iteration are those of the first, while an element is left."""
        used = {n for x in (*mine, *other) for n in getattr(x, "symbols", ())}
        names = sorted(used.union(*(self.symbols[n].symbols for n in used & self.symbols.keys())))
        samples = [dict.fromkeys(names, 1), dict.fromkeys(names, 2)]
        samples += [{n: 5 + 7 * i + 3 * k for k, n in enumerate(names)} for i in range(3)]
        for values in samples:
            renamed = {n: self.symbols[n].value(values) if n in self.symbols else values[n] for n in used}
            for x, y in zip(mine, other):
                if getattr(x, "value", lambda _, x=x: x)(renamed) != getattr(y, "value", lambda _, y=y: y)(values):
                    return False
        return True

    def varies(self, value: Value) -> bool:
        """Return whether a value of the first iteration depends on an array that changes from one iteration to the
        next.
        """
        starts = {before for before, _ in self.changes().values()}
        return not starts.isdisjoint(self.used_by([value]))

    # -------------------------------------------------------------------------- the operator

    def appends(self) -> dict[str, tuple[list[Any], list[Any]]]:
        """Return what the two iterations append to local lists, by name."""
        new_items = {}
        for name, items in self.end.lists.items():
            if any(self.start.locals.get(name) is not x for x in (self.end.locals[name], self.final.get(name))):
                continue
            before = self.start.lists[name], self.middle.lists[name], items
            if len(before[0]) == len(items) and all(x is y for x, y in zip(before[0], items)):
                continue
            if any(x is not y for a, b in pairwise(before) for x, y in zip(a, b)):
                raise self.unfit(f"it changes elements of the list '{name}'")
            loop = _around(self.frame.f_code, self.frame.f_lasti)
            if loop is None or not is_only_appended_to(self.frame.f_code, loop[:2], name, self.watch):
                raise self.unfit(f"the list '{name}' is used in another way than by {name}.append(...)")
            if self.has_other_names(name):
                raise self.unfit(f"the list '{name}' has other names")
            new = before[1][len(before[0]) :], items[len(before[1]) :]
            if len(new[0]) != 1 or len(new[1]) != 1 or any(type(x[0]) is not TracedArray for x in new):
                raise self.unfit(f"an iteration appends {len(new[1])} elements to the list '{name}'")
            new_items[name] = new
        return new_items

    def has_other_names(self, name: str) -> bool:
        """Return whether a list is reached in another way than by a local variable of the frame."""
        states = [s for h in self.heads for s in (h, *h.exits)]
        known = sum((h.locals.get(name) is self.final[name]) + h.state.holds(self.final[name]) for h in states)
        return sys.getrefcount(self.final[name]) > known + _own_references()

    def require_equal_states(self, lists: Iterable[str]) -> None:
        """Refuse what differs between two iterations, other than recorded arrays and lists that become longer."""
        names = [n for a, b in pairwise(self.heads) for n in a.state.changed(b.state)]
        for name in names:
            if variable_of(name) not in lists:
                raise self.unfit(f"'{name}' changes in each iteration")

    def require_no_change_after_exits(self, states: Sequence[str], lists: Iterable[str]) -> None:
        """Refuse what an iteration changes after a question that would end the loop, other than selections."""
        for head, end in pairwise(self.heads):
            for at_exit in head.exits:
                for name in states:
                    if at_exit.arrays.get(name) is not end.arrays[name]:
                        raise self.unfit(f"'{name}' changes after a question that ends the loop")
                for name in lists:
                    if len(at_exit.lists[name]) != len(end.lists[name]):
                        raise self.unfit(f"the list '{name}' grows after a question that ends the loop")

    def require_one_question(self) -> None:
        """Refuse an iteration that asks at two places whether anything is left for the next one."""
        for head, following in pairwise(self.heads):
            if following.size in head.asked:
                raise self.unfit(f"{head.asked[following.size]} asks for it, too, before the iteration ends")

    def close(self) -> None:
        self.require_one_question()
        changed = self.changes()
        self.leaves: dict[Value, set[Value]] = {}
        for a, b in changed.values():
            self.leaves.setdefault(b, set()).add(a)
        lists = self.appends()
        self.require_equal_states(lists)
        results = self.names_carried(changed, [x[0]._value for x, _ in lists.values()])
        for name, (_, b) in changed.items():
            if name not in results and self.at.get(b, -1) < self.start.ops:
                raise self.unfit(f"'{name}' gets a value from before the loop")
        sized = [n for n in results if n in _sized_arrays(self.start)]
        states = {n: changed[n] for n in results if n not in sized}
        for name in results:
            if not self.same(self.end.arrays[name], changed[name][1]):
                raise self.unfit(f"two iterations compute '{name}' in different ways")
        for name, (x, y) in lists.items():
            if not self.same(y[0]._value, x[0]._value):
                raise self.unfit(f"two iterations compute what is appended to '{name}' in different ways")
        self.require_no_change_after_exits([*states], lists)
        size = next(v.shape[0] for v in _sized_arrays(self.start).values())
        inside = {v: o for o in self.graph.ops[self.start.ops :] for v in o.outputs}
        ended = self.remove()
        try:
            body = MaskedBody(self.graph, size, inside)
            outputs = body.build({n: changed[n] for n in sized}, states, {n: x[0] for n, (x, _) in lists.items()})
            rows, finals = body.append_loop(outputs)
        except Unfit as error:
            raise self.unfit(str(error)) from error
        self.store(sized, finals, rows)
        self.trace.ended |= ended

    def names_carried(self, changed: dict[str, tuple[Value, Value]], appended: list[Value]) -> list[str]:
        """Return the names of the local arrays that an iteration reads from the one before."""
        names = [n for n, p in changed.items() if self.is_state(n) or p[0] in self.used_by([p[1]])]
        while True:
            used = self.used_by([changed[n][1] for n in names] + appended)
            more = [n for n, p in changed.items() if n not in names and p[0] in used]
            if not more:
                return names
            names += more

    def is_state(self, name: str) -> bool:
        """Return whether a local array is the same object in all iterations, which write to it."""
        return self.start.locals[name] is self.final.get(name)

    def used_by(self, values: list[Value]) -> set[Value]:
        """Return all values from which operators of the first iteration compute `values`."""
        return _sources(self.graph, values, self.start.ops)

    def remove(self) -> set[str]:
        """Remove what the iterations have recorded from the graph, and their sizes, which it returns, from the
        trace.
        """
        ended: set[str] = set()
        graph, trace, start = self.graph, self.trace, self.start
        graph.forget(start.ops)
        heads = {h.size for h in self.heads}
        exits = {g for h in self.heads for g in h.guards}
        trace.guards = {
            g: v
            for g, v in trace.guards.items()
            if g in start.earlier or (g not in exits and not (g.symbols <= heads and trace.asks_for_nothing(g)))
        }
        for value in list(graph.counts)[start.counts :]:
            size = graph.counts.pop(value)
            names = size.expression.symbols - {start.size} if type(size) is Size else set()
            ended |= names
            for name in names:
                for table in (trace.counts, trace.ranges):
                    table.pop(name, None)
                trace.facts = {k: e for k, e in trace.facts.items() if name not in e.symbols}
        for _ in range(_SEEN * (self.end.counts - self.middle.counts)):  # later sizes get other names than these
            graph.counts[Value("removed", (), np.dtype(np.int64))] = 0
        return ended

    def store(self, sized: Any, finals: dict[str, TracedArray], rows: dict[str, TracedArray]) -> None:
        """Give the local variables the results of the loop."""
        for name in sized:
            if any(h.exits for h in self.heads):
                why = f"is read after the loop at {self.place} that ends where one or no element is left"
                set_local(self.frame, name, Unreadable(f"'{name}' {why}; end it where none is left"))
                continue
            x = self.final[name]
            x._content, x._view = np.zeros((0, *x.shape[1:]), x.dtype), None
            set_local(self.frame, name, x)
        for name, value in finals.items():
            x = self.final[name]
            if x._view is not None:
                raise self.unfit(f"'{name}' is a view of another array")
            x._content = value._up_to_date()
        for name, value in rows.items():
            items = self.final[name]
            set_local(self.frame, name, GrownList(self.start.lists[name], value))
            items[:] = [unreadable_list(f"the list '{name}', which a loop has filled,")]


@contextmanager
def watch_loops(trace: SymbolicTrace) -> Iterator[None]:
    """Watch for loops in the user's code inside the context. The trace may have sizes that depend on data."""
    loops, decide = Loops(), trace.decide

    def decide_in_loop(a: object, relation: str, b: object) -> bool | None:
        guard = guard_of(a, relation, b)
        answer = None if guard is None else loops.ends_at_one(trace, guard)
        return decide(a, relation, b) if answer is None else answer

    trace.asked, trace.decide, trace.repeat = loops.asked, decide_in_loop, repeated_list
    try:
        yield
    finally:
        for watch in loops.watches.values():
            watch.stop()
        trace.asked, trace.decide = None, decide
