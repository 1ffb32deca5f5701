"""OpenVINO on the CPU. It computes in float32 unless asked otherwise, not in a machine's default bfloat16."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.compile.limits import need_compilable
from anylayer.corrections import corrected
from anylayer.corrections.chains import LENGTHS, REFUSAL, cut
from anylayer.engines import CountedProgram
from anylayer.engines._common import device_number, native_layers, need_shapes, output_shapes, with_calls
from anylayer.engines._counting import TimedProgram
from anylayer.engines._narrowing import narrow, need_range
from anylayer.engines._openvino_gpu import OPERATOR, PluginKernels, fits_plugin
from anylayer.engines._openvino_native import channels_last, has_operation
from anylayer.engines._openvino_profile import PerformanceCounts
from anylayer.engines._recycling import ArrayHolder, Recycled
from anylayer.errors import EngineError, need
from anylayer.graph import Graph, Value
from anylayer.graph.sizes import is_static
from anylayer.kernels.embedding import EmbeddedLibrary, Errors, is_embeddable
from anylayer.layer.native import NativeNode
from anylayer.libraries.openvino import ov, read_onnx, shared_core
from anylayer.network import Array, DType
from anylayer.writers._onnx_model import Lifted, to_onnx
from anylayer.writers.openvino import unsupported

PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
DEVICE_PRECISIONS = PRECISIONS
GENERAL = True
ON_CPU = True
_SHARED_BYTES = 1 << 16
"""Weights of this size or more are shared with NumPy instead of copied into the protobuf."""
_DIRECT_BYTES = 1 << 14
"""Inputs and outputs of this size or more are passed without a copy."""
_MAX_OPERATORS = 3000
"""A graph of more operators is refused, because it compiles for minutes."""
_TINY_VALUES = 1 << 12
"""A graph whose arrays have fewer values in total runs on one thread."""
_SIZES_CACHED = 16
"""The number of sizes of the inputs for which OpenVINO keeps the code that it has generated, where sizes are
open."""
_MAX_CACHED = 5000
"""OpenVINO's own limit on pieces of code. At 750 sizes of det1 a process grows by 380 MiB, with ours by 200."""
_DIVISION = "nonconvertable_divide_0"
"""The mark of a division that OpenVINO must not replace by a product with the reciprocal
(NonconvertibleDivide)."""


def _writable(array: Array) -> Array:
    """Return a view of the array that OpenVINO can share, or a copy where it cannot.

    OpenVINO shares contiguous, writable memory only. It does not write to it.
    """
    if array.flags.c_contiguous:
        view: Array = array.view()
        try:
            view.flags.writeable = True
            return view
        except ValueError:  # read-only memory
            pass
    return np.array(array, order="C")


def _operations(model: Any) -> Iterator[Any]:
    """Yield the operators of a model and of the bodies of its loops."""
    for node in model.get_ops():
        yield node
        if node.get_type_name() == "Loop":
            yield from _operations(node.get_function())


def _need_right_loops(graph: Graph) -> None:
    """Raise EngineError for loops in a version that computes them wrongly: 2026.3 returned one row for 28."""
    year, month = map(int, ov.__version__.split(".")[:2])
    need(
        (year, month) >= (2026, 4) or not any(o.op == "Loop" for o in graph.ops),
        f"OpenVINO {year}.{month} computes loops wrongly; pip install 'openvino>=2026.4'",
        EngineError,
    )


class OpenVinoProgram:
    """A compiled model of OpenVINO with one infer request per thread."""

    def __init__(
        self,
        graph: Graph,
        threads: int | None,
        precision: str = "float32",
        counts: PerformanceCounts | None = None,
        device: str = "CPU",
    ) -> None:
        fixed = corrected(graph, "openvino", checking=True)
        graph, self._checks = fixed.graph, fixed.checks
        need_compilable(graph, "openvino", _MAX_OPERATORS)
        _need_right_loops(graph)
        config: dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": PRECISIONS[precision],
            "PERFORMANCE_HINT": "LATENCY",
            "PERF_COUNT": counts is not None,
        }
        if device == "CPU":
            config["ENABLE_CPU_PINNING"] = False
        self._errors = Errors()
        layers = native_layers(graph)
        self._embedded: list[EmbeddedLibrary] = []
        self._kernels = PluginKernels(layers if device != "CPU" else [])
        if device == "CPU":
            graph, orders = channels_last(graph)
            self._embedded = [
                EmbeddedLibrary(layer, threads, self._errors, order) for layer, order in zip(layers, orders)
            ]
            graph = with_calls(graph, [embedded.address for embedded in self._embedded])
        else:
            graph = with_calls(graph, self._kernels.numbers, OPERATOR)
            config.update(self._kernels.config)
        threads = 1 if _tiny(graph) else threads
        if threads and device == "CPU":
            config["INFERENCE_NUM_THREADS"] = threads
        if not all(is_static(v.shape) for v in graph.inputs):
            config["CPU_RUNTIME_CACHE_CAPACITY"] = min(_SIZES_CACHED * len(graph.ops), _MAX_CACHED)
        self._dtypes = [v.dtype for v in graph.outputs]
        self._expected = output_shapes(graph.outputs)
        self._empty = [  # OpenVINO returns arrays of rank 0 for them
            (i, np.empty(v.shape, v.dtype))
            for i, v in enumerate(graph.outputs)
            if 0 in v.shape and is_static(v.shape)
        ]
        self._narrowed = narrow(graph.inputs, inputs=True), narrow(graph.outputs, inputs=False)
        self._weights: list[Array] = []
        try:
            model, compile_, self._model = self._compile_graph(graph, fixed.divisions, device, config)
            # The model holds the weights, so it is kept only where it may have to be compiled again.
            self._compile = compile_ if model.is_dynamic() else None
            self._waits = device == "CPU" and _loses_errors(self._model) and _can_fail(graph, model)
        except Exception as error:
            unsupported_ops = unsupported(graph, error)
            raise unsupported_ops or EngineError(f"engine 'openvino' refuses the graph: {error}") from error
        places = {name: i for i, port in enumerate(self._model.inputs) for name in port.get_names()}
        # None: OpenVINO drops an input that has no effect on the outputs, even if an operator reads it.
        self._places = [places.get(value.name) for value in graph.inputs]
        named = {place for place in self._places if place is not None}
        for port in (port for i, port in enumerate(self._model.inputs) if i not in named):
            raise EngineError(
                f"engine 'openvino' has an input '{port.get_any_name()}', which the graph does not have"
            )
        self._local = threading.local()
        self._counts = counts
        if counts is not None:
            counts.graph, counts.model = graph, self._model

    def _compile_graph(
        self, graph: Graph, divisions: Sequence[Value], device: str, config: dict[str, Any]
    ) -> tuple[Any, Callable[[], Any], Any]:
        """Return OpenVINO's model of a graph, a function that compiles it, and the compiled model.

        Long chains of operators are cut if OpenVINO refuses them: see corrections.chains.
        """
        whole, lengths = graph, iter(LENGTHS)
        while True:
            model = self._read(graph, divisions)
            compile_ = partial(shared_core().compile_model, model, device, config)
            try:
                return model, compile_, compile_()
            except RuntimeError as error:
                length = next(lengths, None)
                if length is None or REFUSAL not in str(error):
                    raise
                graph = cut(whole, length)

    def _read(self, graph: Graph, divisions: Sequence[Value]) -> Any:
        """Return OpenVINO's model of a graph. Large weights are constants over NumPy's memory, and are not copied.

        divisions: values whose division must not become a product with the reciprocal.
        """
        lifted = Lifted(_SHARED_BYTES)
        model = read_onnx(to_onnx(graph, lift=lifted).SerializeToString())
        self._kernels.need_only_these(model)
        exact = {v.name for v in divisions}
        for node in _operations(model):
            if node.get_type_name() == "Divide" and node.get_friendly_name() in exact:
                node.get_rt_info()[_DIVISION] = True
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
        if self._narrowed[0]:
            need_range(inputs, self._narrowed[0], "input")
        if self._checks and out is not None:
            out = [*out, None]
        errors, before = self._errors, self._errors.count
        try:
            results = self._request().run(inputs, out)
        except Exception as error:
            if self._compile is not None:
                self._local, self._model = threading.local(), None
            raise errors.since(before) or EngineError(f"engine 'openvino' failed: {error}") from error
        failed = errors.since(before)
        if failed is not None:
            raise failed
        for i, nothing in self._empty:
            results[i] = nothing.copy() if out is None or out[i] is None else results[i]
        need_shapes("openvino", results, self._expected)
        if self._checks:
            self._need_passed(results.pop())
        if self._narrowed[1]:
            need_range(results, self._narrowed[1], "output")
        return results

    def _request(self) -> _Request:
        """Return the request of this thread.

        The model is compiled again after an error: OpenVINO 2026.4 repeats an error of Reshape in every later call
        of a model of dynamic sizes.
        """
        local = self._local
        request: _Request | None = getattr(local, "request", None)
        if request is None:
            if self._model is None and self._compile is not None:
                self._model = self._compile()
            request = local.request = _Request(self._model, self._places, self._dtypes, self._waits)
            if self._counts is not None:
                self._counts.read = request.profile
        return request

    def _need_passed(self, flags: Array) -> None:
        """Raise EngineError where a check in the graph has failed. `flags` has one boolean per check."""
        if flags.any():
            message = self._checks[int(flags.argmax())]
            raise EngineError(f"engine 'openvino' failed: {message}")


class _Request:
    """An infer request for one thread.

    Small inputs and outputs are copied to and from arrays of the request. Large ones are tensors over the caller's
    arrays, which stay set until the caller passes others. A call of ReLU on 16 numbers takes 11 us this way, and
    21 us if its tensors are set in each call.
    """

    def __init__(self, model: Any, places: Sequence[int | None], dtypes: Sequence[DType], waits: bool) -> None:
        self._request = model.create_infer_request()
        self._infer = partial(_infer_and_wait if waits else _infer, self._request)
        self._dtypes = list(dtypes)
        self._small_inputs: list[tuple[int, Array]] = []
        self._large_inputs: list[tuple[int, int]] = []
        self._other_inputs: list[tuple[int, int]] = []
        self._given: dict[int, Array | None] = {}
        self._held: dict[int, Array] = {}
        for i, place in enumerate(places):
            if place is not None:
                self._add_input(i, place, model.inputs[place])
        shapes = [_fixed_shape(port, dtype) for port, dtype in zip(model.outputs, self._dtypes)]
        self._shapes = [None if shape is None else shape[0] for shape in shapes]
        self._own = [
            np.zeros(shape[0], dtype) if shape is not None and shape[1] < _DIRECT_BYTES else None
            for shape, dtype in zip(shapes, self._dtypes)
        ]
        self._filled: list[Array | ArrayHolder | None] = [None] * len(shapes)
        wrap = partial(ov.Tensor, shared_memory=True)
        self._pools = [
            None if s is None or o is not None else Recycled(s, d, wrap)
            for s, d, o in zip(self._shapes, self._dtypes, self._own)
        ]
        for i, array in enumerate(self._own):
            if array is not None:
                self._request.set_output_tensor(i, ov.Tensor(array, shared_memory=True))
        self._copies_all = all(array is not None for array in self._own)

    def _add_input(self, i: int, place: int, port: Any) -> None:
        dtype = port.get_element_type().to_dtype()
        fixed = _fixed_shape(port, dtype)
        if fixed is None:
            self._other_inputs.append((i, place))
        elif fixed[1] >= _DIRECT_BYTES:
            self._large_inputs.append((i, place))
        else:
            array = np.zeros(fixed[0], dtype)
            self._request.set_input_tensor(place, ov.Tensor(array, shared_memory=True))
            self._small_inputs.append((i, array))

    def profile(self) -> Any:
        """Return OpenVINO's measurements of each node."""
        return self._request.get_profiling_info()

    def run(self, inputs: Sequence[Array], out: Sequence[Array | None] | None) -> list[Array]:
        """Run the model, and return its outputs, in the buffers of `out` where it has them."""
        for i, small in self._small_inputs:
            small[...] = inputs[i]
        for i, place in self._large_inputs:
            if inputs[i] is not self._given.get(i):
                self._bind(i, place, inputs[i])
        feed = {place: inputs[i] for i, place in self._other_inputs} if self._other_inputs else None
        if out is None and self._copies_all:
            self._infer(feed)
            return [small.copy() for small in self._own if small is not None]
        arrays = self._targets(out)
        results = self._infer(feed)
        return [self._output(i, array, results) for i, array in enumerate(arrays)]

    def _bind(self, i: int, place: int, array: Array) -> None:
        """Make an array an input tensor, without a copy. Keep a reference to the array, because the tensor does
        not.

        An array whose memory cannot be shared is copied in each call.
        """
        held = _writable(array)
        self._request.set_input_tensor(place, ov.Tensor(held, shared_memory=True))
        self._held[i] = held
        self._given[i] = array if held.base is not None else None

    def _targets(self, out: Sequence[Array | None] | None) -> list[Array | None]:
        """Return the array for each output: the caller's, a new one that OpenVINO writes to, or None."""
        arrays: list[Array | None] = []
        for i, pool in enumerate(self._pools):
            array = out[i] if out is not None else None
            if pool is None:
                pass
            elif array is not None:
                if array is not self._filled[i]:
                    self._request.set_output_tensor(i, ov.Tensor(array, shared_memory=True))
                    self._filled[i] = array
            else:
                holder = pool.take()
                array = holder.array
                if holder is not self._filled[i]:
                    self._request.set_output_tensor(i, holder.tensor)
                    self._filled[i] = holder if holder.kept else None
            arrays.append(array)
        return arrays

    def _output(self, i: int, array: Array | None, results: Any) -> Array:
        """Return output number i, in `array` if there is one."""
        buffer = self._own[i]
        if buffer is None and self._shapes[i] is not None and array is not None:
            return array
        result = results[i] if buffer is None else buffer
        if array is None:
            return np.array(result, self._dtypes[i])
        np.copyto(array, result)
        return array


def _infer(request: Any, feed: Any) -> Any:
    """Run a request, and return its outputs by number."""
    return request.infer(feed, True, True)


def _infer_and_wait(request: Any, feed: Any) -> Any:
    """Run a request in OpenVINO's own thread, wait for it, and return its outputs by number: see _loses_errors."""
    request.start_async(feed, None, True)
    request.wait()
    return [tensor.data for tensor in request.output_tensors]


def _loses_errors(compiled: Any) -> bool:
    """Return whether `infer` of a model compiled for the CPU loses errors.

    With one thread, OpenVINO 2026.4 drops each exception that `infer` meets within the model, for example for
    shapes that do not fit, and returns memory that was never written; a later model can crash. `start_async` and
    `wait` raise it.
    """
    return bool(compiled.get_property("INFERENCE_NUM_THREADS") == 1)


def _can_fail(graph: Graph, model: Any) -> bool:
    """Return whether a call of the model can raise an error that depends on the data: a shape or an integer
    argument is computed.
    """
    return model.is_dynamic() or any(
        v is not None and v.const is None and v.dtype.kind in "iu" for o in graph.ops for v in o.inputs[1:]
    )


def _tiny(graph: Graph) -> bool:
    """Return whether the graph computes so little that one thread is faster than several.

    Two models of one ReLU, called in turn as around a host call, take 22 us with two threads each and 18 us with
    one.
    """
    values = [v for op in graph.ops for v in [*op.outputs, *op.inputs] if v is not None]
    if not all(isinstance(d, int) for v in values for d in v.shape):
        return False
    count: int = sum(math.prod(v.shape) for v in values)
    return count <= _TINY_VALUES


def _fixed_shape(port: Any, dtype: DType) -> tuple[tuple[int, ...], int] | None:
    """Return the shape of an input or output, and its bytes.

    None where its size is dynamic, or where OpenVINO has another dtype than `dtype`.
    """
    if port.get_partial_shape().is_dynamic or port.get_element_type().to_dtype() != dtype:
        return None
    shape = tuple(port.get_shape())
    return shape, math.prod(shape) * dtype.itemsize


def embeds(kernel: NativeNode) -> bool:
    """Return whether a native layer can be an operation of a model: see engines.embedding. OpenVINO may narrow
    other element types than float32, and skips operations without elements."""
    types = [*getattr(kernel, "types", ()), *kernel.outputs]
    plain = all(t.dtype == np.float32 and 0 not in t.shape for t in types)
    return is_embeddable(kernel) and plain and has_operation()


def embeds_on(kernel: NativeNode) -> bool:
    """Return whether the GPU plugin can compute a native layer."""
    return fits_plugin(kernel)


def compile(graph: Graph, threads: int | None = None, precision: str = "float32") -> OpenVinoProgram:
    """Compile a graph: see Engine.compile."""
    return OpenVinoProgram(graph, threads, precision)


def devices() -> list[str]:
    """Return ["gpu"] if OpenVINO finds a GPU: see engines.HasDevices."""
    return ["gpu"] if any(name.split(".")[0] == "GPU" for name in shared_core().available_devices) else []


def compile_on(graph: Graph, device: str, threads: int | None, precision: str) -> OpenVinoProgram:
    """Compile a graph for a GPU: see engines.HasDevices."""
    number = device_number("openvino", device, "gpu")
    gpus = [name for name in shared_core().available_devices if name.split(".")[0] == "GPU"]
    name = f"GPU.{number}" if number else "GPU"
    need(
        gpus and (not number or name in gpus),
        f"engine 'openvino' finds no device '{device}'; it finds {', '.join(shared_core().available_devices)}. "
        "A GPU needs its driver for OpenCL",
        EngineError,
    )
    return OpenVinoProgram(graph, threads, precision, device=name)


def counted(graph: Graph, threads: int | None) -> CountedProgram:
    """Compile a graph so that its nodes are measured: see engines.counting."""
    counts = PerformanceCounts()
    program = OpenVinoProgram(graph, threads, counts=counts)
    return TimedProgram(program, counts)


def open_file(path: Path, values: Collection[str] = ()) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """Return a function that runs a model file, in float32: see Optional.open_file."""
    try:
        config = {"INFERENCE_PRECISION_HINT": PRECISIONS["float32"]}
        model_file = shared_core().read_model(str(path))
        if values:
            names = {name for port in model_file.outputs for name in port.get_names()}
            inner = {name for op in model_file.get_ops() for port in op.outputs() for name in port.get_names()}
            model_file.add_outputs([name for name in values if name in inner - names])
        model = shared_core().compile_model(model_file, "CPU", config)
    except Exception as error:
        raise EngineError(f"engine 'openvino' refuses the file: {error}", path.name) from error
    input_names = {name for port in model.inputs for name in port.get_names()}
    infer = _infer_and_wait if _loses_errors(model) else _infer

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        feed = {name: array for name, array in inputs.items() if name in input_names}
        try:
            results = infer(model.create_infer_request(), feed)
        except Exception as error:
            raise EngineError(f"engine 'openvino' failed: {error}", path.name) from error
        return {name: np.array(results[i]) for i, port in enumerate(model.outputs) for name in port.get_names()}

    return run
