"""ONNX Runtime on the CPU. The large weights of matrix products are shared with NumPy, not copied."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from anylayer.errors import EngineError
from anylayer.network import Array
from anylayer.tracing import Graph, Value
from anylayer.writers.onnx import to_onnx

PRECISIONS = ("float32",)
_LARGE = 1 << 16


def _only_multiplied(graph: Graph) -> set[int]:
    """Ids of the constants that only matrix products read.

    Their data can be shared: the optimizer reads that of others (to reorder convolution weights, to fold), and
    looks for it in a file.
    """
    other: set[int] = set()
    found: set[int] = set()
    for op in graph.ops:
        for i, value in enumerate(op.inputs):
            if value is not None and value.const is not None:
                (found if op.op in ("MatMul", "Gemm") and i == 1 else other).add(id(value))
    return found - other


class OnnxRuntimeProgram:
    """A session over one graph."""

    def __init__(self, graph: Graph, threads: int | None) -> None:
        shared: dict[str, Any] = {}
        products = _only_multiplied(graph)

        def external(name: str, value: Value) -> bool:
            if value.const is None or id(value) not in products or value.const.nbytes < _LARGE:
                return False
            shared[name] = ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value.const))
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
        if out is not None and any(buffer is not None for buffer in out):
            return self._into(inputs, out)
        results: list[Array] = self._session.run(self._outputs, dict(zip(self._inputs, inputs)))
        return results

    def _into(self, inputs: Sequence[Array], out: Sequence[Array | None]) -> list[Array]:
        binding = self._session.io_binding()
        for name, array in zip(self._inputs, inputs):
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
        for name, buffer in zip(self._outputs, out):
            if buffer is None:
                binding.bind_output(name)
            else:
                binding.bind_ortvalue_output(name, ort.OrtValue.ortvalue_from_numpy(buffer))
        self._session.run_with_iobinding(binding)
        values = binding.get_outputs()
        return [v.numpy() if b is None else b for v, b in zip(values, out)]


def compile(graph: Graph, threads: int | None = None, precision: str = "float32") -> OnnxRuntimeProgram:
    """Compile a graph: see Engine.compile."""
    return OnnxRuntimeProgram(graph, threads)
