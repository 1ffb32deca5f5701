"""Drop conditions on sizes that are only artifacts of the traced sizes.

A branch on a size records a condition even where both branches compute the same. The network is traced once more
at sizes that break one condition. Where that trace has the same graph, and no further conditions, the condition is
not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from anylayer.compile.symbolic import Trace, for_every_size
from anylayer.errors import AnyLayerError
from anylayer.graph.guards import Guard, SymbolicTrace
from anylayer.graph.open_sizes import OpenSizes

_MAX_TRIALS = 6
"""The largest number of further traces."""
_CHECKED = 4096
"""The largest number of values for which a condition is evaluated."""
_STEPS = (-1, 1, -2, 2, -3, 3, -5, 5, -8, 8, -16, 16, -32, 32, -64, 64, 128, 256)
"""The distances, tried in this order, at which sizes that break a condition are searched for."""


def relaxed(
    first: Trace, asked: OpenSizes, found: OpenSizes, traced: Callable[[Mapping[str, int]], Trace]
) -> OpenSizes:
    """Return `found`, the sizes with the conditions of the traces, without those that are not needed.

    asked: the sizes as the caller gives them. traced: traces the network at these values of the symbols.
    """
    guards = list(_distinct(found))
    ranges = dict(found.ranges)
    tried = 0
    for name, (low, high) in found.ranges.items():
        if low > asked.ranges[name][0] and tried < _MAX_TRIALS:
            tried += 1
            below = {**first.symbols, name: low - 1}
            other = _same_graph(first, below, traced, asked)
            if other is not None and _is_covered(other, name, low, guards, ranges):
                ranges[name] = other.ranges[name][0], high
    dropped: list[Guard] = []
    for guard in [g for g in guards if g.relation != "=="]:
        rest = [g for g in guards if g is not guard]
        sides = list(product((True, False), repeat=len(dropped)))  # which of the dropped conditions hold
        tried += len(sides)
        if tried > _MAX_TRIALS:
            break
        if all(
            _is_needless(guard, rest, dict(zip(dropped, side)), first, asked, ranges, traced) for side in sides
        ):
            guards = rest
            dropped.append(guard)
    return replace(found, guards=tuple(guards), ranges=ranges)


def _is_needless(
    guard: Guard,
    rest: Sequence[Guard],
    dropped: Mapping[Guard, bool],
    first: Trace,
    asked: OpenSizes,
    ranges: Mapping[str, tuple[int, int]],
    traced: Callable[[Mapping[str, int]], Trace],
) -> bool:
    """Return whether the graph is the same at sizes that break a condition and fulfil the others.

    dropped: conditions that were found to be needless, and whether they hold at the sizes to try.
    """
    broken = [guard, *(g for g, holds in dropped.items() if not holds)]
    fulfilled = [*rest, *(g for g, holds in dropped.items() if holds)]
    symbols = _breaking(broken, first.symbols, replace(asked, guards=tuple(fulfilled), ranges=ranges))
    other = _same_graph(first, symbols, traced, asked) if symbols is not None else None
    return other is not None and _is_complement(other, broken, fulfilled, ranges)


def _distinct(sizes: OpenSizes) -> Sequence[Guard]:
    """Return the guards without those that follow from the others."""
    kept = list(dict.fromkeys(g.reduced() for g in sizes.guards))
    for guard in [g for g in kept if g.relation != "=="]:
        known = SymbolicTrace(dict(sizes.ranges))
        for other in sizes.guards:
            if other.reduced() in kept and other.reduced() != guard:
                known.assume(other)
        if known.certain(guard):
            kept.remove(guard)
    return kept


def _breaking(broken: Sequence[Guard], first: Mapping[str, int], sizes: OpenSizes) -> Mapping[str, int] | None:
    """Return sizes near the first ones that break all conditions in `broken` and fulfil those of `sizes`."""
    names = [n for n in first if any(n in g.symbols for g in broken)][:2]
    values = dict.fromkeys(first[n] + step for step in (0, *_STEPS) for n in names)
    for moved in ({**first, **dict(zip(names, own))} for own in product(values, repeat=len(names))):
        if min(moved.values()) >= 1 and sizes.allow(moved) and not any(g.holds(moved) for g in broken):
            return moved
    return None


def _same_graph(
    first: Trace, symbols: Mapping[str, int], traced: Callable[[Mapping[str, int]], Trace], asked: OpenSizes
) -> Trace | None:
    """Return the trace at other sizes if it has the graph of the first one, else None."""
    try:
        other = traced(symbols)
        for_every_size(first, other, asked.ranges)
    except AnyLayerError:
        return None
    return other


def _is_covered(
    other: Trace, name: str, low: int, guards: Sequence[Guard], ranges: Mapping[str, tuple[int, int]]
) -> bool:
    """Return whether a trace with the symbol `name` below `low` is valid for all smaller values of the symbol."""
    below = range(other.ranges[name][0], low)
    others = all(g in guards or _holds_for(g, name, below) for g in map(Guard.reduced, other.guards))
    return others and all(other.ranges[n][0] <= bottom for n, (bottom, _) in ranges.items() if n != name)


def _is_complement(
    other: Trace, broken: Sequence[Guard], fulfilled: Sequence[Guard], ranges: Mapping[str, tuple[int, int]]
) -> bool:
    """Return whether a trace is valid at all sizes at which the conditions `broken` do not hold and `fulfilled`
    do.
    """
    if not all(g in fulfilled or any(map(g.contradicts, broken)) for g in map(Guard.reduced, other.guards)):
        return False
    return all(
        other.ranges[n][0] <= low or any(_holds_for(g, n, range(low, other.ranges[n][0])) for g in broken)
        for n, (low, _) in ranges.items()
    )


def _holds_for(guard: Guard, name: str, values: range) -> bool:
    """Return whether a condition on one symbol holds for all of some values."""
    return guard.symbols == {name} and len(values) <= _CHECKED and all(guard.holds({name: v}) for v in values)
