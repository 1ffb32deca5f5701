"""OpenVINO on the CPU, in float32 (its own choice on some machines would be bfloat16)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.engines.limits import need_few
from anylayer.errors import EngineError
from anylayer.libraries.openvino import ov, shared_core
from anylayer.network import Array
from anylayer.tracing import Graph, Value
from anylayer.writers.onnx import to_onnx

PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
_LARGE = 1 << 16
_DIRECT = 1 << 14
_MOST = 3000


def _writable(array: Array) -> Array:
    """The array as OpenVINO shares it: contiguous, over memory that may be written (it never is)."""
    if array.flags.c_contiguous:
        view: Array = array.view()
        try:
            view.flags.writeable = True
            return view
        except ValueError:  # read-only memory
            pass
    return np.array(array, order="C")


class OpenVinoProgram:
    """A compiled model with one infer request a thread."""

    def __init__(self, graph: Graph, threads: int | None, precision: str = "float32") -> None:
        need_few(graph, "openvino", _MOST)
        config: dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": PRECISIONS[precision],
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,
        }
        if threads:
            config["INFERENCE_NUM_THREADS"] = threads
        self._dtypes = [v.dtype for v in graph.outputs]
        self._weights: list[Array] = []
        try:
            self._model = shared_core().compile_model(self._read(graph), "CPU", config)
        except Exception as error:
            raise EngineError(f"engine 'openvino' refuses the graph: {error}") from error
        places = {name: i for i, port in enumerate(self._model.inputs) for name in port.get_names()}
        self._places = [
            places.get(value.name) for value in graph.inputs
        ]  # None: OpenVINO drops what nothing reads
        self._direct = [_direct_shape(port, dtype) for port, dtype in zip(self._model.outputs, self._dtypes)]
        self._local = threading.local()

    def _read(self, graph: Graph) -> Any:
        """The model, with large weights as constants over NumPy's memory instead of a copy in the protobuf."""
        lifted: dict[str, Array] = {}

        def lift(name: str, value: Value) -> bool:
            if value.const is None or value.const.nbytes < _LARGE or value.dtype != np.float32:
                return False
            lifted[name] = value.const
            return True

        model = shared_core().read_model(to_onnx(graph, lift=lift).SerializeToString())
        for node in model.get_ops():
            if node.get_type_name() == "TopK" and node.output(1).get_target_inputs():
                node.set_attribute("stable", True)  # of equal values the lower index first, as ONNX has it; slow
        if not lifted:
            return model
        parameters = {p.get_friendly_name(): p for p in model.get_parameters()}
        for name, array in lifted.items():
            held = _writable(array)
            self._weights.append(held)
            constant = ov.op.Constant(ov.Tensor(held, shared_memory=True), shared_memory=True)
            constant.set_friendly_name(name)
            parameter = parameters[name]
            ov.utils.replace_node(parameter, constant)
            model.remove_parameter(parameter)
        model.validate_nodes_and_infer_types()
        return model

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        feed = {i: x for i, x in zip(self._places, inputs) if i is not None}
        try:
            request = getattr(self._local, "request", None)
            if request is None:
                request = self._local.request = self._model.create_infer_request()
            arrays = self._targets(request, out)
            results = request.infer(feed, share_inputs=True, share_outputs=True).to_tuple()
        except Exception as error:
            raise EngineError(f"engine 'openvino' stops: {error}") from error
        outputs: list[Array] = []
        for i, (result, dtype) in enumerate(zip(results, self._dtypes)):
            array = arrays[i]
            if array is None:
                array = np.array(result, dtype)
            elif self._direct[i] is None:
                np.copyto(array, result)
            outputs.append(array)
        return outputs

    def _targets(self, request: Any, out: Sequence[Array | None] | None) -> list[Array | None]:
        """The arrays for the outputs: the caller's, and new ones for those that OpenVINO writes into directly."""
        arrays: list[Array | None] = []
        for i, shape in enumerate(self._direct):
            array = out[i] if out is not None else None
            if shape is not None:
                array = np.empty(shape, self._dtypes[i]) if array is None else array
                request.set_output_tensor(i, ov.Tensor(array, shared_memory=True))
            arrays.append(array)
        return arrays


def _direct_shape(port: Any, dtype: np.dtype[Any]) -> tuple[int, ...] | None:
    """The shape of an output that is worth writing into an array of ours; None where a copy is cheaper, or its
    size depends on data."""
    if port.get_partial_shape().is_dynamic or port.get_element_type().to_dtype() != dtype:
        return None
    shape = tuple(port.get_shape())
    return shape if math.prod(shape) * dtype.itemsize >= _DIRECT else None


def compile(graph: Graph, threads: int | None = None, precision: str = "float32") -> OpenVinoProgram:
    """Compile a graph: see Engine.compile."""
    return OpenVinoProgram(graph, threads, precision)


def open_file(path: Path) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """A model that OpenVINO reads, as a function of its inputs by name, in float32."""
    try:
        config = {"INFERENCE_PRECISION_HINT": PRECISIONS["float32"]}
        model = shared_core().compile_model(shared_core().read_model(str(path)), "CPU", config)
    except Exception as error:
        raise EngineError(f"engine 'openvino' refuses the file: {error}", path.name) from error
    known = {name for port in model.inputs for name in port.get_names()}

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        feed = {name: array for name, array in inputs.items() if name in known}
        try:
            results = model.create_infer_request().infer(feed)
        except Exception as error:
            raise EngineError(f"engine 'openvino' stops: {error}", path.name) from error
        return {name: np.array(results[port]) for port in model.outputs for name in port.get_names()}

    return run
