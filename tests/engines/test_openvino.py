"""OpenVINO raises its errors with any number of threads.

With one thread, a synchronous call of OpenVINO 2026.4 drops the exceptions of its operators and returns memory
that was never written.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from anylayer.engines import load_engine
from anylayer.engines.openvino import open_file
from anylayer.errors import EngineError
from anylayer.graph import Dim
from anylayer.libraries.openvino import shared_core
from anylayer.testing import run_graph
from anylayer.tracing import record
from anylayer.writers._onnx_model import to_onnx
from tests.corrections.harness import traced

pytest.importorskip("openvino", reason="openvino is not installed")


def two_rows_of(x: Any, kept: Any) -> Any:
    """Return the selected numbers as an array of shape (2, 2), which only four numbers fit."""
    some = record("Compress", [x, kept], (Dim("some", 6),), np.float32, axis=0)
    return record("Reshape", [some, np.array([2, 2])], (2, 2), np.float32)


def cumulated(x: Any, axis: Any) -> Any:
    """Return cumulated sums along an axis that is an input: an error that depends on data, with static sizes."""
    return record("CumSum", [x, axis], x.shape, np.float32)


X = np.arange(6, dtype=np.float32)
FOUR, THREE = np.array([1, 0, 1, 1, 0, 1], bool), np.array([1, 0, 1, 1, 0, 0], bool)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("function", "good", "bad", "reason"),
    [
        (two_rows_of, FOUR, THREE, "conflicts with the reshape pattern"),
        (cumulated, np.array(0), np.array(1), "axis with a value out of range: 1"),
    ],
)
def test_errors_that_depend_on_data_are_raised(
    function: Any, good: Any, bad: Any, reason: str, threads: int
) -> None:
    program = load_engine("openvino").compile(traced(function, X, good), threads)
    want = X[FOUR].reshape(2, 2) if function is two_rows_of else X.cumsum()
    for _ in range(2):
        assert np.array_equal(program([X, good])[0], want)
        with pytest.raises(EngineError, match=reason):
            program([X, bad])


def test_errors_of_files_are_raised_with_one_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph, path = traced(two_rows_of, X, FOUR), tmp_path / "m.onnx"
    path.write_bytes(to_onnx(graph).SerializeToString())
    core = shared_core()

    def with_one_thread(model: Any, device: str, config: dict[str, Any]) -> Any:
        return core.compile_model(model, device, {**config, "INFERENCE_NUM_THREADS": 1})

    stand_in = SimpleNamespace(read_model=core.read_model, compile_model=with_one_thread)
    monkeypatch.setattr("anylayer.engines.openvino.shared_core", lambda: stand_in)
    call, (x, kept) = open_file(path), [v.name for v in graph.inputs]
    assert np.array_equal(call({x: X, kept: FOUR})[graph.outputs[0].name], X[FOUR].reshape(2, 2))
    with pytest.raises(EngineError, match="conflicts with the reshape pattern"):
        call({x: X, kept: THREE})


@pytest.mark.parametrize("op", ["ReduceSum", "Slice"])
def test_axes_without_elements(op: str) -> None:
    """OpenVINO removes an input without elements: it has no effect on the outputs."""

    def function(x: Any, axes: Any) -> Any:
        limits = [] if op == "ReduceSum" else [axes, axes]
        return record(op, [x, *limits, axes], x.shape if limits else (1, 1), np.float32)

    x, axes = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(0, np.int64)
    (got,) = run_graph(traced(function, x, axes), [x, axes], "openvino")
    assert np.array_equal(got, x if op == "Slice" else x.sum(keepdims=True))
