"""The recorded outputs of TensorFlow: the cases of tests/data/tensorflow/operations.npz."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.testing import assert_same
from tests.engine_names import ALL
from tests.layers import harness

FILE = Path(__file__).parents[2] / "data" / "tensorflow" / "operations.npz"


@dataclass(frozen=True)
class Recorded:
    """A graph, its inputs, and the outputs that TensorFlow computed."""

    name: str
    graph: bytes
    inputs: list[Any]
    outputs: dict[str, Any]


@cache
def recorded() -> dict[str, Recorded]:
    """Return every case by name."""
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


WIDER = {"Tan": 3e-5, "FloorMod": 3e-4}
"""Tolerances of functions that OpenVINO computes less exactly."""


def as_tensorflow(*operations: str, engines: Any = ALL) -> Any:
    """Return a test that these operations match TensorFlow in every recorded case and on every engine."""
    mine = [name for name in recorded() if name.split()[0] in operations]
    assert {name.split()[0] for name in mine} == set(operations), "an operation is not recorded"

    @pytest.mark.parametrize("engine", engines)
    @pytest.mark.parametrize("name", mine)
    def test(name: str, engine: str, tmp_path: Path) -> None:
        case = recorded()[name]
        path = tmp_path / "graph.pb"
        path.write_bytes(case.graph)
        model = anylayer.read(path).compile(engine, threads=1)
        assert not model.host_calls
        got = model({f"in{i}": x for i, x in enumerate(case.inputs)})
        assert sorted(got) == sorted(case.outputs)
        for output, want in case.outputs.items():
            wider = WIDER.get(name) if engine == "openvino" else None
            assert_same(got[output], want, f"{name}, {output}", wider)

    return test


def rejects(type: str, attr: Any = None, *inputs: Any, text: str, tops: int = 1) -> Any:
    """Return a test that an operation refuses these attributes or inputs with a message that contains `text`."""
    return harness.rejects(
        type, attr, inputs=[np.asarray(x) for x in inputs], text=text, tops=tops, format="tensorflow"
    )
