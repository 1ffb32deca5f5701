"""NumPy functions as people write them around networks, and example inputs: one line per function.

Each function stands alone, because compilers read its source: it calls NumPy only, and has no defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Inputs = Callable[[np.random.Generator], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Case:
    """A function of arrays, and a function that returns its inputs from random numbers."""

    function: Callable[..., Any]
    inputs: Inputs

    @property
    def name(self) -> str:
        return self.function.__name__


def noise(*shapes: tuple[int, ...]) -> Inputs:
    """Return inputs of normal noise in float32."""
    return lambda random: [random.standard_normal(shape, np.float32) for shape in shapes]


def picture(*shapes: tuple[int, ...]) -> Inputs:
    """Return inputs of bytes."""
    return lambda random: [random.integers(0, 256, shape).astype(np.uint8) for shape in shapes]


def between(low: float, high: float, *shapes: tuple[int, ...]) -> Inputs:
    """Return inputs of uniform noise in float32."""
    return lambda random: [random.uniform(low, high, shape).astype(np.float32) for shape in shapes]


def boxes(*counts: int, scores: bool = False) -> Inputs:
    """Return boxes (x1, y1, x2, y2) of 10 to 120 pixels in a picture of 640 x 640; with `scores` in a fifth
    column."""

    def made(random: np.random.Generator) -> list[np.ndarray]:
        found = []
        for count in counts:
            corner = random.uniform(0, 520, (count, 2))
            parts = [corner, corner + random.uniform(10, 120, (count, 2))]
            parts += [random.permutation(count)[:, None] / count] if scores else []
            found.append(np.concatenate(parts, axis=1).astype(np.float32))
        return found

    return made


def cases() -> list[Case]:
    """Return all functions."""
    from benchmarks.functions import detection, pictures, values

    return [*pictures.CASES, *values.CASES, *detection.CASES]


def case(name: str) -> Case:
    """Return the function of this name."""
    return {one.name: one for one in cases()}[name]
