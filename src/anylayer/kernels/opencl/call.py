"""Run an OpenCL layer on its device: programs and buffers are made once, and the first call is checked."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.errors import AnyLayerError, at
from anylayer.kernels.call import handed, returned
from anylayer.kernels.marks import mark, marks
from anylayer.libraries import pyopencl
from anylayer.network import Array

if TYPE_CHECKING:
    from anylayer.kernels.opencl.layer import OpenCLLayer


class _Frame:
    """A queue, a kernel and buffers for one call at a time."""

    __slots__ = ("inputs", "kept", "kernel", "outputs", "queue")

    def __init__(self, layer: OpenCLLayer, program: Any) -> None:
        device = layer.device()
        self.queue = device.queue()
        self.kernel = pyopencl.kernel(program, layer.layer.entry)
        self.inputs = {i: device.buffer(_size(slot.seen)) for i, slot in layer.inputs.items()}
        self.outputs = {i: device.buffer(_size(slot.seen)) for i, slot in layer.results.items()}
        self.kept: list[Any] = []
        for index, argument in enumerate(layer.arguments):
            if argument.kind in ("input", "output"):
                buffer = (self.inputs if argument.kind == "input" else self.outputs)[argument.port]
            elif argument.kind == "data":
                buffer = device.buffer(layer.blobs[index].nbytes)
                pyopencl.upload(self.queue, buffer, layer.blobs[index])
            else:
                buffer = device.buffer(layer.scratch_bytes(argument))
            self.kernel.set_arg(index, buffer)
            self.kept.append(buffer)
        self.queue.finish()


def _size(kind: Any) -> int:
    count = int(np.prod(kind.shape, dtype=np.int64))
    return count * int(kind.dtype.itemsize)


class OpenCLProgram:
    """An OpenCL layer as a step of a plan: one array per input gives one array per output.

    Several threads may call it; each has a queue and buffers of its own. The first call checks that the kernel
    writes all outputs. `device_seconds` is the time of the kernel itself in the last call.
    """

    def __init__(self, layer: OpenCLLayer) -> None:
        self._layer = layer
        self._frames: list[_Frame] = []
        self._whole, self._local = layer.whole, layer.local or None
        self._redirected = layer.text.prints
        self._plain = all(slot.plain for slot in [*layer.inputs.values(), *layer.results.values()])
        self.device_seconds = 0.0
        with at(layer.node.place):
            self._program = _built(layer)
            self._frames.append(self._frame())

    def _frame(self) -> _Frame:
        layer = self._layer
        try:
            return _Frame(layer, self._program)
        except pyopencl.Error as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> AnyLayerError:
        layer = self._layer
        sizes = f"global {layer.whole}, local {layer.local or 'not given'}"
        text = str(error).partition("\n")[0]
        return layer.failed(f"{layer.device()} refuses kernel '{layer.layer.entry}' ({sizes}): {text}")

    def __call__(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """Compute the outputs. An array in `out` of an output's type is written and returned for it."""
        layer = self._layer
        results: list[Array] = []
        for i, kind in enumerate(layer.outputs):
            buffer = None if out is None else out[i]
            results.append(np.empty(kind.shape, kind.dtype) if buffer is None else buffer)
        if not self._whole:
            return results
        if self._plain:
            given = {i: np.ascontiguousarray(inputs[i]) for i in layer.inputs}
            memory = {i: results[i] for i in layer.results}
        else:
            given = {i: handed(slot, inputs[i]) for i, slot in layer.inputs.items()}
            memory = {i: np.empty(slot.seen.shape, slot.seen.dtype) for i, slot in layer.results.items()}
        frame = self._frames.pop() if self._frames else self._frame()
        try:
            (self._run if layer.checked else self._checked)(frame, given, memory)
        finally:
            self._frames.append(frame)
        if self._plain:
            return results
        return [returned(layer.results[i], memory[i], results[i]) for i in range(len(results))]

    def _run(self, frame: _Frame, given: dict[int, Array], memory: dict[int, Array]) -> None:
        """Run the kernel on arrays as it sees them."""
        queue = frame.queue
        with _stdout_to_stderr() if self._redirected else contextlib.nullcontext():
            try:
                for i, array in given.items():
                    pyopencl.upload(queue, frame.inputs[i], array)
                event = pyopencl.run(queue, frame.kernel, self._whole, self._local)
                for i, array in memory.items():
                    pyopencl.download(queue, array, frame.outputs[i])
                queue.finish()
            except pyopencl.Error as error:
                raise self._refused(error) from error
        self.device_seconds = (event.profile.end - event.profile.start) * 1e-9

    def _checked(self, frame: _Frame, given: dict[int, Array], memory: dict[int, Array]) -> None:
        """Run the kernel on outputs whose values show where nothing was written."""
        layer = self._layer
        left: dict[int, Array] = {}
        whole = {i: array for i, array in memory.items() if array.size}
        for turn in (0, 1):
            for i, array in whole.items():
                mark(array, turn)
                pyopencl.upload(frame.queue, frame.outputs[i], array)
            self._run(frame, given, memory)
            for i, array in whole.items():
                here = marks(array, turn)
                left[i] = left[i] & here if turn else here
            if not any(left[i].any() for i in whole if whole[i].dtype.kind != "f"):
                break
        for i, where in left.items():
            count = int(np.count_nonzero(where))
            if count:
                raise layer.failed(
                    f"kernel '{layer.layer.entry}' leaves {count} of {where.size} values of output {i} without a "
                    f"value (global work sizes {layer.whole})"
                )
        layer.checked = True


def _built(layer: OpenCLLayer) -> Any:
    """Return the built program of a layer. Raise LayerError with the compiler's messages."""
    device, text = layer.device(), layer.text
    try:
        program = device.program(text.compiled if device.half else text.without_half(), layer.layer.options)
    except pyopencl.Error as error:
        files = ", ".join(source.name for source in layer.layer.sources)
        raise layer.error(f"{files} does not compile on {device}:\n{device.log(error)}") from None
    entry = layer.layer.entry
    try:
        count = int(pyopencl.kernel(program, entry).num_args)
    except pyopencl.Error:
        raise layer.error(f"the sources have no kernel '{entry}' (line {layer.layer.line})") from None
    if count != len(layer.arguments):
        bound = len(layer.arguments)
        raise layer.error(f"kernel '{entry}' has {count} arguments, the configuration binds {bound}")
    return program


_redirecting = threading.Lock()


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Let what C code writes to stdout, such as a kernel's printf, go to stderr: stdout is for results."""
    flush = ctypes.CDLL(None).fflush
    with _redirecting:
        sys.stdout.flush()
        flush(None)
        kept = os.dup(1)
        os.dup2(2, 1)
        try:
            yield
        finally:
            flush(None)
            os.dup2(kept, 1)
            os.close(kept)
