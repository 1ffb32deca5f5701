"""TensorRT on an NVIDIA GPU, through its own package. It has only been tested with a mock of the package.

TensorRT gets the ONNX form of a graph, whose types it keeps. It compiles for fixed sizes, which takes seconds to
minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from anylayer.compile.limits import need_compilable, size
from anylayer.corrections import corrected
from anylayer.engines._common import device_number
from anylayer.errors import EngineError, given, need
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.writers._onnx_half import to_half
from anylayer.writers._onnx_model import to_onnx

PRECISIONS = ("float32", "float16")
DEVICE_PRECISIONS = PRECISIONS
GENERAL = True
ON_CPU = False
_MAX_OPERATORS = 20_000
"""A graph of more operators is refused, because it compiles for minutes."""


class TensorRtProgram:
    """An engine of TensorRT for one graph. Inputs and outputs are arrays in the CPU's memory."""

    def __init__(self, graph: Graph, number: int, precision: str) -> None:
        packages = _packages()
        graph = corrected(graph, "tensorrt").graph
        need_compilable(graph, "tensorrt", _MAX_OPERATORS)
        for value in (*graph.inputs, *graph.outputs):
            fixed = all(isinstance(d, int) for d in value.shape)
            need(fixed, f"engine 'tensorrt' computes fixed sizes only, not {value.type}", EngineError)
        self._outputs = [v.type for v in graph.outputs]
        types = [v.type for v in (*graph.inputs, *graph.outputs)]
        model = to_half(graph) if precision == "float16" else to_onnx(graph)
        names = [v.name for v in (*model.graph.input, *model.graph.output)]
        try:
            self._buffers = packages.Buffers(number, [*map(size, types)])
            self._engine = _build(model.SerializeToString(), packages.trt)
            self._context = self._engine.create_execution_context()
        except EngineError as error:
            raise EngineError(
                f"engine 'tensorrt' cannot use device 'cuda:{number}': {error}. Run nvidia-smi to check the "
                "GPU and its driver"
            ) from None
        for name, kind, address in zip(names, types, self._buffers.addresses):
            dtype = self._engine.get_tensor_dtype(name)
            _need_type(name, kind, self._engine.get_tensor_shape(name), packages.trt.nptype(dtype))
            self._context.set_tensor_address(name, address)
        self._lock = threading.Lock()

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        results = [
            np.empty(kind.shape, kind.dtype) if buffer is None else buffer
            for kind, buffer in zip(self._outputs, out or [None] * len(self._outputs))
        ]
        held = [np.asarray(array, order="C") for array in inputs]
        with self._lock:
            self._buffers.select()
            for i, array in enumerate(held):
                self._buffers.fill(i, array)
            succeeded = self._context.execute_async_v3(self._buffers.stream)
            for i, array in enumerate(results, len(held)):
                self._buffers.read(i, array)
            self._buffers.wait()
        need(succeeded, "engine 'tensorrt' failed", EngineError)
        return results


def _packages() -> ModuleType:
    """Return libraries.tensorrt. Raises EngineError where TensorRT or CUDA's package is not installed."""
    try:
        from anylayer.libraries import tensorrt
    except ImportError as error:
        raise EngineError(f"engine 'tensorrt' needs: pip install tensorrt cuda-bindings ({error})") from error
    return tensorrt


def _build(model: bytes, trt: Any) -> Any:
    """Return TensorRT's engine for an ONNX model. Raises EngineError with what TensorRT says."""
    messages: list[str] = []

    class Log(trt.ILogger):  # type: ignore[misc]  # TensorRT has no types
        """A logger for TensorRT that keeps the errors."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.Severity.INTERNAL_ERROR, trt.ILogger.Severity.ERROR):
                messages.append(message)

    log = Log()
    try:
        builder = trt.Builder(log)
        flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        network = builder.create_network(flags)
        parser = trt.OnnxParser(network, log)
        parsed = parser.parse(model)
        messages += [str(parser.get_error(i).desc()) for i in range(parser.num_errors)]
        config = builder.create_builder_config()
        config.clear_flag(trt.BuilderFlag.TF32)  # it keeps 10 bits of the mantissas
        plan = builder.build_serialized_network(network, config) if parsed else None
        engine = trt.Runtime(log).deserialize_cuda_engine(plan) if plan is not None else None
    except Exception as error:
        raise EngineError(f"TensorRT reports: {' '.join([*messages, str(error)])}") from error
    return given(engine, f"TensorRT refuses the graph: {' '.join(messages)}", EngineError)


def _need_type(name: str, kind: TensorType, shape: Sequence[int], dtype: Any) -> None:
    """Raise EngineError where TensorRT has another type for an input or output than the graph."""
    actual = TensorType(tuple(shape), np.dtype(dtype))
    rule = f"engine 'tensorrt' computes '{name}' as {actual}, expected {kind}"
    need((actual.shape, actual.dtype) == (tuple(kind.shape), kind.dtype), rule, EngineError)


def compile(graph: Graph, threads: int | None = None, precision: str = "float32") -> TensorRtProgram:
    """Compile a graph for the first GPU: see Engine.compile."""
    return compile_on(graph, "cuda", threads, precision)


def devices() -> list[str]:
    """Return ["cuda"] if TensorRT is installed. A missing GPU is detected when a graph is compiled."""
    return ["cuda"] if find_spec("tensorrt") is not None else []


def compile_on(graph: Graph, device: str, threads: int | None, precision: str) -> TensorRtProgram:
    """Compile a graph for a GPU: see engines.HasDevices."""
    return TensorRtProgram(graph, device_number("tensorrt", device, "cuda"), precision)
