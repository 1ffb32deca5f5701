"""Guards: the conditions on sizes under which a trace is valid."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random
from typing import Any

from anylayer.graph.expressions import (
    Expression,
    Ranges,
    bounds,
    constant,
    divided_by_common,
    extremum_in,
    is_increasing,
    least_value,
    of_atom,
    remainder_in,
    symbol,
    with_fixed_extrema,
)
from anylayer.graph.place import refusal, user_place
from anylayer.graph.reals import Real
from anylayer.network import MAX_VALUES, Function

RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MULTIPLE = 720_720
"""A multiple of the numbers up to 16, by which layers divide sizes."""
_SAMPLES = 200
"""The number of choices of large sizes for which an equation is evaluated."""
_EXAMPLE = 24
"""The largest example of a size that depends on data."""
_LEAST_EXAMPLE = 4
"""The smallest example of a size whose limit is symbolic."""
_MAX_RELATED = 12
"""The largest number of facts on a size of which pairs are added up."""
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on sizes, `left relation right`, that held when a network was traced.

    `place` is the line that compared the sizes.
    """

    left: Expression | Real
    relation: str
    right: Expression | Real
    place: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{_text(self.left)} {self.relation} {_text(self.right)}"

    def holds(self, symbols: Mapping[str, int]) -> bool:
        """Return whether the condition holds for these values of the symbols."""
        return RELATIONS[self.relation](self.left.value(symbols), self.right.value(symbols))

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols in the condition."""
        return self.left.symbols | self.right.symbols

    def fixes_sizes(self) -> bool:
        """Return whether the condition is an equation of several sizes that no large sizes fulfil, as H*W == 784.

        The difference of its sides has both signs for other equations (H == W), or is 0 for multiples of a number.
        """
        if self.relation != "==" or len(self.symbols) < 2:
            return False
        random = Random(0)
        signs: set[bool] = set()
        for _ in range(_SAMPLES):
            large = {
                n: (_MULTIPLE << random.randrange(40)) + random.randrange(-1, 2) for n in sorted(self.symbols)
            }
            left, right = self.left.value(large), self.right.value(large)
            if left == right:
                return False
            signs.add(left > right)
        return len(signs) == 1

    def reduced(self) -> Guard:
        """Return the condition with an equality of multiples divided by their factor: X == 9 for 6*X == 54."""
        if isinstance(self.left, Real) or isinstance(self.right, Real) or self.relation not in ("==", "!="):
            return self
        terms = (self.left - self.right).terms
        factor = math.gcd(*terms.values())
        if factor <= 1:
            return self
        left = Expression({m: c // factor for m, c in terms.items() if m})
        return replace(self, left=left, right=constant(-terms.get((), 0) // factor))

    def contradicts(self, other: Guard) -> bool:
        """Return whether this is the opposite of another condition."""
        return (self.left, self.right) == (other.left, other.right) and self.relation == OPPOSITE[other.relation]


def _text(side: Expression | Real) -> str:
    """Return a side of a condition with a remainder as Python writes it: H % 3 for H - 3*(H//3)."""
    term = None if isinstance(side, Real) else remainder_in(side)
    if term is None:
        return str(side)
    a, b = (x.text if len(x.terms) == 1 and min(x.terms.values()) > 0 else f"({x.text})" for x in term[:2])
    rest = term[2].text
    return f"{a} % {b}" + {"0": ""}.get(rest, f" - {rest[1:]}" if rest[0] == "-" else f" + {rest}")


@dataclass(frozen=True, slots=True, order=True)
class SelectionKey:
    """A selection of a function, whose size depends on data: its number, and the prefix of the function's names.

    Number 0 is a size of the input `prefix`. `empty` are the numbers of the earlier selections that are empty in
    the trace, because other code may follow then.
    """

    number: int
    prefix: str
    empty: tuple[int, ...] = ()

    def name(self, filled: Mapping[SelectionKey, int]) -> str:
        """Return the name of its size where selections are filled: it may have more elements than elsewhere."""
        if not self.number:
            return self.prefix
        marks = [f"f{s.number}_{least}" for s, least in sorted(filled.items()) if s.number <= self.number]
        return f"{self.prefix}count{'_'.join(map(str, (self.number, *self.empty)))}{''.join(marks)}"


@dataclass(frozen=True, slots=True)
class Count:
    """A size that depends on data: an example of its value, which a trace uses, its largest value, and its key."""

    example: int
    limit: Expression
    selected: SelectionKey


@dataclass(slots=True)
class SymbolicTrace:
    """The record of a trace with symbolic sizes.

    `ranges` are the least and the largest value of each symbol, narrowed by comparisons. `guards` are the
    conditions under which the trace is valid, without those that hold for every size in the ranges. `facts` are
    expressions that are 0 or more. Only the least of those that differ by a constant is kept; the key is its terms
    without the constant. `symbols` are the traced values of the symbols, where they are known.

    `counts` are the sizes that depend on data, by their symbols: the numbers of elements that masks select. Traces
    with different values of `turn`, 0 or 1, have different examples. It is None where a trace may not have such
    sizes. `empty` are the selections that are empty in this trace. `filled` maps others to a least number: their
    masks select the first elements where they would select fewer. `watched` are those of which the graph computes
    whether they are empty, although they are not filled. `ended` are the symbols of sizes inside of loops
    that have ended. `alike` maps the symbol of a size to another size that is 0 exactly where this one is. `fixes`
    is the first line that makes a plain number of an open size. `decide` answers a comparison of sizes that depend
    on data by the user's code, or returns None. `repeat` returns a list times such a size. `asked` gets each
    condition on such sizes that is not answered so, and the answer; if it returns True, the condition is answered
    as it is for size 0. `recorded` is the number of operators before the last of them. `layer` names the built-in
    layer that is traced, which is the place of its conditions.
    """

    ranges: dict[str, tuple[int, int]]
    guards: dict[Guard, Guard] = field(default_factory=dict)
    facts: dict[Expression, Expression] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)
    counts: dict[str, Count] = field(default_factory=dict)
    turn: int | None = None
    empty: frozenset[SelectionKey] = frozenset()
    asked: Callable[[SymbolicTrace, Guard, bool], bool] | None = None
    filled: Mapping[SelectionKey, int] = field(default_factory=dict)
    watched: frozenset[SelectionKey] = frozenset()
    ended: set[str] = field(default_factory=set)
    alike: dict[str, Expression] = field(default_factory=dict)
    fixes: str = ""
    decide: Callable[[Any, str, Any], bool | None] = lambda a, relation, b: None
    repeat: Function = lambda items, n: NotImplemented
    recorded: int = 0
    layer: str = ""
    _answers: dict[Expression, bool] = field(default_factory=dict)
    _state: tuple[Any, ...] = ()

    def count(self, selected: SelectionKey, most: Any) -> tuple[str, int] | None:
        """Return the name and an example of a size that depends on data: a number from 0 to `most`, which may be
        symbolic. Return None if the size is certainly 0 in this trace.
        """
        limit = getattr(most, "expression", None) or constant(int(most))
        if selected in self.empty or limit.constant == 0:
            return None
        name = selected.name(self.filled)
        turn, least, largest = self.turn or 0, self.filled.get(selected, 0), int(getattr(most, "value", most))
        value = max(1, min(largest - largest // 3, _EXAMPLE) - turn) if largest else 0
        if limit.constant is None:  # an example may exceed a limit that is an example, too
            value = max(value, _LEAST_EXAMPLE - turn)
        value = max(value, least)
        if least > 1 and self.counts.keys().isdisjoint(limit.symbols):
            self.compare(limit, ">=", constant(least), True)
        self.ranges[name] = least, int(min(bounds(limit, self.ranges)[1], MAX_VALUES))
        self.counts[name] = Count(value, limit, selected)
        self.ended.discard(name)
        self.assume(Guard(symbol(name), "<=", limit))
        return name, value

    def examples(self, fixed: Mapping[str, int]) -> dict[str, int]:
        """Return an example of each size, where some are fixed: a selection of an empty one is empty."""
        values = {**self.symbols, **fixed}
        for name, count in self.counts.items():
            values[name] = min(values.get(name, count.example), count.limit.value(values))
        return values

    def asks_for_nothing(self, guard: Guard) -> bool:
        """Return whether a condition means that one selection is not empty."""
        if len(guard.symbols) != 1:
            return False
        (name,) = guard.symbols
        some = SymbolicTrace({name: (1, max(1, self.ranges[name][1]))})
        try:
            return some.certain(guard) and not guard.holds({name: 0})
        except ZeroDivisionError:
            return False

    def need_outside(self, symbols: Set[str]) -> None:
        """Raise TraceError if a symbol is a size of an array that one iteration of a loop has computed."""
        if not self.ended.isdisjoint(symbols):
            raise refusal(
                "the size of an array that one iteration of a loop has computed is used after the loop, whose "
                "number of iterations is known only when the network runs; append to a list, and use its length"
            )

    def depends_on_data(
        self, left: Expression | Real, relation: str, right: Expression | Real, result: bool
    ) -> bool:
        """Return whether a comparison depends on data, other than on whether something is selected.

        Raises TraceError for a size of an array that one iteration of a loop has computed.
        """
        guard = Guard(left, relation if result else OPPOSITE[relation], right)
        self.need_outside(guard.symbols)
        if self.counts.keys().isdisjoint(guard.symbols):
            return False
        return not self.certain(guard) and not self.asks_for_nothing(guard)

    def compare(self, left: Expression | Real, relation: str, right: Expression | Real, result: bool) -> bool:
        """Record the condition, unless it always holds, and return `result`, its value at the traced sizes."""
        guard = Guard(left, relation if result else OPPOSITE[relation], right, self.layer or user_place())
        if not self.alike.keys().isdisjoint(guard.symbols) and self.asks_for_nothing(guard):
            (name,) = guard.symbols
            guard = replace(guard, left=self.alike[name], relation=">=", right=constant(1))
        if (
            self.asked is not None
            and not self.counts.keys().isdisjoint(guard.symbols)
            and self.asked(self, guard, result)
        ):
            return not result
        if guard not in self.guards and not self.certain(guard) and not self._are_least_sizes(guard):
            self.guards[guard] = guard
            if self.counts.keys().isdisjoint(guard.symbols):
                self.assume(guard)
        return result

    def assume(self, guard: Guard) -> None:
        """Record that a condition holds."""
        for e in (part for whole in _not_negative(guard) for part in self._uncertain(whole)):
            self.facts[Expression({m: c for m, c in e.terms.items() if m})] = e

    def _are_least_sizes(self, guard: Guard) -> bool:
        """Return whether a condition only means that symbols have least values, which then become their ranges."""
        if not self.counts.keys().isdisjoint(guard.symbols):
            return False
        least = dict(self.ranges)
        needed = _not_negative(guard)
        for e in (part for whole in needed for part in self._uncertain(whole)):
            name = min(e.symbols, default="")
            low, high = least.get(name, (1, MAX_VALUES))
            value = least_value(e, name, low) if len(e.symbols) == 1 and is_increasing(e) else None
            if value is None or value > high:
                return False
            least[name] = value, high
        self.ranges.update(least)
        return bool(needed)

    def _uncertain(self, e: Expression) -> list[Expression]:
        """Return the expressions that must be 0 or more so that `e` is, without those that certainly are.

        min(6, H) - 6 becomes H - 6: loops over an open size record such a condition per step.
        """
        e = with_fixed_extrema(e, self.ranges)
        if self.not_negative(e):
            return []
        term = extremum_in(e)
        if term is None or (term[0].function == "max") == (term[1] > 0):
            return [e]
        atom, c = term
        rest = e - constant(c) * of_atom(atom)
        return [part for a in atom.arguments for part in self._uncertain(rest + constant(c) * a)]

    def certain(self, guard: Guard) -> bool:
        """Return whether a condition follows from the ranges and from the guards."""
        if isinstance(guard.left, Real) or isinstance(guard.right, Real):
            return False
        if guard.relation == "!=":
            difference = guard.left - guard.right
            return any(self.not_negative(e - constant(1)) for e in (difference, -difference))
        needed = _not_negative(guard)
        return all(map(self.not_negative, needed))

    def not_negative(self, e: Expression) -> bool:
        """Return whether an expression is certainly 0 or more."""
        state = (*self.facts.values(), *self.ranges.items())
        if state != self._state:
            self._state, self._answers = state, {}
        if e not in self._answers:
            self._answers[e] = self._not_negative(e)
        return self._answers[e]

    def _not_negative(self, e: Expression) -> bool:
        related = [f for f in self.facts.values() if not f.symbols.isdisjoint(e.symbols)]
        if bounds(e, self.ranges)[0] >= 0 or any(bounds(e - f, self.ranges)[0] >= 0 for f in related):
            return True
        pairs = combinations(related if len(related) <= _MAX_RELATED else (), 2)
        if any(bounds(e - f - g, self.ranges)[0] >= 0 for f, g in pairs):
            return True
        shorter = divided_by_common(e)
        if shorter is not None:
            return self.not_negative(shorter)
        term = extremum_in(e)
        if term is None:
            return False
        atom, c = term
        enough = any if (atom.function == "max") == (c > 0) else all
        rest = e - constant(c) * of_atom(atom)
        return enough(self.not_negative(rest + constant(c) * a) for a in atom.arguments)


def _not_negative(guard: Guard) -> list[Expression]:
    """Return the expressions that are 0 or more exactly where a condition of integers holds."""
    if isinstance(guard.left, Real) or isinstance(guard.right, Real) or guard.relation == "!=":
        return []
    e = guard.left - guard.right
    return {"==": [e, -e], "<": [-e - constant(1)], "<=": [-e], ">": [e - constant(1)], ">=": [e]}[guard.relation]


current_trace: ContextVar[SymbolicTrace | None] = ContextVar("symbolic_trace", default=None)


@contextmanager
def symbolic_trace(
    ranges: Ranges, symbols: Mapping[str, int] | None = None, turn: int | None = None
) -> Iterator[SymbolicTrace]:
    """Record the guards of the sizes that are compared inside the context.

    symbols: the values of the symbols in these sizes. turn: as in SymbolicTrace.
    """
    trace = SymbolicTrace(dict(ranges), symbols=symbols or {}, turn=turn)
    token = current_trace.set(trace)
    try:
        yield trace
    finally:
        current_trace.reset(token)


def name_conditions(layer: str) -> None:
    """Let `layer` be the place of the conditions that are recorded from now on; "" for the user's line."""
    trace = current_trace.get()
    if trace is not None:
        trace.layer = layer


def copied_state(trace: SymbolicTrace) -> SymbolicTrace:
    """Return a trace with the same ranges, guards and facts."""
    return replace(
        trace,
        ranges=dict(trace.ranges),
        guards=dict(trace.guards),
        facts=dict(trace.facts),
        counts=dict(trace.counts),
    )


@contextmanager
def repeated_trace() -> Iterator[Callable[[], None]]:
    """Let code that is traced several times record the same each time.

    Yields a function to call before each repetition. It restores the ranges and guards that the symbolic trace, if
    there is one, had at the beginning of the context. The records of the last repetition are kept, but none if it
    raises an exception.
    """
    trace = current_trace.get()
    if trace is None:
        yield lambda: None
        return
    start = copied_state(trace)

    def restart() -> None:
        state = copied_state(start)
        trace.ranges, trace.guards, trace.facts = state.ranges, state.guards, state.facts
        trace.counts, trace.fixes = state.counts, ""

    try:
        yield restart
    except BaseException:
        restart()
        raise


def traces_symbolically() -> bool:
    """Return whether a network is being traced with symbolic sizes."""
    return current_trace.get() is not None


@contextmanager
def unguarded() -> Iterator[None]:
    """Record no guards inside the context: for limits and messages, which do not change what is computed."""
    token = current_trace.set(None)
    try:
        yield
    finally:
        current_trace.reset(token)
