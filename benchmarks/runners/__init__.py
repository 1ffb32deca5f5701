"""What is measured: one file per engine or tool, which worker.py runs in a process of its own.

A module has `load(spec) -> Loaded`. Only the module anylayer imports anylayer: the environment of the other tools
does not have it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass
class Loaded:
    """A network that can be called. `calls` are the ways to run one frame, `outputs` returns one frame's outputs
    by name, `facts` is what the report states about it.
    """

    calls: dict[str, Callable[[], Any]]
    outputs: Callable[[str], dict[str, np.ndarray]]
    facts: dict[str, Any] = field(default_factory=dict)


def read_inputs(path: str) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file, each with memory of its own."""
    with np.load(path) as file:
        return {name: np.ascontiguousarray(file[name]) for name in file.files}


_SECONDS, _LEAST = 0.7, 10
"""The time for which calls take turns, and the least number of turns."""


def shortest(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the shortest time of each call in milliseconds. The calls take turns, each twice, because the call
    before it decides what is in the processor's caches. A call that returns a float states its own seconds."""
    best = dict.fromkeys(calls, float("inf"))
    stop, turns = time.perf_counter() + _SECONDS, 0
    while turns < _LEAST or time.perf_counter() < stop:
        turns += 1
        for name, call in [turn for turn in calls.items() for _ in range(2)]:
            start = time.perf_counter()
            result = call()
            seconds = result if isinstance(result, float) else time.perf_counter() - start
            best[name] = min(best[name], 1e3 * seconds)
    return best
