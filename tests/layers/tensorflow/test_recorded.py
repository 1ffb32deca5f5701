"""Every operation against what TensorFlow itself computed, on every engine."""

from __future__ import annotations

from pathlib import Path

import pytest

import anylayer
from anylayer.testing import assert_same
from tests.layers.tensorflow.recorded import names, recorded

WIDER = {"Tan": 3e-5, "FloorMod": 3e-4}
"""OpenVINO's own functions, less exact than the rest."""
HOST = {"Where"}
"""What no engine can hold: its size depends on data."""


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime", "openvino"])
@pytest.mark.parametrize("name", list(names()))
def test_as_tensorflow(name: str, engine: str, tmp_path: Path) -> None:
    case = recorded()[name]
    path = tmp_path / "graph.pb"
    path.write_bytes(case.graph)
    net = anylayer.read(path)
    if name in HOST and engine != "numpy":
        with pytest.warns(UserWarning, match="runs in Python"):
            model = net.compile(engine, threads=1)
    else:
        model = net.compile(engine, threads=1)
    assert not model.host_calls or name in HOST
    got = model({f"in{i}": x for i, x in enumerate(case.inputs)})
    assert sorted(got) == sorted(case.outputs)
    for output, want in case.outputs.items():
        assert_same(got[output], want, f"{name}, {output}", WIDER.get(name) if engine == "openvino" else None)
