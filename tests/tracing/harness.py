"""Run many expressions as one graph per dtype and engine, because a session costs more than an expression."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from anylayer.graph import Graph
from anylayer.network import TensorType
from anylayer.testing import run_graph
from anylayer.tracing import trace

from .expressions import cases

NAMES = ("x", "y", "v", "p", "m", "k", "i", "s")


@lru_cache(None)
def inputs(dtype: str) -> dict[str, Any]:
    """Return the arrays that the expressions use, by name."""
    random = np.random.default_rng(5)

    def draw(*shape: int) -> Any:
        if dtype == "bool":
            return random.random(shape) < 0.6
        if dtype[0] == "f":
            return np.round(random.standard_normal(shape) * 2, 3).astype(dtype)
        return random.integers(0 if dtype[0] == "u" else -4, 6, shape).astype(dtype)

    x, y, v, s = draw(2, 3, 4), draw(3, 4), draw(4), draw(6, 6)
    p = np.abs(draw(2, 3, 4)) + draw(1)[0] * 0 + (1 if dtype != "bool" else True)
    return {
        "x": x,
        "y": y,
        "v": v,
        "p": p.astype(dtype),
        "m": random.random((2, 3, 4)) < 0.5,
        "k": np.array([2, 0, 1]),
        "i": random.integers(0, 4, (2, 3, 4)),
        "s": s,
    }


def evaluate(text: str, arrays: dict[str, Any]) -> Any:
    """Return the value of an expression."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return eval(text, {"np": np, **arrays})


@lru_cache(None)
def expected(dtype: str, text: str) -> Any:
    """Return NumPy's result: an array, or the exception that it raises."""
    try:
        return np.asarray(evaluate(text, {n: a.copy() for n, a in inputs(dtype).items()}))
    except Exception as error:
        return error


@lru_cache(None)
def traced(dtype: str, text: str) -> Any:
    """Return the graph of an expression, or the exception that tracing raises."""
    arrays = inputs(dtype)
    types = [TensorType.of(a.shape, a.dtype) for a in arrays.values()]
    try:
        return trace(lambda given: [evaluate(text, dict(zip(arrays, given)))], types)
    except Exception as error:
        return error


@lru_cache(None)
def results(dtype: str, engine: str) -> dict[str, Any]:
    """Return the engine's result for each expression of a dtype that can be traced: an array, or an exception."""
    arrays = inputs(dtype)
    texts = [t for d, t in cases() if d == dtype and isinstance(traced(d, t), Graph)]
    return _run(texts, dtype, engine, list(arrays.values()))


def _run(texts: list[str], dtype: str, engine: str, arrays: list[Any]) -> dict[str, Any]:
    whole = Graph()
    given = [whole.input(n, a.shape, a.dtype) for n, a in zip(NAMES, arrays)]
    whole.outputs = [whole.inline(traced(dtype, t), given)[0] for t in texts]
    try:
        return dict(zip(texts, run_graph(whole, arrays, engine)))
    except Exception as error:
        if len(texts) == 1:
            return {texts[0]: error}
        half = len(texts) // 2
        return _run(texts[:half], dtype, engine, arrays) | _run(texts[half:], dtype, engine, arrays)
