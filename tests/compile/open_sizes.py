"""Trace functions with open sizes, and compare their graph with NumPy at other sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.compile.symbolic import Trace, for_every_size, simplify_sized
from anylayer.graph import Graph
from anylayer.graph.guards import symbolic_trace
from anylayer.graph.open_sizes import parse_sizes
from anylayer.network import TensorType
from anylayer.testing import assert_same
from anylayer.tracing import call_user, trace
from anylayer.tracing.substitution import substitute_numpy
from tests.engine_names import program_of
from tests.optimize.rewriting import ENGINES, Function, noise

Shape = Sequence[int | str]


def traces(
    function: Function, shapes: Sequence[Shape], *choices: Mapping[str, int]
) -> tuple[list[Trace], Mapping[str, tuple[int, int]]]:
    """Return the trace of a function at each choice of sizes, and the ranges of the sizes."""
    named = {f"x{i}": tuple(s) for i, s in enumerate(shapes)}
    sizes = parse_sizes(named)
    assert sizes is not None
    fixed = {n: TensorType.of(s) if n not in sizes.shapes else None for n, s in named.items()}
    found = []
    for symbols in choices:
        types = sizes.symbolic_types(fixed, symbols)
        with symbolic_trace(sizes.ranges) as recorded, substitute_numpy():
            graph = trace(lambda xs: [call_user(function, *xs)], [t for t in types.values() if t is not None])
        found.append(Trace(graph, symbols, tuple(recorded.guards), recorded.ranges))
    return found, found[-1].ranges


def unified(
    function: Function, *shapes: Shape, first: Mapping[str, int], second: Mapping[str, int]
) -> tuple[Graph, list[str]]:
    """Return the graph for every size, and the guards of the first trace."""
    (a, b), ranges = traces(function, shapes, first, second)
    return for_every_size(a, b, ranges, simplify_sized), list(map(str, a.guards))


def check_sizes(
    function: Function,
    *shapes: Shape,
    first: Mapping[str, int],
    second: Mapping[str, int],
    others: Sequence[Mapping[str, int]],
) -> Graph:
    """Assert that the graph computes what the function computes, at sizes that were not traced; return it."""
    graph, _ = unified(function, *shapes, first=first, second=second)
    named = parse_sizes({f"x{i}": tuple(s) for i, s in enumerate(shapes)})
    assert named is not None
    programs = [(engine, program_of(graph, engine)) for engine in ENGINES]
    for symbols in others:
        arrays = [
            noise(*(e.value(symbols) for e in named.shapes[f"x{i}"]) if f"x{i}" in named.shapes else shape)
            for i, shape in enumerate(shapes)
        ]
        want = np.asarray(function(*(x.copy() for x in arrays)))
        for engine, run in programs:
            assert_same(run(arrays)[0], want, f"{engine} at {dict(symbols)}")
    return graph


def batches(function: Function, *shape: int) -> Graph:
    """Assert that the graph with an open batch equals the function for 1, 2 and 5 samples; return it."""
    others: list[Any] = [{"N": n} for n in (1, 2, 5)]
    return check_sizes(function, ("N", *shape), first={"N": 2}, second={"N": 3}, others=others)
