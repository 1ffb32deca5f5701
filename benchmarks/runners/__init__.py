"""What is measured: one file for each engine or peer, run by worker.py in a process of its own.

A module has `load(spec) -> Loaded`. None but the anylayer one may import anylayer: the peers live in an
environment without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass
class Loaded:
    """A network ready to be called: `calls` are the ways of calling it (each one frame), `outputs` one frame's
    outputs by name, `facts` what the report should say of it."""

    calls: dict[str, Callable[[], Any]]
    outputs: Callable[[str], dict[str, np.ndarray]]
    facts: dict[str, Any] = field(default_factory=dict)


def read_inputs(path: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz, each owning its memory."""
    with np.load(path) as file:
        return {name: np.ascontiguousarray(file[name]) for name in file.files}
