"""Compile generated C++ functions, and call them with arrays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer.kernels.compiler import COMPILERS, compiler
from anylayer.loops import PRELUDE, TYPES, Code
from anylayer.network import Array

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="there is no C++ compiler")
FLAGS = ["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-unused-function"]


def build(codes: Sequence[Code], folder: Path, flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    """Return a library of the functions: the C function "c_NAME" calls the function NAME."""
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    source.write_text("\n".join([PRELUDE, *(code.text + _entry(code) for code in codes)]))
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
    done = subprocess.run([*command, "-o", str(library)], capture_output=True, text=True)
    assert not done.returncode, done.stderr + source.read_text()
    return ctypes.CDLL(str(library))


def _entry(code: Code) -> str:
    """Return a C function that takes all pointers in one list, and all sizes in another."""
    pointers = [f"static_cast<const {TYPES[a.dtype.name]}*>(p[{i}])" for i, a in enumerate(code.inputs)]
    for a in code.outputs:
        pointers.append(f"static_cast<{TYPES[a.dtype.name]}*>(p[{len(pointers)}])")
    for _, table in code.tables:
        pointers.append(f"static_cast<const {TYPES[table.dtype.name]}*>(p[{len(pointers)}])")
    sizes = [f"n[{i}]" for i in range(len(code.sizes))]
    call = f"{code.name}({', '.join([*pointers, *sizes, 'Sequential()'])})"
    return f'extern "C" int c_{code.name}(void** p, const int64_t* n) {{ return {call}; }}\n'


def arguments(code: Code, inputs: Sequence[Array], sizes: Mapping[str, int]) -> tuple[Any, Any, list[Array]]:
    """Return the pointers and the sizes for a function, and its outputs."""
    shapes = [tuple(e.value(sizes) for e in a.shape) for a in code.outputs]
    outputs = [np.full(shape, 77, a.dtype) for shape, a in zip(shapes, code.outputs)]
    arrays = [*map(np.ascontiguousarray, inputs), *outputs, *(np.ascontiguousarray(t) for _, t in code.tables)]
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    pointers.arrays = arrays  # type: ignore[attr-defined]
    return pointers, (ctypes.c_int64 * max(len(sizes), 1))(*(sizes[s] for s in code.sizes)), outputs


def call(
    library: ctypes.CDLL, code: Code, inputs: Sequence[Array], sizes: Mapping[str, int]
) -> list[Array] | None:
    """Return the outputs of a function, or None where it reports an index outside its axis."""
    pointers, numbers, outputs = arguments(code, inputs, sizes)
    return outputs if getattr(library, f"c_{code.name}")(pointers, numbers) else None
