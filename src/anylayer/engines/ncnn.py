"""ncnn on the CPU, in float32. It is fast for networks of large 3x3 convolutions. It runs one sample at a time."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.engines._common import OutputShapes, need_shapes
from anylayer.errors import EngineError
from anylayer.graph import Graph, Op
from anylayer.graph.operators import PRODUCTS
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.writers.ncnn import to_ncnn

PRECISIONS = ("float32",)
GENERAL = False
_WAIT = "OMP_WAIT_POLICY"


def _import() -> Any:
    """Import ncnn with OMP_WAIT_POLICY=PASSIVE, so that its threads sleep while they wait.

    ncnn's own copy of libgomp reads the variable once, when it is loaded. Threads that spin make ncnn slower than
    all other engines where a core is busy (HED at 120 x 160 on two threads of a loaded machine: median 520 to 580
    ms, sleeping 115 to 270 ms, ONNX Runtime 310 to 460 ms), and take the cores from other engines.
    """
    is_ours = _WAIT not in os.environ
    if is_ours:
        os.environ[_WAIT] = "PASSIVE"
    try:
        import ncnn

        return ncnn
    finally:
        if is_ours:
            del os.environ[_WAIT]


ncnn: Any = _import()

_forked = False
"""Whether this process was forked from one in which ncnn had started threads. A fork has none of these threads,
and ncnn's libgomp would wait for them forever, so such a process computes on one thread."""
_started = False
"""Whether ncnn has started threads in this process."""


def _after_fork() -> None:
    global _forked
    _forked = _forked or _started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype, _address.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class _WeightReader(ncnn.DataReader):  # type: ignore[misc]  # ncnn has no types
    """Copies weights from NumPy's memory to ncnn, in the order in which ncnn asks for them."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        super().__init__()
        self._left = list(arrays)[::-1]

    def scan(self, form: Any, place: Any) -> int:
        return 0

    def read(self, buffer: Any, size: int) -> int:
        """Copy the next array to `buffer`, and return its size in bytes.

        Where ncnn asks for another size, return 0, which means to ncnn that the file is too short.
        """
        if not self._left or self._left[-1].nbytes != size:
            return 0
        ctypes.memmove(_address(buffer, None), self._left.pop().ctypes.data, size)
        return size

    @property
    def done(self) -> bool:
        """Whether ncnn has read all weights."""
        return not self._left


class NcnnProgram:
    """A network of ncnn. Each call uses an extractor of its own."""

    def __init__(self, graph: Graph, threads: int | None) -> None:
        self._graph = graph
        self._lock = threading.Lock()
        self._load(threads)

    def _load(self, threads: int | None) -> None:
        global _started
        self._threads = 1 if _forked else threads
        model = to_ncnn(self._graph)
        net = ncnn.Net()
        _configure(net.opt, self._threads)
        weights = _WeightReader(model.weights)
        if net.load_param_mem(model.text) or net.load_model(weights) or not weights.done:
            raise EngineError("engine 'ncnn' refuses the graph")
        self._inputs = [
            None if place is None else (*place, changed)
            for place, changed in zip(model.inputs, model.changed_in_place)
        ]
        self._outputs = [name for name, _ in model.outputs]
        self._blob_shapes: OutputShapes = [shape for _, shape in model.outputs]
        self._shapes = [v.shape if is_static(v.shape) else None for v in self._graph.outputs]
        self._net = net
        _started = _started or self._threads != 1

    def _reload(self) -> None:
        """Load the network again in a forked process: some layers keep the number of threads from loading."""
        with self._lock:
            if self._threads != 1:
                self._load(1)

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        if _forked and self._threads != 1:
            self._reload()
        extractor = self._net.create_extractor()
        held = [np.ascontiguousarray(x, np.float32) for x in inputs]  # ncnn reads their memory
        for place, array in zip(self._inputs, held):
            if place is not None:
                name, shape, changed = place
                mat = ncnn.Mat(array.reshape(shape if is_static(shape) else array.shape[1:]))
                extractor.input(name, mat.clone() if changed else mat)
        blobs: list[Array] = []
        for i, name in enumerate(self._outputs):
            status, mat = extractor.extract(name)
            if status:
                raise EngineError(f"engine 'ncnn' failed with status {status} for output {i}")
            blobs.append(np.asarray(mat))
        need_shapes("ncnn", blobs, self._blob_shapes)
        results: list[Array] = []
        for i, (blob, fixed) in enumerate(zip(blobs, self._shapes)):
            buffer = out[i] if out is not None else None
            if buffer is None:
                buffer = np.empty((1, *blob.shape) if fixed is None else fixed, np.float32)
            np.copyto(buffer.reshape(blob.shape), blob)
            results.append(buffer)
        return results


def _configure(options: Any, threads: int | None) -> None:
    """Make ncnn compute in float32 throughout, on this number of threads (None: its default)."""
    for name in (
        *("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_packed", "use_bf16_storage"),
        *("use_int8_inference", "use_int8_packed", "use_int8_storage", "use_int8_arithmetic"),
        "use_vulkan_compute",
    ):
        if hasattr(options, name):
            setattr(options, name, False)
    if threads:
        options.num_threads = threads


def compile(graph: Graph, threads: int | None = None, precision: str = "float32") -> NcnnProgram:
    """Compile a graph: see Engine.compile."""
    return NcnnProgram(graph, threads)


def suits(graphs: Sequence[Graph]) -> bool:
    """Return whether at least 1.5 G multiply-adds, and two thirds of all, are in 3x3 convolutions that ncnn
    computes by Winograd's minimal filtering (Lavin and Gray, arXiv 1509.09308), or most values are samples.

    ncnn's time divided by the better of ONNX Runtime's and OpenVINO's, on one thread, with the fraction of such
    multiply-adds: HED and VGG-16 (0.99) 0.48; Darknet-19 (0.95) 0.54; ResNet-50 (0.48) 0.86; GoogLeNet (0.61, 1 G
    in total) 0.94; networks below 0.1 G 1.1 to 1.4; GridSample of 64 channels of 64x64 0.59, 16 of 128x128 0.57.
    """
    total = large = 0
    for op in (o for g in graphs for o in g.ops):
        count = _multiplications(op)
        total += count
        large += count if count and _is_winograd(op) else 0
    values = [(op.op == "GridSample", v.shape) for g in graphs for op in g.ops for v in op.outputs]
    sizes = [(is_sampled, math.prod(s)) for is_sampled, s in values if all(isinstance(d, int) for d in s)]
    samples = sum(size for is_sampled, size in sizes if is_sampled)
    return (large >= 1.5e9 and large >= total * 2 / 3) or samples > sum(size for _, size in sizes) / 2


def _multiplications(op: Op) -> int:
    """Return the multiply-adds of a convolution or matrix product with constant weights; 0 for other operators."""
    weights = op.inputs[1] if op in PRODUCTS else None
    if weights is None or weights.const is None:
        return 0
    image = op.inputs[0] if op.op == "ConvTranspose" else op.outputs[0]
    cells = image.shape[2:] if image is not None and op.op.startswith("Conv") else op.outputs[0].shape[:-1]
    return weights.const.size * math.prod(cells) if all(isinstance(n, int) for n in cells) else 0


def _is_winograd(op: Op) -> bool:
    """Return whether ncnn computes this operator by Winograd's minimal filtering."""
    weights = op.inputs[1]
    return (
        op.op == "Conv"
        and weights is not None
        and tuple(weights.shape[2:]) == (3, 3)
        and min(weights.shape[:2]) >= 16
        and op["group"] == 1
        and set(op["strides"] or [1]) == {1}
        and set(op["dilations"] or [1]) == {1}
        and op.outputs[0].shape[0] == 1
    )
