"""Checks for layers and operators, for this project's tests and for a user's: NumPy against every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.tracing import trace

TOLERANCE = {"float32": 1e-5, "float64": 1e-6, "float16": 3e-3}
"""Largest error relative to the largest absolute value of an output, by dtype; integers and booleans: none."""


def assert_same(got: Array, want: Array, what: str = "", tolerance: float | None = None) -> None:
    """Fail unless shapes and dtypes are equal and values agree to the table's tolerance."""
    if got.shape != want.shape or got.dtype != want.dtype:
        raise AssertionError(f"{what}: {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}")
    if want.size == 0:
        return
    if want.dtype.kind not in "fc":
        wrong = int((got != want).sum())
        if wrong:
            raise AssertionError(f"{what}: {wrong} of {want.size} values differ")
        return
    limit = TOLERANCE[want.dtype.name] if tolerance is None else tolerance
    wide = np.abs(want[np.isfinite(want)].astype(np.float64))
    scale = max(float(wide.max(initial=0.0)), 1e-6)
    with np.errstate(invalid="ignore"):
        off = np.asarray(np.abs(got.astype(np.float64) - want.astype(np.float64)))
    off[(got == want) | (np.isnan(got) & np.isnan(want))] = 0
    worst = float(np.nan_to_num(off, nan=np.inf).max())
    if worst > limit * scale:
        place = np.unravel_index(int(np.nan_to_num(off, nan=np.inf).argmax()), want.shape)
        raise AssertionError(
            f"{what}: off by {worst:.3g} of {scale:.3g} at {tuple(map(int, place))}: "
            f"{got[place]!r}, expected {want[place]!r}"
        )


def check_function(
    function: Callable[..., Any],
    *inputs: Array,
    engines: Sequence[str] = ("onnxruntime", "openvino"),
    tolerance: float | None = None,
) -> Graph:
    """Compare `function(*inputs)` in NumPy with its traced graph on each engine; return the graph."""

    def listed(arrays: Sequence[Any]) -> list[Any]:
        result = function(*arrays)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    want = [np.asarray(w) for w in listed([x.copy() for x in inputs])]
    graph = trace(listed, [TensorType.of(x.shape, x.dtype) for x in inputs])
    if len(graph.outputs) != len(want):
        raise AssertionError(f"traced {len(graph.outputs)} outputs, NumPy gives {len(want)}")
    for value, array in zip(graph.outputs, want):
        if all(isinstance(d, int) for d in value.shape) and value.shape != array.shape:
            raise AssertionError(f"traced shape {value.shape}, NumPy gives {array.shape}")
        if value.dtype != array.dtype:
            raise AssertionError(f"traced dtype {value.dtype}, NumPy gives {array.dtype}")
    for engine in engines:
        got = run_graph(graph, inputs, engine)
        for i, (g, w) in enumerate(zip(got, want)):
            assert_same(g, w, f"{engine}, output {i}", tolerance)
    return graph


def run_graph(graph: Graph, inputs: Sequence[Array], engine: str) -> list[Array]:
    """Run a traced graph once on "onnxruntime" or "openvino"."""
    from anylayer.engines import load_engine

    return load_engine(engine).compile(graph, threads=1)(list(inputs))
