"""C++ code that is generated for the graph and compiled by the system's compiler: loops over fused elementwise
operators, gathers, reductions, matrix products and loops on data, without any library.

It runs graphs whose operators all have loops (anylayer.loops). These include the operators of most custom layers.
Engine "auto" does not measure it for whole networks: compiling takes seconds, and convolutions are slow. The
compiled library is kept in the user's cache folder: see kernels/cache.py.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import threading
import weakref
from array import array
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from anylayer.engines._recycling import Recycled
from anylayer.errors import AnyLayerError, EngineError, LayerError, TraceError
from anylayer.folders import fill, template
from anylayer.graph import Graph
from anylayer.graph.expressions import Expression, symbol
from anylayer.graph.sizes import is_static, stand_for
from anylayer.kernels.cache import library
from anylayer.kernels.compiler import COMPILERS, compiler
from anylayer.kernels.params import address
from anylayer.libraries.machine import processor_count
from anylayer.loops import TYPES, CppFunction, arguments_text, lower, prelude, to_cpp
from anylayer.loops.lowering import size_of
from anylayer.network import Array

PRECISIONS = ("float32",)
GENERAL = False

_FLAGS = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-unswitch-loops", "-w")
"""NumPy rounds after each operation, so a product and a sum must not become one instruction. Without errno and
traps, which have no effect on results, more loops become vector instructions. GCC 12 computes nested conditions
wrongly where it unswitches a loop by them and has AVX-512."""
_TUNED = {"x86_64": ("-mtune=haswell",)}
"""Further flags by machine. GCC 12 gathers with vector instructions for Haswell, but not for newer processors of
Intel's. With them, Interp of 64x65x65 to 129x129 takes 0.74 ms on a Sapphire Rapids, 1.11 ms without."""
_MAX_OPERATORS = 1500
"""The largest number of operators of a function. For more, a compiler takes a minute or longer."""
_MAX_OPERATORS_OF_LAYER = 600
"""The largest number of operators of a layer that "auto" compiles, which takes some seconds."""
_MAX_THREADS = 64  # threads of one call


class CppProgram:
    """A compiled function. Safe to call from several threads: calls at the same time share no memory."""

    def __init__(self, graph: Graph, threads: int | None) -> None:
        code = _generate(graph)
        try:
            words = compiler()
        except AnyLayerError:
            raise EngineError(
                f"engine 'cpp' needs a C++ compiler: {', '.join(COMPILERS)}, or the one that the environment "
                f"variable CXX names. On Debian: apt-get install g++"
            ) from None
        try:
            loaded = library(_source_of(code), words, _flags())
        except (AnyLayerError, OSError) as error:
            raise EngineError(f"engine 'cpp' cannot compile the graph: {error}") from error
        self._run = loaded.anylayer_run
        self._run.argtypes, self._run.restype = (ctypes.c_void_p, ctypes.c_int), ctypes.c_int
        loaded.anylayer_keep(1)
        weakref.finalize(self, loaded.anylayer_keep, -1).atexit = False
        self._threads = min(threads or processor_count(), _MAX_THREADS)
        self._inputs = [v.dtype for v in graph.inputs]
        self._outputs = [(stand_for(v.shape), v.dtype) for v in graph.outputs]
        self._counts = code.counts
        self._sizes = [None if is_static(v.shape) else [*map(size_of, v.shape)] for v in graph.outputs]
        self._rows = [_count_of_rows(sizes, code.counts) for sizes in self._sizes]
        if self._counts:
            self._outputs.append(((len(self._counts),), np.dtype(np.int64)))
        self._tables = [np.ascontiguousarray(table) for _, table in code.tables]
        self._pointers = [table.ctypes.data for table in self._tables]
        self._local = threading.local()

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        arrays = [np.ascontiguousarray(x, dtype) for x, dtype in zip(inputs, self._inputs)]
        targets, places = self._targets(out)
        pointers = array("Q", [*map(address, arrays), *places, *self._pointers])
        status = self._run(pointers.buffer_info()[0], self._threads)
        if status:
            index = "an index that is read from data lies outside its axis"
            raise EngineError(f"engine 'cpp' failed: {index if status == 1 else 'memory is exhausted'}")
        counts = dict(zip(self._counts, targets.pop().tolist())) if self._counts else {}
        for i, (sizes, rows) in enumerate(zip(self._sizes, self._rows)):
            if rows:
                targets[i] = targets[i][: counts[rows]]
            elif sizes is not None:
                shape = [d.value(counts) for d in sizes]
                targets[i] = targets[i].reshape(-1)[: math.prod(shape)].reshape(shape)
            buffer = out[i] if out is not None else None
            if buffer is not None and buffer is not targets[i]:
                np.copyto(buffer, targets[i])
                targets[i] = buffer
        return targets

    def _targets(self, out: Sequence[Array | None] | None) -> tuple[list[Array], list[int]]:
        """Return the arrays that the function writes to, the caller's if they are in C order, and addresses."""
        pools = getattr(self._local, "pools", None)
        if pools is None:
            pools = self._local.pools = [Recycled(shape, dtype, address) for shape, dtype in self._outputs]
        pairs = []
        for pool, buffer, sizes in zip_longest(pools, out or (), self._sizes):
            if buffer is not None and sizes is None and buffer.flags.c_contiguous:
                pairs.append((buffer, address(buffer)))
            else:
                holder = pool.take()
                pairs.append((holder.array, holder.tensor))
        return [array for array, _ in pairs], [place for _, place in pairs]


def _count_of_rows(sizes: Sequence[Expression] | None, counts: Sequence[str]) -> str:
    """Return the count that is the first of an output's sizes if only this one depends on data, else ""."""
    if sizes is None or any(d.constant is None for d in sizes[1:]):
        return ""
    return next((name for name in counts if sizes[0] == symbol(name)), "")


def _flags() -> list[str]:
    """Return the compiler's flags, without those for the vector instructions of this processor."""
    return [*_FLAGS, *_TUNED.get(platform.machine(), ())]


def _generate(graph: Graph) -> CppFunction:
    """Return the C++ function of a graph, not compiled. Raises EngineError for an operator that it refuses."""
    if os.name != "posix":
        raise EngineError("engine 'cpp' runs on Linux and macOS only")
    count = graph.operator_count
    if count > _MAX_OPERATORS:
        raise EngineError(
            f"engine 'cpp' takes graphs of at most {_MAX_OPERATORS} operators, but there are {count}"
        )
    for value in (*graph.inputs, *(v for op in graph.ops for v in op.outputs)):
        if value in graph.inputs and not is_static(value.shape):
            raise EngineError(f"engine 'cpp' needs sizes that are known, but a value has {value.shape}")
        if value.dtype.name not in TYPES:
            raise EngineError(f"engine 'cpp' has no dtype {value.dtype.name}")
    try:
        return to_cpp(lower(graph, selects=True), "layer")
    except (LayerError, TraceError) as error:
        raise EngineError(f"engine 'cpp' refuses the graph: {error}") from error


def _source_of(code: CppFunction) -> str:
    """Return the text of a library.

    Its `anylayer_run` returns 1 if an index lies outside its axis, 2 without memory, else 0. Its `anylayer_keep`
    changes the number of programs for which the library keeps memory, and returns the number of bytes kept.
    """
    call = f"{code.name}({', '.join([*arguments_text(code), 'Parallel{threads}'])})"
    entry = fill(template(__file__, "cpp_entry.cpp"), call=call)
    text = "".join([template(__file__, "cpp_parallel.hpp"), code.text, entry])
    return "".join([template(__file__, "cpp_includes.hpp"), prelude(text), text])


def compile(graph: Graph, threads: int | None = None, precision: str = "float32") -> CppProgram:
    """Compile a graph: see Engine.compile."""
    return CppProgram(graph, threads)


def suits_layer(graph: Graph) -> bool:
    """Return whether there is a compiler, and the graph is small enough to be compiled in a few seconds."""
    if graph.operator_count > _MAX_OPERATORS_OF_LAYER:
        return False
    try:
        return bool(compiler())
    except AnyLayerError:
        return False
