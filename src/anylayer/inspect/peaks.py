"""Measure what a machine can do: multiply-adds per second, and bytes per second."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from anylayer.engines import Program, load_engine
from anylayer.graph import Graph
from anylayer.inspect.costs import Peaks
from anylayer.network import Array

_SIZE = 512
"""Rows and columns of the matrices whose product is measured."""
_VALUES = 1 << 23
"""The number of values (32 MiB) of the array that is read and written."""
_SECONDS = 0.25
_LEAST = 4
_F4 = np.dtype(np.float32)


@lru_cache(None)
def measure_peaks(engine: str, threads: int | None) -> Peaks:
    """Return the peaks of an engine: the fastest of its runs of a matrix product, and of a ReLU of a large array.

    They are measured once in a process. For an engine that does not run every graph, and for "numpy", NumPy's
    functions are measured.
    """
    random = np.random.default_rng(0)
    x, weights = (random.random((_SIZE, _SIZE), np.float32) for _ in range(2))
    flat = np.ones(_VALUES, np.float32)
    if engine == "numpy" or not load_engine(engine).GENERAL:
        product = np.empty_like(x)
        copy = np.empty_like(flat)
        macs = _fastest(lambda: np.matmul(x, weights, out=product))
        moved = _fastest(lambda: np.maximum(flat, np.float32(0), out=copy))
        how = "NumPy's matmul and maximum"
    else:
        module = load_engine(engine)
        macs = _seconds_of(module.compile(_graph("MatMul", x.shape, weights), threads), [x])
        moved = _seconds_of(module.compile(_graph("Relu", flat.shape), threads), [flat])
        how = f"MatMul and Relu on {engine}"
    return Peaks(_SIZE**3 / macs, 2 * flat.nbytes / moved, how)


def _graph(op: str, shape: Sequence[int], *constants: Array) -> Graph:
    """Return a graph of one operator whose output has the shape of its input."""
    graph = Graph()
    inputs = [graph.input("x", shape, _F4), *(graph.constant(c, trusted=True) for c in constants)]
    graph.outputs = graph.emit(op, inputs, [(shape, _F4)], place="")
    return graph


def _seconds_of(program: Program, inputs: Sequence[Array]) -> float:
    """Return the seconds of the fastest run of a program that writes its outputs into given arrays."""
    out = [np.empty_like(inputs[0])]
    return _fastest(lambda: program(inputs, out))


def _fastest(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest of several calls."""
    best, stop, runs = float("inf"), time.perf_counter() + _SECONDS, 0
    while runs < _LEAST or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best
