"""Verification of engines node by node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
import anylayer.inspect.verify as verifying
from anylayer.engines import load_engine
from anylayer.errors import EngineError
from anylayer.inspect.verify import verify
from tests.engine_names import GENERAL

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 } } }
layer { name: "low" type: "Power" bottom: "x" top: "a" power_param { scale: 0.5 shift: -4 } }
layer { name: "sig" type: "Sigmoid" bottom: "a" top: "b" }
layer { name: "const" type: "DummyData" top: "c" dummy_data_param { shape { dim: 1 dim: 3 dim: 4 } } }
layer { name: "sum" type: "Eltwise" bottom: "b" bottom: "c" top: "y" }
"""
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 3, 4)


@pytest.fixture
def net(tmp_path: Path) -> anylayer.Net:
    (tmp_path / "n.prototxt").write_text(NET)
    return anylayer.read(tmp_path / "n.prototxt")


@pytest.mark.parametrize("engine", GENERAL)
def test_every_node_is_compared(net: anylayer.Net, engine: str) -> None:
    checks = {c.name: c for c in verify(net, {"x": X}, engine)}
    assert list(checks) == ["low", "sig", "const", "sum"]
    assert all(c.ok for c in checks.values())
    assert checks["const"].note == "constant"
    assert checks["low"].scale == pytest.approx(4.5)


def test_differing_node_is_named(net: anylayer.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    real = verifying.load_engine("onnxruntime")

    class Off:
        @staticmethod
        def compile(graph, threads):
            program = real.compile(graph, threads)
            wrong = any(op.op == "Sigmoid" for op in graph.ops)
            return lambda arrays: [r + np.float32(1e-3) if wrong else r for r in program(arrays)]

    monkeypatch.setattr(verifying, "load_engine", lambda name: Off)
    checks = list(verify(net, {"x": X}))
    assert [c.name for c in checks if not c.ok] == ["sig"]
    assert next(c for c in checks if not c.ok).error == pytest.approx(1e-3, rel=1e-3)


SATURATED = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 } } }
layer { name: "sig" type: "Sigmoid" bottom: "x" top: "b" }
"""


def test_fault_that_a_saturated_output_hides_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "n.prototxt").write_text(SATURATED)
    net = anylayer.read(tmp_path / "n.prototxt")
    monkeypatch.setattr(verifying, "load_engine", lambda name: Steps)
    (hidden,) = verify(net, {"x": np.full((1, 3, 4), 99, np.float32)})
    assert not hidden.ok and not hidden.tells and hidden.on_noise
    (seen,) = verify(net, {"x": X})
    assert not seen.ok and seen.tells and not seen.on_noise


class Steps:
    """An engine that computes a step in place of a sigmoid."""

    @staticmethod
    def compile(graph, threads):
        return lambda arrays: [(x > 0).astype(np.float32) for x in arrays]


class Counting:
    """ONNX Runtime that records the operators of each graph, and refuses graphs with more than `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit, self.graphs = limit, []

    def compile(self, graph, threads):
        self.graphs.append([op.op for op in graph.ops])
        if len(graph.ops) > self.limit:
            raise EngineError("too many operators")
        return load_engine("onnxruntime").compile(graph, threads)


@pytest.mark.parametrize("limit", [99, 2])
def test_nodes_are_compiled_together_or_alone(
    net: anylayer.Net, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    engine = Counting(limit)
    monkeypatch.setattr(verifying, "load_engine", lambda name: engine)
    values: dict[str, np.ndarray] = {}
    checks = list(verify(net, {"x": X}, value_names={"before": "a"}, values=values))
    assert [c.name for c in checks] == ["low", "sig", "const", "sum"] and all(c.ok for c in checks)
    assert len(engine.graphs) == (1 if limit == 99 else 4)
    np.testing.assert_allclose(values["before"], 0.5 * X - 4)


def test_large_nodes_are_not_kept_in_memory(net: anylayer.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Counting(99)
    monkeypatch.setattr(verifying, "load_engine", lambda name: engine)
    monkeypatch.setattr(verifying, "_BYTES", 1)
    assert all(c.ok for c in verify(net, {"x": X}))
    assert len(engine.graphs) == 3
