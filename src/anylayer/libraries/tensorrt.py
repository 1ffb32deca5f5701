"""TensorRT, and memory of NVIDIA's GPUs for it, from NVIDIA's packages tensorrt and cuda-bindings.

This is the only file that imports them. Importing it raises ImportError where one of them is not installed.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import tensorrt
from cuda.bindings import runtime

from anylayer.errors import EngineError, need
from anylayer.network import Array

trt: Any = tensorrt
_runtime: Any = runtime


def cuda(function: str, *values: Any) -> Any:
    """Call a function of CUDA's runtime, and return its result. Raises EngineError where it reports an error."""
    status, *results = getattr(_runtime, function)(*values)
    need(int(status) == 0, f"{function} of CUDA reports {status.name}", EngineError)
    return results[0] if results else None


class Buffers:
    """Memory of a GPU, one buffer per size, and a stream. It is freed together with this object."""

    def __init__(self, number: int, sizes: Sequence[int]) -> None:
        self._number = number
        self.select()
        self.stream = int(cuda("cudaStreamCreate"))
        self.addresses: list[int] = []
        weakref.finalize(self, _free, number, self.addresses, self.stream)
        for size in sizes:
            self.addresses.append(int(cuda("cudaMalloc", max(1, size))))

    def select(self) -> None:
        """Make the GPU the one of this thread."""
        cuda("cudaSetDevice", self._number)

    def fill(self, i: int, array: Array) -> None:
        """Copy a C-contiguous array to buffer `i`."""
        kind = _runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
        cuda("cudaMemcpyAsync", self.addresses[i], array.ctypes.data, array.nbytes, kind, self.stream)

    def read(self, i: int, array: Array) -> None:
        """Copy buffer `i` to a C-contiguous array. It has the values after `wait`."""
        kind = _runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        cuda("cudaMemcpyAsync", array.ctypes.data, self.addresses[i], array.nbytes, kind, self.stream)

    def wait(self) -> None:
        """Wait until the stream has done everything."""
        cuda("cudaStreamSynchronize", self.stream)


def _free(number: int, addresses: Sequence[int], stream: int) -> None:
    """Free buffers and a stream. Errors are passed over: the process may be ending."""
    _runtime.cudaSetDevice(number)
    for address in addresses:
        _runtime.cudaFree(address)
    _runtime.cudaStreamDestroy(stream)
