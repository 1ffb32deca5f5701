"""Call a network of one C++ layer in OpenCV, which benchmarks/native/interp_opencv.cpp makes.

spec: library, inputs (.npz), shape, size (height and width of the output), threads. A call sets the input and runs
the network; the output stays OpenCV's.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from benchmarks.runners import Loaded, read_inputs


def load(spec: dict[str, Any]) -> Loaded:
    """Make the network."""
    library = ctypes.CDLL(spec["library"])
    library.interp_open.restype = ctypes.c_void_p
    library.interp_run.restype = ctypes.POINTER(ctypes.c_float)
    library.interp_version.restype = ctypes.c_char_p
    x = read_inputs(spec["inputs"])["x"]
    sizes = (ctypes.c_int * 4)(*spec["shape"])
    height, width = spec["size"]
    opened = library.interp_open(ctypes.c_void_p(x.ctypes.data), sizes, height, width, spec["threads"])
    network, run = ctypes.c_void_p(opened), library.interp_run
    shape = (*spec["shape"][:2], height, width)

    def outputs(_: str) -> dict[str, np.ndarray]:
        return {"y": np.ctypeslib.as_array(run(network), shape).copy()}

    def call(held: np.ndarray = x) -> object:  # the network reads `x`, which must stay alive
        return run(network)

    return Loaded({"plain": call}, outputs, {"version": library.interp_version().decode()})
