"""OpenVINO, in float32 unless asked otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino as ov

from anylayer.errors import EngineError
from anylayer.network import Array
from anylayer.tracing import Graph
from anylayer.writers.onnx import to_onnx

_core: Any = None


class OpenVinoProgram:
    """A compiled model with one infer request a thread."""

    def __init__(self, graph: Graph, threads: int | None) -> None:
        global _core
        if _core is None:
            _core = ov.Core()
        config: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        if threads:
            config["INFERENCE_NUM_THREADS"] = threads
        try:
            model = _core.read_model(to_onnx(graph).SerializeToString())
            self._model = _core.compile_model(model, "CPU", config)
        except Exception as error:
            raise EngineError(f"engine 'openvino' refuses the graph: {error}") from error
        self._dtypes = [v.dtype for v in graph.outputs]
        self._request = self._model.create_infer_request()

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        feed = [np.ascontiguousarray(x) for x in inputs]
        results = self._request.infer(feed)
        return [np.array(r).astype(d, copy=False) for r, d in zip(results.to_tuple(), self._dtypes)]


def compile(graph: Graph, threads: int | None = None) -> OpenVinoProgram:
    """Compile a graph; None lets OpenVINO choose the number of threads."""
    return OpenVinoProgram(graph, threads)
