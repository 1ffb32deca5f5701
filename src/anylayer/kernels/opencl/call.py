"""Run an OpenCL layer on its device. Programs and buffers are created once, and the first call is checked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.errors import AnyLayerError, at, plural
from anylayer.kernels.marks import mark, marks
from anylayer.libraries import pyopencl
from anylayer.libraries.stdout import redirected_stdout
from anylayer.network import Array

if TYPE_CHECKING:
    from anylayer.kernels.opencl.layer import OpenCLLayer
    from anylayer.libraries.pyopencl import Memory


class _DeviceFrame:
    """A queue, a kernel and memory for one call at a time.

    `inputs` and `outputs` map each bound port to (memory, port, permutation). The permutation is from the
    network's order of axes to the kernel's, or back for outputs; None if both are the same.
    """

    __slots__ = ("inputs", "kept", "kernel", "outputs", "queue")

    def __init__(self, layer: OpenCLLayer, program: Any) -> None:
        device = layer.device()
        self.queue = device.queue()
        self.kernel = pyopencl.kernel(program, layer.layer.entry)
        self.inputs = {i: (device.memory(s.seen.shape, s.seen.dtype), i, s.order) for i, s in layer.inputs.items()}
        self.outputs = {
            i: (device.memory(s.seen.shape, s.seen.dtype), i, s.back) for i, s in layer.results.items()
        }
        self.kept: list[Memory] = []
        for index, argument in enumerate(layer.arguments):
            if argument.kind in ("input", "output"):
                memory = (self.inputs if argument.kind == "input" else self.outputs)[argument.port][0]
            elif argument.kind == "data":
                blob = layer.blobs[index]
                memory = device.memory(blob.shape, blob.dtype)
                memory.array[...] = blob
                memory.upload(self.queue)
            else:
                memory = device.memory((layer.scratch[index],), np.dtype(np.uint8))
            self.kernel.set_arg(index, memory.argument)
            self.kept.append(memory)
        self.queue.finish()


class OpenCLProgram:
    """An OpenCL layer as a step of a plan: one array per input gives one array per output.

    Several threads may call it; each has a queue and memory of its own. The first call checks that the kernel
    writes all outputs and no input.
    """

    def __init__(self, layer: OpenCLLayer) -> None:
        self._layer = layer
        self._frames: list[_DeviceFrame] = []
        self._whole, self._local = layer.whole, layer.local or None
        self._redirected = layer.text.prints
        self._types = [(kind.shape, kind.dtype) for kind in layer.outputs]
        self._event: Any = None
        with at(layer.node.place):
            self._program = _build(layer)
            self._frames.append(self._frame())

    @property
    def device_seconds(self) -> float:
        """The time of the kernel itself in the last call, as the device measured it."""
        return pyopencl.seconds(self._event) if self._event is not None else 0.0

    def _frame(self) -> _DeviceFrame:
        try:
            return _DeviceFrame(self._layer, self._program)
        except pyopencl.Error as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> AnyLayerError:
        layer = self._layer
        sizes = f"global {layer.whole}, local {layer.local or 'not given'}"
        text = str(error).partition("\n")[0]
        return layer.failed(f"{layer.device()} refuses kernel '{layer.layer.entry}' ({sizes}): {text}")

    def __call__(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """Compute the outputs. An array in `out` is written and returned for its output."""
        results: list[Array] = []
        for i, (shape, dtype) in enumerate(self._types):
            buffer = None if out is None else out[i]
            results.append(np.empty(shape, dtype) if buffer is None else buffer)
        if not self._whole:
            return results
        frame = self._frames.pop() if self._frames else self._frame()
        try:
            for memory, i, order in frame.inputs.values():
                x = inputs[i]
                np.copyto(memory.array, x if order is None else x.transpose(order), casting="unsafe")
            if self._layer.checked:
                self._run(frame)
            else:
                self._checked(frame)
            for memory, i, back in frame.outputs.values():
                y = memory.array
                np.copyto(results[i], y if back is None else y.transpose(back), casting="unsafe")
        finally:
            self._frames.append(frame)
        return results

    def _run(self, frame: _DeviceFrame) -> None:
        """Run the kernel on the memory of a frame."""
        if self._redirected:
            with redirected_stdout(drop=False):
                self._enqueue(frame)
        else:
            self._enqueue(frame)

    def _enqueue(self, frame: _DeviceFrame) -> None:
        queue = frame.queue
        try:
            for memory, _, _ in frame.inputs.values():
                memory.upload(queue)
            self._event = pyopencl.run(queue, frame.kernel, self._whole, self._local)
            for memory, _, _ in frame.outputs.values():
                memory.download(queue)
            queue.finish()
        except pyopencl.Error as error:
            raise self._refusal(error) from error

    def _checked(self, frame: _DeviceFrame) -> None:
        """Run the kernel with marker values in the outputs, which show the elements that were not written."""
        layer, entry = self._layer, self._layer.layer.entry
        copies = {i: memory.array.copy() for memory, i, _ in frame.inputs.values()}
        outputs = {i: memory for memory, i, _ in frame.outputs.values() if memory.array.size}
        left = {i: np.ones(memory.array.shape, np.bool_) for i, memory in outputs.items()}
        for turn in (0, 1):
            for memory in outputs.values():
                mark(memory.array, turn)
                memory.upload(frame.queue)
            with redirected_stdout(drop=True) if turn else nullcontext():
                self._run(frame)
            for i, memory in outputs.items():
                left[i] &= marks(memory.array, turn)
            if not any(left[i].any() for i, memory in outputs.items() if memory.array.dtype.kind != "f"):
                break
        for memory, i, _ in frame.inputs.values():
            if memory.array.tobytes() != copies[i].tobytes():
                raise layer.failed(f"kernel '{entry}' writes to input {i}")
        for i, where in left.items():
            count = int(np.count_nonzero(where))
            if count:
                raise layer.failed(
                    f"kernel '{entry}' leaves {count} of {where.size} values of output {i} without a value "
                    f"(global work sizes {layer.whole})"
                )
        layer.checked = True


def _build(layer: OpenCLLayer) -> Any:
    """Return the built program of a layer. Raise LayerError with the compiler's messages."""
    device, text = layer.device(), layer.text
    try:
        code = text.compiled if device.half else text.without_half()
        program = device.program(code, layer.layer.options, kept=not text.includes)
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
        raise layer.error(f"kernel '{entry}' has {plural(count, 'argument')}, the configuration binds {bound}")
    return program
