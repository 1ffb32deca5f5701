"""Helpers of the tests of rewrite rules: trace, simplify for an engine, list operators, compare with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.testing import assert_same, run_graph
from anylayer.tracing import trace
from tests.engine_names import GENERAL

ENGINES = GENERAL
Function = Callable[..., Any]


def f(value: float) -> np.float32:
    """Return a float32 number."""
    return np.float32(value)


def noise(*shape: int, seed: int = 0) -> Array:
    """Return seeded normal noise in float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def traced(function: Function, *inputs: Array) -> Graph:
    """Return the graph of a function of arrays, as it is traced."""
    return trace(lambda xs: [function(*xs)], [TensorType.of(x.shape, x.dtype) for x in inputs])


def kinds(graph: Graph) -> list[str]:
    """Return the names of a graph's operators, sorted."""
    return sorted(o.op for o in graph.ops)


def rewritten(function: Function, *inputs: Array, engine: str | None, exact: bool = False) -> list[str]:
    """Return the names of the operators of a simplified function, sorted."""
    return kinds(simplify(traced(function, *inputs), engine, exact=exact))


def check(function: Function, *inputs: Array, engines: Sequence[str] = ENGINES, exact: bool = False) -> None:
    """Assert that the simplified function returns what NumPy returns, of the same type, on each engine."""
    want = np.asarray(function(*[x.copy() for x in inputs]))
    for engine in engines:
        graph = simplify(traced(function, *inputs), engine, exact=exact)
        assert (graph.outputs[0].shape, graph.outputs[0].dtype) == (want.shape, want.dtype)
        assert_same(run_graph(graph, inputs, engine)[0], want, f"{engine}: {kinds(graph)}")
