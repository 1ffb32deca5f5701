"""Compile generated C++ functions, and call them with arrays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer.graph import Graph
from anylayer.kernels.compiler import COMPILERS, compiler
from anylayer.loops import CppFunction, arguments_text, prelude
from anylayer.network import Array, TensorType
from anylayer.tracing import trace

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="there is no C++ compiler")
FLAGS = ["-O1", "-Wall", "-Wextra", "-Werror"]


def traced(function: Callable[..., Any], *inputs: Array) -> Graph:
    """Return the graph of a function of arrays of the types of `inputs`, which returns an array or a list."""

    def outputs(arrays: Sequence[Any]) -> Any:
        found = function(*arrays)
        return found if isinstance(found, list) else [found]

    return trace(outputs, [TensorType.of(x.shape, x.dtype) for x in inputs])


KEEPER = "static const Keeper keeper;\n"
"""An object for which temporary memory is kept until the library is unloaded."""
PARTS = """
struct Parts {
    template <class Body> void operator()(int64_t count, int64_t, const Body& body) const {
        for (int64_t at = 0; at < count; at += 5) body(at, std::min<int64_t>(at + 5, count));
    }
};
"""
"""An object that divides each loop into parts of five iterations."""


def build(
    codes: Sequence[CppFunction], folder: Path, flags: Sequence[str] = FLAGS, *, parts: bool = False
) -> ctypes.CDLL:
    """Return a library of the functions: the C function "c_NAME" calls the function NAME.

    parts: whether parallel loops run in parts, as on several threads.
    """
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    run = "Parts()" if parts else "Sequential()"
    text = "\n".join([KEEPER, PARTS, *(code.text + _entry(code, run) for code in codes)])
    source.write_text(f"{prelude(text)}\n{text}")
    command = [
        *compiler(),
        "-std=c++11",
        *flags,
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        str(source),
        "-o",
        str(library),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr + source.read_text()
    return ctypes.CDLL(str(library))


def _entry(code: CppFunction, run: str) -> str:
    """Return a C function that takes all pointers in one list, and all sizes in another."""
    call = f"{code.name}({', '.join([*arguments_text(code), run])})"
    return f'extern "C" int c_{code.name}(void** p, const int64_t* n) {{ (void)n; return {call}; }}\n'


def arguments(
    code: CppFunction, inputs: Sequence[Array], sizes: Mapping[str, int]
) -> tuple[Any, Any, list[Array]]:
    """Return the pointers and the sizes for a function, and its outputs."""
    shapes = [tuple(e.value(sizes) for e in a.shape) for a in code.outputs]
    outputs = [np.full(shape, 77, a.dtype) for shape, a in zip(shapes, code.outputs)]
    arrays = [*map(np.ascontiguousarray, inputs), *outputs, *(np.ascontiguousarray(t) for _, t in code.tables)]
    pointers: Any = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    pointers.arrays = arrays
    return pointers, (ctypes.c_int64 * max(len(sizes), 1))(*(sizes[s] for s in code.sizes)), outputs


def call(
    library: ctypes.CDLL, code: CppFunction, inputs: Sequence[Array], sizes: Mapping[str, int]
) -> list[Array] | None:
    """Return the outputs of a function, or None where it reports an index outside its axis."""
    pointers, numbers, outputs = arguments(code, inputs, sizes)
    return outputs if getattr(library, f"c_{code.name}")(pointers, numbers) else None
