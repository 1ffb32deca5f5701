"""Trace a network with open sizes, and make one graph for every size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from anylayer.compile.choices import Symbols, first_sizes, larger_sizes, second_sizes
from anylayer.compile.inputs import has_open_sizes, input_types
from anylayer.compile.nodes import Definitions
from anylayer.compile.symbolic import Trace, for_every_size, simplify_sized
from anylayer.compile.whole import Calls, whole
from anylayer.errors import AnyLayerError, InputError, LayerError, adding_advice, at, need_one_of, some
from anylayer.graph import Graph
from anylayer.graph.guards import Guard, SymbolicTrace, symbolic_trace
from anylayer.graph.open_sizes import OpenSizes, parse_sizes
from anylayer.network import Network, TensorType
from anylayer.source import Source

_ADVICE = "With open sizes the network is also traced at other sizes: give numbers, or a range (H>=64)"


@dataclass(frozen=True, slots=True)
class OpenTraces:
    """A network traced at two choices of sizes.

    `first` is the source of the first trace. `sizes` are the open sizes, with the guards of both traces.
    """

    first: Source
    a: Trace
    b: Trace
    sizes: OpenSizes

    def source(self, rewrite: Callable[[Graph], Graph] | None = simplify_sized) -> Source:
        """Return the network for every size: see anylayer.source.Source.

        rewrite: simplifies both traces first. If its results for the two traces differ, it is not applied. Raises
        TraceError where the traces differ in more than the sizes.
        """
        with at(self.first.network.source):
            graph = for_every_size(self.a, self.b, {**self.a.ranges, **self.sizes.ranges}, rewrite)
        return replace(self.first, graph=graph, inputs={v.name: v.type for v in graph.inputs}, sizes=self.sizes)


def trace_open(
    network: Network,
    definitions: Definitions,
    types: Mapping[str, TensorType | None],
    sizes: OpenSizes,
    outputs: Mapping[str, str],
    calls: Calls | None = None,
    *,
    by_node: str | None = None,
    relax: bool = False,
) -> OpenTraces:
    """Trace the nodes that `outputs` depend on at two choices of sizes, as compile.whole.whole does.

    types: the inputs' types; where they give an open size, the first trace has it.
    by_node: simplify the graph of each node on its own, with the rules for this target.
    relax: drop conditions that are not needed, which takes further traces.

    Raises what `whole` raises, and InputError where the layers allow few choices of sizes only.
    """
    rewrite = None if by_node is None else partial(simplify_sized, engine=by_node, exact=True)

    def traced(symbols: Symbols, turn: int = 0) -> tuple[Source, Trace]:
        symbolic = sizes.symbolic_types(types, symbols)
        with symbolic_trace(sizes.ranges, symbols, turn) as recorded:
            source = whole(network, definitions, symbolic, outputs, calls or Calls(), rewrite)
        return source, Trace(source.graph, symbols, tuple(recorded.guards), recorded.ranges)

    with adding_advice(_ADVICE):
        first, a = _first_trace(traced, first_sizes(sizes, types), sizes)
        with at(network.source):
            open_ranges = {name: a.ranges[name] for name in sizes.ranges}
            other = second_sizes(replace(sizes, guards=tuple(a.guards), ranges=open_ranges), dict(a.symbols))
        _, b = traced(other, 1)
    guards = tuple(dict.fromkeys((*a.guards, *b.guards)))
    ranges = {
        name: (max(low, b.ranges[name][0]), min(high, b.ranges[name][1]))
        for name, (low, high) in open_ranges.items()
    }
    guarded_sizes = replace(sizes, guards=guards, ranges=ranges, traced=(a.symbols, b.symbols))
    if relax:
        guarded_sizes = relax_conditions(a, sizes, guarded_sizes, lambda symbols: traced(dict(symbols), 1)[1])
    for guard in (g for g in guarded_sizes.guards if g.fixes_sizes()):
        names = some(sorted(guard.symbols), 5)
        fits = ", ".join(f"{name}={a.symbols[name]}" for name in sorted(guard.symbols))
        rule = f"{names} cannot all stay open: {guard.place} fits few sizes only, {fits} among them"
        advice = f"Give numbers, or leave one of them open. The condition is {guard}"
        raise InputError(f"{rule}. {advice}", network.source)
    return OpenTraces(first, a, b, guarded_sizes)


def _first_trace(
    traced: Callable[[Symbols], tuple[Source, Trace]], choices: Sequence[Symbols], sizes: OpenSizes
) -> tuple[Source, Trace]:
    """Return the trace at the first choice of sizes that the layers allow. If a guard requires equal sizes, larger
    sizes are tried, too, because the first ones may be a special case, such as size 1.
    """
    first = None
    problems: list[LayerError] = []
    for symbols in choices:
        try:
            first = traced(symbols)
            break
        except LayerError as error:  # the layers may need equal sizes, which a later choice has
            problems.append(error)
    if first is None:
        raise problems[min(1, len(problems) - 1)]
    equalities = _equalities(first[1])
    larger = larger_sizes(sizes, dict(first[1].symbols)) if equalities else None
    if larger is not None:
        try:
            other = traced(larger)
        except LayerError:
            return first
        return other if _equalities(other[1]) < equalities else first
    return first


def _equalities(trace: Trace) -> int:
    """Return the number of guards that require two sizes to be equal."""
    return sum(g.relation == "==" for g in trace.guards)


def open_types(
    network: Network, shapes: Mapping[str, Sequence[Any]] | None
) -> tuple[dict[str, TensorType | None], OpenSizes | None]:
    """Return the types of the network's inputs, with `shapes` in place of the file's, and the open sizes.

    An input with open sizes has the file's type. Raises InputError as input_types and parse_sizes do.
    """
    sizes = parse_sizes(shapes, network.dtypes) if shapes and has_open_sizes(shapes) else None
    opened = sizes.shapes if sizes is not None else {}
    types = input_types(network, {n: s for n, s in (shapes or {}).items() if n not in opened})
    for name in opened:
        need_one_of(name, types, f"the network has no input '{name}'", "its inputs")
    if sizes is not None and network.sizes is not None:
        shapes_of_inputs = {name: kind.shape for name, kind in types.items() if kind is not None}
        sizes = replace(sizes, texts=network.sizes.conditions_on({**shapes_of_inputs, **opened}))
    return types, sizes


_MAX_TRIALS = 6
"""The largest number of further traces."""
_CHECKED = 4096
"""The largest number of values for which a condition is evaluated."""
_STEPS = (-1, 1, -2, 2, -3, 3, -5, 5, -8, 8, -16, 16, -32, 32, -64, 64, 128, 256)
"""The distances, tried in this order, at which sizes that break a condition are searched for."""


def relax_conditions(
    first: Trace, asked: OpenSizes, guarded: OpenSizes, traced: Callable[[Mapping[str, int]], Trace]
) -> OpenSizes:
    """Return `guarded`, the sizes with the conditions of the traces, without those that are not needed.

    A branch on a size records a condition even where both branches compute the same. The network is traced once
    more at sizes that break one condition. Where that trace has the same graph, and no further conditions, the
    condition is not needed.

    asked: the sizes as the caller gives them. traced: traces the network at these values of the symbols.
    """
    guards = list(_distinct(guarded))
    ranges = dict(guarded.ranges)
    tried = 0
    for name, (low, high) in guarded.ranges.items():
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
    return replace(guarded, guards=tuple(guards), ranges=ranges)


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
    distinct = list(dict.fromkeys(g.reduced() for g in sizes.guards))
    for guard in [g for g in distinct if g.relation != "=="]:
        implied = SymbolicTrace(dict(sizes.ranges))
        for other in sizes.guards:
            if other.reduced() in distinct and other.reduced() != guard:
                implied.assume(other)
        if implied.certain(guard):
            distinct.remove(guard)
    return distinct


def _breaking(broken: Sequence[Guard], first: Mapping[str, int], sizes: OpenSizes) -> Mapping[str, int] | None:
    """Return sizes near the first ones that break all conditions in `broken` and fulfil those of `sizes`."""
    names = [n for n in first if any(n in g.symbols for g in broken)][:2]
    values = dict.fromkeys(first[n] + step for step in (0, *_STEPS) for n in names)
    for moved in (
        {**first, **dict(zip(names, chosen_values))} for chosen_values in product(values, repeat=len(names))
    ):
        if min(moved.values()) >= 1 and sizes.allow(moved) and not any(g.holds(moved) for g in broken):
            return moved
    return None


def _same_graph(
    first: Trace, symbols: Mapping[str, int], traced: Callable[[Mapping[str, int]], Trace], asked: OpenSizes
) -> Trace | None:
    """Return the trace at other sizes if it has the graph of the first one, else None."""
    try:
        other = traced(symbols)
        for_every_size(first, other, {**first.ranges, **asked.ranges})
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
    """Return whether a trace is valid at all sizes for which `broken` does not hold but `fulfilled` does."""
    if not all(g in fulfilled or any(map(g.contradicts, broken)) for g in map(Guard.reduced, other.guards)):
        return False
    return all(
        other.ranges[n][0] <= low or any(_holds_for(g, n, range(low, other.ranges[n][0])) for g in broken)
        for n, (low, _) in ranges.items()
    )


def _holds_for(guard: Guard, name: str, values: range) -> bool:
    """Return whether a condition on one symbol holds for all of some values."""
    return guard.symbols == {name} and len(values) <= _CHECKED and all(guard.holds({name: v}) for v in values)
