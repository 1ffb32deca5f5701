"""What TensorFlow itself computed: the cases of tests/data/tensorflow/operations.npz."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[2] / "data" / "tensorflow" / "operations.npz"


@dataclass(frozen=True)
class Recorded:
    """A graph with its inputs and the outputs that TensorFlow gave."""

    name: str
    graph: bytes
    inputs: list[Any]
    outputs: dict[str, Any]


@cache
def recorded() -> dict[str, Recorded]:
    """Every case, by name."""
    with np.load(FILE) as file:
        index, data = json.loads(file["index"].tobytes()), file["data"].tobytes()

    def get(entry: Any) -> Any:
        dtype, shape, start = entry
        return np.frombuffer(data, dtype, int(np.prod(shape)), start).reshape(shape)

    return {
        e["name"]: Recorded(
            e["name"],
            get(e["graph"]).tobytes(),
            list(map(get, e["inputs"])),
            {name: get(o) for name, o in e["outputs"].items()},
        )
        for e in index
    }


def names() -> Iterator[str]:
    """The cases' names."""
    yield from recorded()
