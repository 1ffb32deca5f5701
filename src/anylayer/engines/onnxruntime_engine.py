"""ONNX Runtime: weights are shared with NumPy, not copied."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from anylayer.errors import EngineError
from anylayer.network import Array
from anylayer.tracing import Graph
from anylayer.writers.onnx import to_onnx

_LARGE = 1024


class OnnxRuntimeProgram:
    """A session over one graph."""

    def __init__(self, graph: Graph, threads: int | None) -> None:
        shared: dict[str, Any] = {}

        def external(name: str, array: Array) -> bool:
            if array.nbytes < _LARGE or array.dtype.kind not in "fiu":
                return False
            shared[name] = ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            return True

        model = to_onnx(graph, external=external)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads or 0
        options.log_severity_level = 3
        for name, value in shared.items():
            options.add_initializer(name, value)
        self._shared = shared  # the session reads this memory as long as it lives
        with tempfile.TemporaryDirectory(prefix="anylayer-") as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(model.SerializeToString())
            (path.parent / "weights").write_bytes(b"\0")  # what an external initializer names must exist
            try:
                self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            except Exception as error:
                raise EngineError(f"engine 'onnxruntime' refuses the graph: {error}") from error
        self._inputs = [i.name for i in self._session.get_inputs()]
        self._outputs = [o.name for o in self._session.get_outputs()]

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        feed = {n: x if x.flags.c_contiguous else np.ascontiguousarray(x) for n, x in zip(self._inputs, inputs)}
        results: list[Array] = self._session.run(self._outputs, feed)
        return results


def compile(graph: Graph, threads: int | None = None) -> OnnxRuntimeProgram:
    """Compile a graph; None lets ONNX Runtime choose the number of threads."""
    return OnnxRuntimeProgram(graph, threads)
