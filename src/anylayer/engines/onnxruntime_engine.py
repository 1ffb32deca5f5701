"""ONNX Runtime on the CPU. The large weights of matrix products are shared with NumPy, not copied."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from anylayer.engines.limits import need_few
from anylayer.errors import EngineError
from anylayer.network import Array
from anylayer.tracing import Graph, Value
from anylayer.writers.onnx import to_onnx

PRECISIONS = ("float32",)
_LARGE = 1 << 16
_MOST = 20_000
_ALIGNMENT = 4096


def _products(graph: Graph) -> dict[int, int]:
    """The constants that only matrix products read, by id, with the most rows that are multiplied by one.

    Their data can be shared: the optimizer reads that of others (to reorder convolution weights, to fold), and
    looks for it in a file.
    """
    other: set[int] = set()
    rows: dict[int, int] = {}
    for op in graph.ops:
        for i, value in enumerate(op.inputs):
            if value is None or value.const is None:
                continue
            left = op.inputs[0]
            if op.op in ("MatMul", "Gemm") and i == 1 and left is not None and not op.attrs.get("transA"):
                dims = list(left.shape[:-1])
                count = math.prod(dims) if all(isinstance(d, int) for d in dims) else 2
                rows[id(value)] = max(rows.get(id(value), 0), count)
            else:
                other.add(id(value))
    return {key: count for key, count in rows.items() if key not in other}


class _Weights:
    """Where a model's large constants lie: shared with NumPy, or in a file beside the model."""

    SHARED, STORED = "shared", "stored"

    def __init__(self, graph: Graph, folder: Path) -> None:
        self.shared: dict[str, Any] = {}
        self.single_rows = True
        self._products = _products(graph)
        self._file = (folder / self.STORED).open("wb")
        (folder / self.SHARED).write_bytes(b"\0")  # what an external initializer names must exist

    def __call__(self, name: str, value: Value) -> tuple[str, int] | None:
        array = value.const
        if array is None or array.nbytes < _LARGE or array.dtype.kind not in "fiu":
            return None
        array = np.ascontiguousarray(array)
        rows = self._products.get(id(value))
        if rows is not None:
            self.single_rows &= rows == 1
            self.shared[name] = ort.OrtValue.ortvalue_from_numpy(array)
            return self.SHARED, 0
        offset = -self._file.tell() % _ALIGNMENT + self._file.tell()
        self._file.seek(offset)
        array.tofile(self._file)
        return self.STORED, offset

    def close(self) -> None:
        self._file.close()


class OnnxRuntimeProgram:
    """A session over one graph."""

    def __init__(self, graph: Graph, threads: int | None) -> None:
        need_few(graph, "onnxruntime", _MOST)
        options = _silent()
        options.intra_op_num_threads = threads or 0
        try:
            self._session = self._load(graph, options)
        except Exception as error:
            raise EngineError(f"engine 'onnxruntime' refuses the graph: {error}") from error
        self._inputs = [i.name for i in self._session.get_inputs()]
        self._outputs = [o.name for o in self._session.get_outputs()]

    def _load(self, graph: Graph, options: Any) -> Any:
        """The session, of files that are gone when it stands."""
        with tempfile.TemporaryDirectory(prefix="anylayer-") as name:
            folder = Path(name)
            weights = _Weights(graph, folder)
            (folder / "model.onnx").write_bytes(to_onnx(graph, external=weights).SerializeToString())
            weights.close()
            for initializer, value in weights.shared.items():
                options.add_initializer(initializer, value)
            if weights.shared and weights.single_rows:  # a packed copy pays only where it is used for many rows
                options.add_session_config_entry("session.disable_prepacking", "1")
            self._shared = weights.shared  # the session reads this memory as long as it lives
            return ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        try:
            if out is not None and any(buffer is not None for buffer in out):
                return self._into(inputs, out)
            results: list[Array] = self._session.run(self._outputs, dict(zip(self._inputs, inputs)))
            return results
        except Exception as error:
            raise EngineError(f"engine 'onnxruntime' stops: {error}") from error

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


def open_file(path: Path) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """An ONNX model as a function of its inputs by name."""
    try:
        session = ort.InferenceSession(str(path), _silent(), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EngineError(f"engine 'onnxruntime' refuses the file: {error}", path.name) from error
    names = [o.name for o in session.get_outputs()]

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            return dict(zip(names, session.run(names, dict(inputs))))
        except Exception as error:
            raise EngineError(f"engine 'onnxruntime' stops: {error}", path.name) from error

    return run


def _silent() -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options
