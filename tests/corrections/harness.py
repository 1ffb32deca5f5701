"""Helpers of the tests of corrections: graphs of functions, run on an engine as a network is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.engines import load_engine
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.tracing import trace


def traced(function: Callable[..., Any], *inputs: Array) -> Graph:
    """Return the graph of a function of arrays that returns an array or a list of arrays."""

    def listed(arrays: list[Any]) -> list[Any]:
        result = function(*arrays)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    return trace(listed, [TensorType.of(x.shape, x.dtype) for x in inputs])


def run(engine: str, function: Callable[..., Any], *inputs: Array) -> list[Array]:
    """Run a function of arrays on an engine."""
    return load_engine(engine).compile(traced(function, *inputs), 1)(list(inputs))


def in_process(code: str) -> str:
    """Run code in another process and return what it prints. Fail the test if the process crashes."""
    head = (
        "import numpy as np\n"
        "from anylayer.errors import AnyLayerError\n"
        "from anylayer.tracing import record\n"
        "from tests.corrections.harness import run\n"
    )
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, timeout=120, cwd=root
    )
    assert done.returncode == 0, done.stderr[-500:] or f"the process dies: {done.returncode}"
    return done.stdout


def whole(low: int, high: int, *shape: int, dtype: Any = np.int64, seed: int = 0) -> Array:
    """Return seeded integers from low to high - 1."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def noise(*shape: int, seed: int = 0) -> Array:
    """Return seeded normal noise in float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
