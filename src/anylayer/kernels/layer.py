"""A layer type of a library, and an instance of it for one node and one set of input types."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import LayerError, need, plural
from anylayer.kernels import abi
from anylayer.kernels.call import CompiledKernel, LibraryCall, Slot
from anylayer.kernels.library import Library, LibraryType
from anylayer.kernels.negotiation import Edge, Negotiation, is_turned
from anylayer.kernels.params import Arena, need_known, need_sizes, node_of
from anylayer.layer.order import permutation, permuted
from anylayer.network import ABSENT, MAX_VALUES, DType, Function, Node, Shape, TensorType

_MAX_INTERNALS = 1000
"""The largest number of internal arrays of a layer."""


class NativeType(LibraryType):
    """A layer type that a library defines. Calling it makes a NativeLayer."""

    def __init__(self, library: Library, name: str) -> None:
        self.library, self.type = library, name
        self.origin = library.path
        self.functions = library.types[name]
        self.__doc__ = (self.functions.description or b"").decode("utf-8", "replace")

    def __call__(
        self,
        node: Node,
        types: Sequence[TensorType],
        dtype: DType | None = None,
        outputs: Sequence[TensorType] | None = None,
    ) -> NativeLayer:
        """Create an instance for a node and these input types. `dtype` is the element type of all values, for
        formats that have only one. Raises LayerError.
        """
        return NativeLayer(self, node, types, dtype)

    def __repr__(self) -> str:
        return f"<layer type {self.type!r} of {self.library.name}>"


class NativeLayer(CompiledKernel):
    """An instance of a native layer type: one node, one set of input types.

    `outputs` are the types of the outputs in the file's order of axes. `configuration` is the one that the layer
    has accepted, and `notes` says which arrays are converted for it.
    """

    def __init__(self, kernel: NativeType, node: Node, types: Sequence[TensorType], dtype: DType | None) -> None:
        self.kernel, self.node, self.types = kernel, node, tuple(types)
        self.library, self.name = kernel.library, kernel.library.name
        self.notes: list[str] = []
        self.checked = False
        self._arena = Arena()
        self._messages = abi.Messages()
        self._need_sizes()
        with self.library.turn:
            self.handle = self._create_instance()
            self._try(self._prepare, dtype)

    @property
    def takes_any_order(self) -> bool:
        """Whether the engine may pass the network's arrays to forward in any order of axes."""
        plain = all(slot.plain for slot in [*self.inputs, *self.results])
        return self.configuration.elementwise and plain and not self.internals

    def _need_sizes(self) -> None:
        for i, kind in enumerate(self.types):
            self._try(need_sizes, kind, f"input {i}")
            if kind != ABSENT:
                need_known(kind.dtype, f"input {i}")

    def _try(self, function: Function, *args: Any) -> Any:
        """Call a function; a LayerError that it raises names the library."""
        try:
            return function(*args)
        except LayerError as error:
            if not error.message.startswith(f"{self.name}: "):
                error.message = f"{self.name}: {error.message}"
            raise

    def call(self, name: str, *args: Any) -> None:
        """Call a function of the type. Raise LayerError with the library's message where it does not succeed."""
        status = getattr(self.kernel.functions, name)(*args, self._messages.at)
        text = self._messages.take()
        if status != abi.OK:
            raise self.error(text or f"{name} ends with status {status} and no message")

    def _create_instance(self) -> int:
        instance = ctypes.c_void_p()
        arguments = self._try(node_of, self._arena, self.node, self.types)
        self.call("create", ctypes.addressof(arguments), ctypes.addressof(instance))
        if not instance.value:
            raise self.error("create returned neither an instance nor a message")
        weakref.finalize(self, self.kernel.functions.destroy, instance.value)
        return instance.value

    def _prepare(self, dtype: DType | None) -> None:
        """Negotiate a configuration, get the output shapes, and call the layer's preparation for them."""
        self.configuration = Negotiation(self.kernel.functions, self.handle, self.node, self.types).agreed()
        self.inputs = [self._slot(e, t) for e, t in zip(self.configuration.inputs, self.types)]
        shapes, internals = self._shapes()
        base = next((t.dtype for t in self.types if t.dtype.kind == "f"), np.dtype(np.float32))
        self.outputs = []
        self.results: list[Slot] = []
        for edge, shape in zip(self.configuration.outputs, shapes):
            seen = abi.DTYPES.get(edge.dtype, self.types[0].dtype if self.types else base)
            network_dtype = dtype or (base if seen.kind == "f" else seen)
            slot = Slot(
                TensorType(shape, seen),
                network_dtype,
                edge.in_place,
                self._permutation(edge, len(shape)),
                edge.layout,
            )
            self.results.append(slot)
            self.outputs.append(slot.file_type)
        self._check_in_place()
        self._check_elementwise()
        self.internals = [TensorType(shape, np.dtype(np.float32)) for shape in internals]
        self._finalize()
        self._note()

    def _slot(self, edge: Edge, kind: TensorType) -> Slot:
        """Return the conversion of an input."""
        if kind == ABSENT:
            return Slot(ABSENT, kind.dtype, -1, None, abi.ANY)
        seen = abi.DTYPES.get(edge.dtype, kind.dtype)
        shape = kind.shape
        if is_turned(self.node, edge, len(shape)):
            shape = permuted(shape, self.node.layout, abi.LAYOUTS[edge.layout])
        return Slot(TensorType(shape, seen), kind.dtype, -1, self._permutation(edge, len(shape)), edge.layout)

    def _permutation(self, edge: Edge, rank: int) -> tuple[int, ...] | None:
        """Return the permutation from the file's order of axes to the layer's, or None if both are the same."""
        if not is_turned(self.node, edge, rank):
            return None
        return permutation(self.node.layout, abi.LAYOUTS[edge.layout])

    def _shapes(self) -> tuple[list[Shape], list[Shape]]:
        """Return the shapes that the layer states for outputs and internal arrays, in its order of axes."""
        tensors = [self._arena.tensor(slot.seen, slot.layout) for slot in self.inputs]
        stated = abi.Shapes(0, 0, 0, None, None)
        count = len(self.node.outputs)
        at = self._arena.structures(tensors)
        self.call("shapes", self.handle, at, len(tensors), count, ctypes.addressof(stated))
        need(
            stated.output_count == count,
            f"getMemoryShapes returns {plural(stated.output_count, 'shape')}, "
            f"the node has {plural(count, 'output')}",
        )
        need(
            stated.internal_count <= _MAX_INTERNALS,
            f"getMemoryShapes asks for {stated.internal_count} internal arrays",
        )
        outputs = [_shape_of(at, f"output {i}") for i, at in enumerate(_addresses(stated.outputs, count))]
        inside = _addresses(stated.internals, stated.internal_count)
        internals = [_shape_of(at, f"internal array {i}") for i, at in enumerate(inside)]
        if all(math.prod(t.shape) for t in self.types if t != ABSENT):
            for i, shape in enumerate(outputs):
                need(math.prod(shape), f"getMemoryShapes returns {shape} for output {i}, which has no elements")
        return outputs, internals

    def _check_in_place(self) -> None:
        for i, slot in enumerate(self.results):
            if slot.in_place >= 0:
                source = self.inputs[slot.in_place].seen
                need(
                    source == slot.seen,
                    f"output {i} is {slot.seen} and shares the memory of input {slot.in_place}, which is {source}",
                )

    def _check_elementwise(self) -> None:
        """Raise LayerError where an elementwise layer has arrays of several shapes."""
        if self.configuration.elementwise:
            shapes = list(dict.fromkeys(slot.seen.shape for slot in [*self.inputs, *self.results]))
            need(len(shapes) == 1, f"states that it is elementwise, and has arrays of the shapes {shapes}")

    def _finalize(self) -> None:
        if not self.kernel.functions.finalize:
            return
        arena = Arena()
        tensors = [[arena.tensor(s.seen, s.layout) for s in slots] for slots in (self.inputs, self.results)]
        self.call("finalize", self.handle, ctypes.addressof(arena.call(0, *tensors)))

    def _note(self) -> None:
        """Add notes on the conversions that the configuration needs."""
        for what, slots in (("input", self.inputs), ("output", self.results)):
            for i, slot in enumerate(slots):
                if slot.order is not None:
                    seen = f"{abi.LAYOUTS[slot.layout]} {list(slot.seen.shape)}"
                    self.notes.append(
                        f"{self.library.name} sees {what} {i} as {seen}, the file has {self.node.layout}: "
                        "it is transposed in each call"
                    )
                if slot.seen != ABSENT and slot.seen.dtype != slot.dtype:
                    self.notes.append(
                        f"{self.library.name} has {what} {i} as {slot.seen.dtype}, the network has {slot.dtype}: "
                        "it is cast in each call"
                    )

    def program(self, threads: int | None = None) -> LibraryCall:
        """Return a function that computes the layer: one array per input gives a list with one array per output.
        It uses at most `threads` threads; None leaves the number to the layer."""
        return LibraryCall(self, threads)


def _addresses(at: int | None, count: int) -> list[int]:
    """Return the pointers of an array of pointers."""
    if not count:
        return []
    need(at, "getMemoryShapes returns a number of shapes, but no shapes")
    return [a or 0 for a in (ctypes.c_void_p * count).from_address(at or 0)]


def _shape_of(at: int, what: str) -> Shape:
    """Return the shape at an address that the library gives. Raise LayerError if it is not a valid shape."""
    need(at, f"getMemoryShapes returns no shape for {what}")
    stated = abi.CShape.from_address(at)
    need(0 <= stated.rank <= abi.MAX_RANK, f"{what} has {stated.rank} axes, 0 to {abi.MAX_RANK} are possible")
    need(stated.sizes or not stated.rank, f"getMemoryShapes returns no sizes for {what}")
    shape = tuple((ctypes.c_int64 * stated.rank).from_address(stated.sizes)) if stated.rank else ()
    need(all(d >= 0 for d in shape), f"getMemoryShapes returns {shape} for {what}, a size cannot be negative")
    need(math.prod(shape) <= MAX_VALUES, f"getMemoryShapes returns {shape} for {what}, which is too large")
    return shape
