"""Call a native layer: pass the addresses of its arrays, and check the first call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.errors import LayerError, TraceError
from anylayer.kernels import abi
from anylayer.kernels.marks import Guarded, mark, marks
from anylayer.kernels.params import Arena, address
from anylayer.libraries.stdout import redirected_stdout
from anylayer.network import ABSENT, Array, DType, Node, TensorType

if TYPE_CHECKING:
    from anylayer.kernels.layer import NativeLayer
    from anylayer.layer.native import NativeProgram


class CompiledKernel:
    """A layer of a native kernel. `program` returns the function that computes it; `name` is the file's."""

    name: str
    node: Node
    program: Callable[..., NativeProgram]
    _run: NativeProgram | None = None

    def error(self, text: str) -> LayerError:
        """Return a LayerError that names the kernel's file."""
        return LayerError(f"{self.name}: {text}")

    def failed(self, text: str) -> LayerError:
        """Return the error for a failed call or build, with the node's place."""
        return LayerError(f"{self.name}: {text}", self.node.place)

    def forward(self, inputs: Sequence[Array | None]) -> list[Array]:
        """Compute the outputs, in the file's order of axes. Raises TraceError for traced arrays."""
        if not all(x is None or type(x) is np.ndarray for x in inputs):
            raise TraceError("a native kernel computes it")
        if self._run is None:
            self._run = self.program()
        return self._run(inputs)


@dataclass(frozen=True, slots=True)
class Slot:
    """The conversion of an input or output between the network and a layer. `seen` is the type in the layer's
    order of axes, `dtype` the network's element type. `order` is the permutation from the file's order of axes to
    the layer's (None if both are the same). `in_place` is the index of the input whose memory an output shares, or
    -1.
    """

    seen: TensorType
    dtype: DType
    in_place: int
    order: tuple[int, ...] | None
    layout: int

    @property
    def plain(self) -> bool:
        """Whether the network's array can be passed as it is."""
        return self.order is None and self.seen.dtype == self.dtype and self.in_place < 0

    @property
    def back(self) -> tuple[int, ...] | None:
        """The permutation from the layer's order of axes to the file's."""
        return None if self.order is None else tuple(int(i) for i in np.argsort(self.order))

    @property
    def file_type(self) -> TensorType:
        """The type in the network."""
        shape = self.seen.shape if self.back is None else tuple(self.seen.shape[i] for i in self.back)
        return TensorType(shape, self.dtype)


class _Frame:
    """The C structures of a call. Each call in progress uses one frame. `given` and `filled` are the input and
    output arrays that the structures point to. They stay bound until a call passes other arrays.
    """

    __slots__ = ("arena", "args", "filled", "given", "inputs", "internals", "messages", "outputs")

    def __init__(self, layer: NativeLayer, threads: int | None) -> None:
        self.arena = arena = Arena()
        self.messages = abi.Messages()
        self.inputs = [arena.tensor(s.seen, s.layout) for s in layer.inputs]
        self.outputs = [arena.tensor(s.seen, s.layout) for s in layer.results]
        self.internals = [np.empty(t.shape, t.dtype) for t in layer.internals]
        inside = [arena.tensor(t, data=address(x)) for t, x in zip(layer.internals, self.internals)]
        call = arena.call(threads or 0, self.inputs, self.outputs, inside)
        self.args = (layer.handle, ctypes.addressof(call), self.messages.at)
        self.given: list[Array | None] = [None] * len(self.inputs)
        self.filled: list[Array | None] = [None] * len(self.outputs)

    def bind(self, i: int, array: Array | None) -> None:
        """Point input i to an array, or to a copy of it if its memory is not contiguous and aligned."""
        self.given[i] = array
        if array is None:
            return
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned):
            array = self.given[i] = _align(array)
        self.inputs[i].data = address(array)


class LibraryCall:
    """A native layer as a step of a plan: one array per input gives one array per output.

    Several threads may call it. They take turns in the library unless the layer is reentrant. The first call
    checks that the layer writes all of its outputs and none of its inputs.
    """

    def __init__(self, layer: NativeLayer, threads: int | None) -> None:
        self._layer, self._threads = layer, threads
        self._function = layer.kernel.functions.forward
        alone = layer.configuration.reentrant or layer.library.takes_turns
        self._turn: Any = nullcontext() if alone else layer.library.turn
        self._frames: list[_Frame] = []
        self._outputs = [(slot.seen.shape, slot.seen.dtype) for slot in layer.results]
        self._none: list[Array | None] = [None] * len(self._outputs)
        self._plain = all(slot.plain for slot in [*layer.inputs, *layer.results])

    @property
    def direct(self) -> bool:
        """Whether forward may be called with the network's arrays, without conversions and checks."""
        return self._plain and self._layer.checked

    def __call__(self, inputs: Sequence[Array | None], out: Sequence[Array | None] | None = None) -> list[Array]:
        """Compute the outputs. An array in `out` of an output's type is written and returned for it."""
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self._layer, self._threads)
        try:
            if self._plain and self._layer.checked:
                return self._quick(frame, inputs, out)
            return self._careful(frame, inputs, out)
        finally:
            self._frames.append(frame)

    def _quick(
        self, frame: _Frame, inputs: Sequence[Array | None], out: Sequence[Array | None] | None
    ) -> list[Array]:
        """Call the layer without conversions and checks."""
        given, filled = frame.given, frame.filled
        for i, array in enumerate(inputs):
            if array is not given[i]:
                frame.bind(i, array)
        results: list[Array] = []
        for i, buffer in enumerate(self._none if out is None else out):
            if buffer is None:
                shape, dtype = self._outputs[i]
                buffer = np.empty(shape, dtype)
                frame.outputs[i].data = address(buffer)
                filled[i] = None
            elif buffer is not filled[i]:
                frame.outputs[i].data = address(buffer)
                filled[i] = buffer
            results.append(buffer)
        with self._turn:
            status = self._function(*frame.args)
        if status:
            raise self._failed(frame, status)
        return results

    def _failed(self, frame: _Frame, status: int) -> LayerError:
        return self._layer.failed(frame.messages.take() or f"forward ends with status {status} and no message")

    def _careful(
        self, frame: _Frame, inputs: Sequence[Array | None], out: Sequence[Array | None] | None
    ) -> list[Array]:
        """Call the layer with conversions; the first time, with checks."""
        layer = self._layer
        converted = [None if x is None else _converted_input(slot, x) for slot, x in zip(layer.inputs, inputs)]
        memory: list[Array] = []
        for i, slot in enumerate(layer.results):
            buffer = None if out is None or not slot.plain else out[i]
            memory.append(np.empty(slot.seen.shape, slot.seen.dtype) if buffer is None else buffer)
        if layer.checked:
            self._call(frame, converted, memory)
        else:
            self._checked(frame, converted, memory)
        results = []
        for i, (slot, array) in enumerate(zip(layer.results, memory)):
            buffer = None if out is None or slot.plain else out[i]
            results.append(_converted_output(slot, array, buffer))
        return results

    def _call(self, frame: _Frame, arrays: Sequence[Array | None], memory: Sequence[Array]) -> None:
        """Run forward on arrays in the dtypes and orders of axes of the layer's configuration."""
        frame.given, frame.filled = [None] * len(frame.inputs), [None] * len(frame.outputs)
        shared = {slot.in_place: array for slot, array in zip(self._layer.results, memory) if slot.in_place >= 0}
        for i, (tensor, array) in enumerate(zip(frame.inputs, arrays)):
            if array is not None and i in shared:
                np.copyto(shared[i], array)
                array = shared[i]
            if array is not None:
                tensor.data = address(array)
        for tensor, array in zip(frame.outputs, memory):
            tensor.data = address(array)
        with self._turn:
            status = self._function(*frame.args)
        if status:
            raise self._failed(frame, status)

    def _checked(self, frame: _Frame, arrays: Sequence[Array | None], memory: Sequence[Array]) -> None:
        """Run forward on copies of the inputs, in memory that shows what it omits, or writes outside."""
        layer = self._layer
        zones = [Guarded(slot.seen) for slot in layer.results]
        targets, memory = memory, [zone.array for zone in zones]
        copies = [None if x is None else x.copy() for x in arrays]
        fresh = [i for i, slot in enumerate(layer.results) if slot.in_place < 0]
        self._mark(frame, memory, 0)
        self._call(frame, copies, memory)
        for i, (x, copy) in enumerate(zip(arrays, copies)):
            if x is not None and copy is not None and x.tobytes() != copy.tobytes():
                raise layer.failed(f"forward writes to input {i}, which other layers may read")
        left = {i: marks(memory[i], 0) for i in fresh}
        if any(where.any() for i, where in left.items() if memory[i].dtype.kind != "f"):
            self._mark(frame, memory, 1)
            with redirected_stdout(drop=True):
                self._call(frame, [None if x is None else x.copy() for x in arrays], memory)
            for i in fresh:
                if memory[i].dtype.kind != "f":
                    left[i] &= marks(memory[i], 1)
        for i, where in left.items():
            count = int(np.count_nonzero(where))
            if count:
                raise layer.failed(
                    f"forward leaves {count} of {where.size} values of output {i} without a value: it must write "
                    "all of them, and read nothing from outputs and internal arrays that it has not written"
                )
        for i, (zone, target) in enumerate(zip(zones, targets)):
            if beside := zone.overwritten():
                raise layer.failed(f"forward writes to memory {beside} output {i}, which does not belong to it")
            np.copyto(target, zone.array)
        layer.checked = True

    def _mark(self, frame: _Frame, memory: Sequence[Array], turn: int) -> None:
        for slot, array in zip(self._layer.results, memory):
            if slot.in_place < 0:
                mark(array, turn)
        for array in frame.internals:
            mark(array, turn)


def _align(array: Array) -> Array:
    return np.array(array, order="C", copy=True)


def _converted_input(slot: Slot, array: Array) -> Array:
    """Return an input in the dtype and order of axes of the layer's configuration, as contiguous memory."""
    if slot.seen == ABSENT:
        return array
    turned = array if slot.order is None else array.transpose(slot.order)
    contiguous = np.ascontiguousarray(turned, slot.seen.dtype).reshape(slot.seen.shape)
    return contiguous if contiguous.flags.aligned else _align(contiguous)


def _converted_output(slot: Slot, array: Array, buffer: Array | None) -> Array:
    """Return an output in the network's dtype and order of axes. It is written to `buffer`, if one is given."""
    turned = array if slot.back is None else array.transpose(slot.back)
    if buffer is not None and buffer is not array:
        np.copyto(buffer, turned, casting="unsafe")
        return buffer
    return np.asarray(turned, slot.dtype, order="C")
