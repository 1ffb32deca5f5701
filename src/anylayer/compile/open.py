"""Trace a network with open sizes, and make one graph for every size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from anylayer.compile.choices import Symbols, first_sizes, larger_sizes, second_sizes
from anylayer.compile.inputs import input_types
from anylayer.compile.nodes import Definitions
from anylayer.compile.relaxed import relaxed
from anylayer.compile.symbolic import Trace, for_every_size, simplify_sized
from anylayer.compile.whole import Calls, whole
from anylayer.errors import InputError, LayerError, adding_advice, at, nearest, need, some
from anylayer.graph import Graph
from anylayer.graph.guards import symbolic_trace
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
            graph = for_every_size(self.a, self.b, self.sizes.ranges, rewrite)
        return replace(self.first, graph=graph, inputs={v.name: v.type for v in graph.inputs}, sizes=self.sizes)


def trace_open(
    network: Network,
    definitions: Definitions,
    types: Mapping[str, TensorType | None],
    sizes: OpenSizes,
    outputs: Mapping[str, str],
    calls: Calls | None = None,
    *,
    by_node: bool = False,
    relax: bool = False,
) -> OpenTraces:
    """Trace the nodes that `outputs` depend on at two choices of sizes, as compile.whole.whole does.

    types: the inputs' types; where they give an open size, the first trace has it. by_node: simplify the graph of
    each node on its own. relax: drop conditions that are not needed, which takes further traces.

    Raises what `whole` raises, and InputError where the layers allow few choices of sizes only.
    """
    rewrite = partial(simplify_sized, exact=True) if by_node else None

    def traced(symbols: Symbols) -> tuple[Source, Trace]:
        symbolic = sizes.symbolic_types(types, symbols)
        with symbolic_trace(sizes.ranges, symbols) as recorded:
            source = whole(network, definitions, symbolic, outputs, calls or Calls(), rewrite)
        return source, Trace(source.graph, symbols, tuple(recorded.guards), recorded.ranges)

    with adding_advice(_ADVICE):
        first, a = _first_trace(traced, first_sizes(sizes, types), sizes)
        with at(network.source):
            other = second_sizes(replace(sizes, guards=tuple(a.guards), ranges=a.ranges), dict(a.symbols))
        _, b = traced(other)
    guards = tuple(dict.fromkeys((*a.guards, *b.guards)))
    ranges = {
        name: (max(low, b.ranges[name][0]), min(high, b.ranges[name][1])) for name, (low, high) in a.ranges.items()
    }
    found = replace(sizes, guards=guards, ranges=ranges, traced=(a.symbols, b.symbols))
    if relax:
        found = relaxed(a, sizes, found, lambda symbols: traced(dict(symbols))[1])
    for guard in (g for g in found.guards if g.fixes_sizes()):
        names = some(sorted(guard.symbols), 5)
        rule = f"{guard.place}: only few sizes fulfil {guard}, so {names} cannot all stay open"
        raise InputError(f"{rule}: give numbers, or leave one of them open", network.source)
    return OpenTraces(first, a, b, found)


def _first_trace(
    traced: Callable[[Symbols], tuple[Source, Trace]], choices: Sequence[Symbols], sizes: OpenSizes
) -> tuple[Source, Trace]:
    """Return the trace at the first choice of sizes that the layers allow. If a guard requires equal sizes, larger
    sizes are tried, too, because the first ones may be a special case, such as size 1.
    """
    found = None
    problems: list[LayerError] = []
    for symbols in choices:
        try:
            found = traced(symbols)
            break
        except LayerError as error:  # the layers may need equal sizes, which a later choice has
            problems.append(error)
    if found is None:
        raise problems[min(1, len(problems) - 1)]
    equalities = _equalities(found[1])
    larger = larger_sizes(sizes, dict(found[1].symbols)) if equalities else None
    if larger is not None:
        try:
            other = traced(larger)
        except LayerError:
            return found
        return other if _equalities(other[1]) < equalities else found
    return found


def _equalities(trace: Trace) -> int:
    """Return the number of guards that require two sizes to be equal."""
    return sum(g.relation == "==" for g in trace.guards)


def open_types(
    network: Network, shapes: Mapping[str, Sequence[Any]] | None
) -> tuple[dict[str, TensorType | None], OpenSizes | None]:
    """Return the types of the network's inputs, with `shapes` in place of the file's, and the open sizes.

    An input with open sizes has the file's type. Raises InputError as input_types and parse_sizes do.
    """
    sizes = parse_sizes(shapes or {}, network.dtypes)
    opened = sizes.shapes if sizes is not None else {}
    types = input_types(network, {n: s for n, s in (shapes or {}).items() if n not in opened})
    for name in opened:
        need(
            name in types,
            f"the network has no input '{name}'{nearest(name, types)}; its inputs: {', '.join(types)}",
            InputError,
        )
    return types, sizes
