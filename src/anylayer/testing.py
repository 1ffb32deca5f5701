"""Checks for tests of layers and operators, this project's and yours: compare NumPy with every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.engines import general, load_engine
from anylayer.graph import Graph
from anylayer.network import Array, Function, TensorType
from anylayer.numerics import TOLERANCE, absolute_errors, difference_text, scale_of
from anylayer.tracing import trace


def assert_same(actual: Array, want: Array, what: str = "", tolerance: float | None = None) -> None:
    """Raise AssertionError unless shapes and dtypes are equal and the values match within the tolerance.

    actual, want: the arrays to compare. what: text that leads the message. tolerance: relative to the largest
    absolute value of `want`; by default that of its dtype in TOLERANCE. Integers and booleans must be equal.
    """
    if actual.shape != want.shape or actual.dtype != want.dtype:
        raise AssertionError(
            f"{what}: {actual.dtype}{list(actual.shape)}, expected {want.dtype}{list(want.shape)}"
        )
    if want.size == 0:
        return
    if want.dtype.kind not in "fc":
        wrong = int((actual != want).sum())
        if wrong:
            raise AssertionError(f"{what}: {wrong} of {want.size} values differ")
        return
    limit = TOLERANCE[want.dtype.name] if tolerance is None else tolerance
    errors, scale = absolute_errors(actual, want), scale_of(want)
    worst = float(errors.max())
    if worst > limit * scale:
        place = np.unravel_index(int(errors.argmax()), want.shape)
        raise AssertionError(
            f"{what}: {difference_text(worst, scale)} at {tuple(map(int, place))}: "
            f"{actual[place]!r}, expected {want[place]!r}"
        )


def check_function(
    function: Function, *inputs: Array, engines: Sequence[str] | None = None, tolerance: float | None = None
) -> Graph:
    """Compare `function(*inputs)` in NumPy with its trace on each engine, and return the traced graph.

    The function returns an array, or a tuple or list of arrays. engines: by default the installed ones that run
    every graph. Raises EngineError where there are none, AssertionError where shapes, dtypes or values differ, and
    TraceError where the function cannot be traced.
    """

    def as_list(arrays: Sequence[Any]) -> list[Any]:
        result = function(*arrays)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    want = [np.asarray(w) for w in as_list([x.copy() for x in inputs])]
    graph = trace(as_list, [TensorType.of(x.shape, x.dtype) for x in inputs])
    if len(graph.outputs) != len(want):
        raise AssertionError(f"traced {len(graph.outputs)} outputs, NumPy returns {len(want)}")
    for value, array in zip(graph.outputs, want):
        if all(isinstance(d, int) for d in value.shape) and value.shape != array.shape:
            raise AssertionError(f"traced shape {value.shape}, NumPy returns {array.shape}")
        if value.dtype != array.dtype:
            raise AssertionError(f"traced dtype {value.dtype}, NumPy returns {array.dtype}")
    for engine in general() if engines is None else engines:
        results = run_graph(graph, inputs, engine)
        for i, (g, w) in enumerate(zip(results, want)):
            assert_same(g, w, f"{engine}, output {i}", tolerance)
    return graph


def run_graph(graph: Graph, inputs: Sequence[Array], engine: str) -> list[Array]:
    """Compile a traced graph on an engine, run it once on one thread, and return its outputs."""
    return load_engine(engine).compile(graph, threads=1)(list(inputs))
