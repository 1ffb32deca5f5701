"""ONNX Runtime on the CPU. It reads large weights from NumPy's memory, and shares those of matrix products."""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from anylayer.compile.limits import need_compilable
from anylayer.corrections import corrected
from anylayer.engines import CountedProgram
from anylayer.engines._common import device_number, native_layers, need_shapes, output_shapes, with_calls
from anylayer.engines._counting import TimedProgram
from anylayer.engines._recycling import ArrayHolder, Recycled, can_recycle
from anylayer.errors import EngineError
from anylayer.graph import Graph, Value
from anylayer.graph.sizes import is_static
from anylayer.layer.native import NativeNode
from anylayer.libraries.onnx import with_outputs
from anylayer.libraries.onnxruntime import has_cuda, ort, silent_options
from anylayer.network import Array, TensorType
from anylayer.writers._onnx_model import EXACT_PRODUCTS, to_onnx

if TYPE_CHECKING:
    from anylayer.engines._cuda import CudaProgram
    from anylayer.engines._onnxruntime_profile import Profiler
    from anylayer.kernels.embedding import EmbeddedLibrary, Errors

PRECISIONS = ("float32",)
DEVICE_PRECISIONS = ("float32", "float16")
GENERAL = True
ON_CPU = True
_SHARED_BYTES = 1 << 16
"""Weights of this size or more are shared with NumPy instead of copied into the protobuf."""
_MAX_OPERATORS = 20_000
"""A graph of more operators is refused, because it compiles for minutes."""
_SMALL_BYTES = 1 << 15
"""Inputs and outputs that take less in total are copied, because binding them takes longer."""


def _products(graph: Graph) -> dict[Value, int]:
    """Return the constants that only matrix products read, with the largest number of rows multiplied by each.

    Their data can be shared with the session. The optimizer replaces other constants (to reorder weights of
    convolutions, to fold products of constants) and keeps its own copies. A dynamic number of rows counts as 2.
    """
    other: set[Value] = set()
    rows: dict[Value, int] = {}
    for op in graph.ops:
        for i, value in enumerate(op.inputs):
            if value is None or value.const is None:
                continue
            left = op.inputs[0]
            is_product = op.op == "MatMul" or (op.op == "Gemm" and not op["transA"])
            if is_product and i == 1 and left is not None and left.const is None:
                dims = list(left.shape[:-1])
                count = math.prod(dims) if all(isinstance(d, int) for d in dims) else 2
                rows[value] = max(rows.get(value, 0), count)
            else:
                other.add(value)
    return {key: count for key, count in rows.items() if key not in other}


class _SharedWeights:
    """The large constants of a model, which ONNX Runtime reads from NumPy's memory.

    `shared` are those of matrix products, which the session reads as long as it exists. `read` are the others,
    which its optimizer copies while the session is created (into the layout of its convolutions).
    """

    FILE = "weights"
    """The file that the model names as the place of its weights. It is never read."""

    def __init__(self, graph: Graph) -> None:
        self.shared: dict[str, Any] = {}
        self.read: dict[str, Any] = {}
        self.single_rows = True
        self._products = _products(graph)

    def __call__(self, name: str, value: Value) -> tuple[str, int] | None:
        array = value.const
        if array is None or array.nbytes < _SHARED_BYTES or array.dtype.kind not in "fiu":
            return None
        rows = self._products.get(value)
        if rows is not None:
            self.single_rows &= rows == 1
        constants = self.read if rows is None else self.shared
        constants[name] = ort.OrtValue.ortvalue_from_numpy(np.asarray(array, order="C"))
        return self.FILE, 0

    def add_to(self, options: Any) -> None:
        """Add the constants to the options of a session before it is created."""
        for name, value in self.shared.items():
            options.add_initializer(name, value)
        if self.read:
            options.add_external_initializers(list(self.read), list(self.read.values()))
        self.add_packing_to(options)

    def add_packing_to(self, options: Any) -> None:
        """Disable packed copies of weights for products with single rows, where they are not faster."""
        if self.shared and self.single_rows:
            options.add_session_config_entry("session.disable_prepacking", "1")


class _FiledWeights(_SharedWeights):
    """The large constants of a model whose optimized form is saved: ONNX Runtime saves only those of a file."""

    def __init__(self, graph: Graph, folder: Path) -> None:
        super().__init__(graph)
        self._path = folder / self.FILE

    def __call__(self, name: str, value: Value) -> tuple[str, int] | None:
        if super().__call__(name, value) is None or value.const is None:
            return None
        with self._path.open("ab") as file:
            offset = file.tell()
            file.write(np.ascontiguousarray(value.const).data)
        return self.FILE, offset

    def add_to(self, options: Any) -> None:
        self.add_packing_to(options)


def _pools_padded(graph: Graph) -> bool:
    """Return whether an output of Pad is pooled.

    ONNX Runtime 1.31 fuses the Pad into the pool, also where that changes results: the padding of a MaxPool is
    never the maximum. It does so as well where the pool cannot have so much padding.
    """
    padded = {value for op in graph.ops if op.op == "Pad" for value in op.outputs}
    return any(op.op in ("MaxPool", "AveragePool") and op.inputs[0] in padded for op in graph.ops)


def _harmful_optimizers(graph: Graph) -> list[str]:
    """Return the names of ONNX Runtime 1.31's optimizers that would change results.

    These are the fusion that _pools_padded describes, and the optimizer that rounds float32 weights to 8 bits
    between quantized values.
    """
    quantised = any(op.op == "QuantizeLinear" for op in graph.ops)
    return ["Pad_Fusion"] * _pools_padded(graph) + ["WeightBiasQuantization"] * quantised


_spinning: WeakSet[OnnxRuntimeProgram] = WeakSet()  # the programs of this process whose threads spin


class OnnxRuntimeProgram:
    """A session of ONNX Runtime for one graph.

    Its threads spin for 60 ms after a call, unless it `rests` or another program spins: they would take the
    processors from the calls of others. Six sizes of MTCNN's det1 in turns take 13.7 ms if all spin, and 4.2 if
    one does. A program that rests takes up to 1.02 times as long alone.
    """

    def __init__(
        self, graph: Graph, threads: int | None, profiler: Profiler | None = None, *, rests: bool = False
    ) -> None:
        graph = corrected(graph, "onnxruntime").graph
        need_compilable(graph, "onnxruntime", _MAX_OPERATORS)
        options = silent_options()
        options.intra_op_num_threads = threads or 0
        if rests or _spinning:
            options.add_session_config_entry("session.force_spinning_stop", "1")
        elif threads != 1:
            _spinning.add(self)
        self._errors: Errors | None = None
        self._embedded: list[EmbeddedLibrary] = []
        if layers := native_layers(graph):
            from anylayer.kernels.embedding import EmbeddedLibrary, Errors

            self._errors = Errors()
            self._embedded = [EmbeddedLibrary(layer, threads, self._errors) for layer in layers]
            graph = with_calls(graph, [embedded.address for embedded in self._embedded])
        if profiler is not None:
            profiler.prepare(graph, options)
        try:
            if self._embedded:
                options.register_custom_ops_library(self._embedded[0].library)
            self._session = self._load(graph, options, saved=profiler is not None)
        except Exception as error:
            raise EngineError(f"engine 'onnxruntime' refuses the graph: {error}") from error
        if profiler is not None:
            profiler.session = self._session
        self._types = [v.type for v in graph.inputs], [v.type for v in graph.outputs]
        self._shapes = output_shapes(graph.outputs)
        small = _small(self._types)
        self._bind = _Copying if small else _Binding
        self._binds = small or all(map(_recyclable, self._types[1]))
        self._local = threading.local()
        self._inputs = [i.name for i in self._session.get_inputs()]
        self._outputs = [o.name for o in self._session.get_outputs()]

    def _load(self, graph: Graph, options: Any, saved: bool) -> Any:
        """Create the session. A model whose large weights stay in NumPy's memory is loaded from temporary files,
        which are deleted afterwards.

        saved: whether the session saves its optimized model.
        """
        weights = _SharedWeights(graph)
        model = b"" if saved else to_onnx(graph, external=weights).SerializeToString()
        in_files = saved or weights.shared or weights.read
        with tempfile.TemporaryDirectory(prefix="anylayer-") if in_files else nullcontext("") as folder:
            if folder:
                Path(folder, weights.FILE).write_bytes(b"\0")  # it must exist
                if saved:
                    weights = _FiledWeights(graph, Path(folder))
                    model = to_onnx(graph, external=weights).SerializeToString()
                Path(folder, "model.onnx").write_bytes(model)
            self._weights = weights  # the session reads them as long as it exists
            weights.add_to(options)
            return ort.InferenceSession(
                f"{folder}/model.onnx" if folder else model,
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=_harmful_optimizers(graph),
            )

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        try:
            if self._binds or (out is not None and any(buffer is not None for buffer in out)):
                binding = getattr(self._local, "binding", None)
                if binding is None:
                    binding = self._local.binding = self._bind(self._session, self._types)
                results: list[Array] = binding.run(inputs, out)
                if self._binds:
                    return results
            else:
                results = self._session.run(self._outputs, dict(zip(self._inputs, inputs)))
        except Exception as error:
            named_error = None if self._errors is None else self._errors.named_in(str(error))
            raise named_error or EngineError(f"engine 'onnxruntime' failed: {error}") from error
        need_shapes("onnxruntime", results, self._shapes)
        return results


InputsAndOutputs = tuple[list[TensorType], list[TensorType]]


def _small(types: InputsAndOutputs) -> bool:
    """Return whether inputs and outputs are so small that copying them is faster than passing the arrays.

    A call of ReLU on 16 numbers takes 4.9 us with passed arrays and 3.4 us with copies; on 4096 numbers 5.3 and
    4.7 us; on 16384 numbers 11 and 16 us.
    """
    every = [*types[0], *types[1]]
    if not all(isinstance(d, int) for t in every for d in t.shape):
        return False
    return sum(math.prod(t.shape) * t.dtype.itemsize for t in every) <= _SMALL_BYTES


def _recyclable(kind: TensorType) -> bool:
    """Return whether arrays of this type may stay bound, or be reused: see Recycled."""
    return is_static(kind.shape) and can_recycle(kind.shape, kind.dtype)


class _Binding:
    """Bind a session's inputs and outputs to arrays, for one thread.

    Arrays stay bound until others are passed or returned, so a call with the same inputs binds nothing if the
    caller has dropped the last results: a transposition of 24 x 38 x 38 takes 4.2 us instead of 5.6. Outputs of a
    dynamic size, and large ones, are allocated by the session.
    """

    def __init__(self, session: Any, types: InputsAndOutputs) -> None:
        self._io = session.io_binding()
        self.call = partial(session.run_with_iobinding, self._io)
        self._inputs = [i.name for i in session.get_inputs()]
        self._outputs = [o.name for o in session.get_outputs()]
        self._given: list[Array | None] = [None] * len(self._inputs)
        self._keeps = [_recyclable(t) for t in types[0]]
        self._filled: list[Array | ArrayHolder | None] = [None] * len(self._outputs)
        self._pools = [
            Recycled(t.shape, t.dtype, ort.OrtValue.ortvalue_from_numpy) if _recyclable(t) else None
            for t in types[1]
        ]
        self._fixed = None not in self._pools

    def run(self, inputs: Sequence[Array], out: Sequence[Array | None] | None) -> list[Array]:
        """Run the session, and return its outputs, in the buffers of `out` where it has them."""
        self.bind_inputs(inputs)
        arrays: list[Any] = []
        for i, pool in enumerate(self._pools):
            buffer = None if out is None else out[i]
            if buffer is not None:
                self.bind_output(i, buffer)
            elif pool is not None:
                holder = pool.take()
                buffer = holder.array
                if holder is not self._filled[i]:
                    self._io.bind_ortvalue_output(self._outputs[i], holder.tensor)
                    self._filled[i] = holder if holder.kept else None
            else:  # bound in each call, so that the array of the last call stays the caller's
                self._io.bind_output(self._outputs[i])
                self._filled[i] = None
            arrays.append(buffer)
        self.call()
        if self._fixed:
            return arrays
        return [v.numpy() if a is None else a for v, a in zip(self._io.get_outputs(), arrays)]

    def bind_inputs(self, inputs: Sequence[Array]) -> None:
        """Bind the input arrays.

        An array is bound again in the next call if it is large, if it is not contiguous, because the session has
        a copy of it, or if its sizes are open, because the caller may have changed its shape.
        """
        for i, array in enumerate(inputs):
            if array is not self._given[i]:
                self._io.bind_cpu_input(self._inputs[i], array)
                self._given[i] = array if self._keeps[i] and array.flags.c_contiguous else None

    def bind_output(self, i: int, array: Array) -> None:
        """Bind output number i to the caller's array."""
        if array is not self._filled[i]:
            self._io.bind_ortvalue_output(self._outputs[i], ort.OrtValue.ortvalue_from_numpy(array))
            self._filled[i] = array


class _Copying:
    """Bind a session's inputs and outputs to its own arrays, and copy to and from these, for one thread."""

    def __init__(self, session: Any, types: InputsAndOutputs) -> None:
        self._inputs, self._outputs = ([np.zeros(t.shape, t.dtype) for t in part] for part in types)
        binding = _Binding(session, types)
        binding.bind_inputs(self._inputs)
        for i, buffer in enumerate(self._outputs):
            binding.bind_output(i, buffer)
        self._call = binding.call

    def run(self, inputs: Sequence[Array], out: Sequence[Array | None] | None) -> list[Array]:
        """Run the session, and return its outputs, in the buffers of `out` where it has them."""
        for tensor, array in zip(self._inputs, inputs):
            tensor[...] = array
        self._call()
        if out is None:
            return [tensor.copy() for tensor in self._outputs]
        results = []
        for tensor, buffer in zip(self._outputs, out):
            if buffer is not None:
                buffer[...] = tensor
            results.append(tensor.copy() if buffer is None else buffer)
        return results


def embeds(kernel: NativeNode) -> bool:
    """Return whether a native layer can be an operator of a session: see engines.embedding."""
    from anylayer.kernels.embedding import is_embeddable

    return is_embeddable(kernel)


def compile(graph: Graph, threads: int | None = None, precision: str = "float32") -> OnnxRuntimeProgram:
    """Compile a graph: see Engine.compile."""
    return OnnxRuntimeProgram(graph, threads)


def compile_alongside(graph: Graph, threads: int | None = None, precision: str = "float32") -> OnnxRuntimeProgram:
    """Compile a graph for a plan with other engines: see engines.alongside."""
    return OnnxRuntimeProgram(graph, threads, rests=True)


def devices() -> list[str]:
    """Return ["cuda"] if this ONNX Runtime is one for CUDA: see engines.HasDevices."""
    return ["cuda"] if has_cuda() else []


def compile_on(graph: Graph, device: str, threads: int | None, precision: str) -> CudaProgram:
    """Compile a graph for a GPU: see engines.HasDevices."""
    from anylayer.engines._cuda import CudaProgram

    number = device_number("onnxruntime", device, "cuda")
    need_compilable(graph, "onnxruntime", _MAX_OPERATORS)
    return CudaProgram(graph, number, silent_options(), precision, _FiledWeights, _harmful_optimizers)


def counted(graph: Graph, threads: int | None) -> CountedProgram:
    """Compile a graph so that its nodes are measured: see engines.counting."""
    from anylayer.engines._onnxruntime_profile import Profiler

    profiler = Profiler()
    program = OnnxRuntimeProgram(graph, threads, profiler)
    return TimedProgram(program, profiler)


def open_file(path: Path, values: Collection[str] = ()) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """Return a function that runs an ONNX model: see Optional.open_file."""
    try:
        model = with_outputs(path, values) if values else str(path)
        options = silent_options()
        options.add_session_config_entry(*EXACT_PRODUCTS)
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EngineError(f"engine 'onnxruntime' refuses the file: {error}", path.name) from error
    names = [o.name for o in session.get_outputs()]

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            return dict(zip(names, session.run(names, dict(inputs))))
        except Exception as error:
            raise EngineError(f"engine 'onnxruntime' failed: {error}", path.name) from error

    return run
