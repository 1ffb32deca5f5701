"""A node's params, blobs and input types as structures of the binary interface."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from anylayer.errors import LayerError, need
from anylayer.kernels import abi
from anylayer.network import ABSENT, Array, DType, Flag, Node, TensorType

T = TypeVar("T")
_INT64 = range(-(1 << 63), 1 << 63)


class Arena:
    """C structures and the objects that they point to, which live as long as the arena."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def keep(self, value: T) -> T:
        """Keep a value and return it."""
        self._kept.append(value)
        return value

    def array(self, kind: Any, values: Sequence[Any]) -> int | None:
        """Return the address of an array of C values, or None for an empty list."""
        return abi.address(self.keep((kind * len(values))(*values))) if values else None

    def structures(self, made: Sequence[Any]) -> int | None:
        """Return the address of an array of pointers to C structures, or None for an empty list."""
        return abi.address(self.keep(abi.pointers(self.keep(list(made)))))

    def tensor(
        self, kind: TensorType, layout: int = abi.ANY, data: int | None = None, name: str = ""
    ) -> abi.Structure:
        """Return a tensor of this type; rank -1 for an optional input that is left out."""
        if kind == ABSENT:
            return self.keep(abi.CTensor(abi.ANY, -1, abi.ANY, None, None, b""))
        sizes = self.array(ctypes.c_int64, kind.shape)
        return self.keep(abi.CTensor(abi.NUMBERS[kind.dtype], len(kind.shape), layout, sizes, data, _bytes(name)))

    def call(
        self, threads: int, inputs: Sequence[Any], outputs: Sequence[Any], internals: Sequence[Any] = ()
    ) -> abi.Structure:
        """Return a call of a layer with these tensors."""
        tensors = inputs, outputs, internals
        return self.keep(abi.CCall(threads, *map(len, tensors), 0, *map(self.structures, tensors)))


def address(array: Any) -> int:
    """Return the address of a contiguous array's memory. NumPy's own ways take 1.4 and 3 us, this one 0.3."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError, BufferError):  # read-only or empty
        return array.ctypes.data


def need_sizes(kind: TensorType, what: str) -> None:
    """Raise LayerError for a size that depends on data."""
    rule = f"{what} is {kind}, whose size depends on data. A native layer needs all sizes in advance"
    need(all(isinstance(d, int) for d in kind.shape), rule)


def need_known(dtype: DType, what: str) -> None:
    """Raise LayerError for an element type that the interface does not have."""
    if dtype not in abi.NUMBERS:
        raise LayerError(f"{what} is {dtype}, which native layers do not support")


def node_of(arena: Arena, node: Node, types: Sequence[TensorType]) -> abi.Structure:
    """Return the structure that an instance is created from. Floating blobs are float32 and contiguous."""
    blobs = []
    for i, blob in enumerate(node.blobs):
        array = np.array(blob, np.float32 if blob.dtype.kind == "f" else blob.dtype, order="C")
        need_known(array.dtype, f"blob {i}")
        blobs.append(_tensor_of(arena, array, node.blob_names[i] if i < len(node.blob_names) else ""))
    inputs = [arena.tensor(kind) for kind in types]
    structure = abi.CNode(
        len(node.outputs),
        _bytes(node.name),
        _bytes(node.type),
        abi.address(_params(arena, [node.params, node.defaults])),
        len(blobs),
        len(inputs),
        arena.structures(blobs),
        arena.structures(inputs),
    )
    return arena.keep(structure)


def _tensor_of(arena: Arena, array: Array, name: str = "") -> abi.Structure:
    arena.keep(array)
    return arena.tensor(TensorType(array.shape, array.dtype), data=address(array), name=name)


def _params(arena: Arena, sources: Sequence[Mapping[str, Any]]) -> abi.Structure:
    """Return all the parameters of messages: their own first, then those of the messages inside them."""
    entries: dict[tuple[str, bool], abi.Structure] = {}

    def put(values: Mapping[str, Any]) -> None:
        nested: list[Mapping[str, Any]] = []
        for name, value in values.items():
            messages = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, Mapping)]
            nested += messages
            key = (name, bool(messages))
            if key not in entries:
                entries[key] = _messages(arena, name, messages) if messages else _param(arena, name, value)
        for message in nested:
            put(message)

    for source in sources:
        put(source)
    return arena.keep(abi.Params(len(entries), arena.structures(list(entries.values()))))


def _messages(arena: Arena, name: str, messages: Sequence[Mapping[str, Any]]) -> abi.Structure:
    params = arena.structures([_params(arena, [message]) for message in messages])
    several = int(len(messages) > 1)
    return arena.keep(abi.Param(abi.MESSAGE, len(messages), several, _bytes(name), None, None, None, params, None))


def _param(arena: Arena, name: str, value: Any) -> abi.Structure:
    """Return a parameter: a value, a list of values, or an array."""
    if isinstance(value, np.ndarray) and value.ndim:
        array = np.ascontiguousarray(value)
        need_known(array.dtype, f"parameter '{name}'")
        tensors = arena.structures([_tensor_of(arena, array)])
        return arena.keep(abi.Param(abi.TENSOR, 1, 0, _bytes(name), None, None, None, None, tensors))
    several = isinstance(value, (list, tuple))
    values = [_scalar(v) for v in (value if several else [value])]
    values = [] if values == [None] else values
    kind = _kind(values)
    integers = reals = None
    if kind in (abi.FLAG, abi.INTEGER):
        _need_small(name, values)
        integers = arena.array(ctypes.c_int64, [int(v) for v in values])
    if kind in (abi.FLAG, abi.INTEGER, abi.REAL):
        reals = arena.array(ctypes.c_double, [float(v) for v in values])
    texts = [arena.keep(_bytes(_param_text(v))) for v in values]
    strings = arena.array(ctypes.c_char_p, texts)
    structure = abi.Param(kind, len(values), int(several), _bytes(name), integers, reals, strings, None, None)
    return arena.keep(structure)


def _scalar(value: Any) -> Any:
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    return value.item() if isinstance(value, np.generic) else value


def _kind(values: Sequence[Any]) -> int:
    """Return the kind of a list of values: the narrowest that holds them all."""
    if not values:
        return abi.NONE
    if all(isinstance(v, (bool, Flag)) for v in values):
        return abi.FLAG
    if all(isinstance(v, int) for v in values):
        return abi.INTEGER
    if all(isinstance(v, (int, float)) for v in values):
        return abi.REAL
    return abi.STRING


def _need_small(name: str, values: Sequence[Any]) -> None:
    large = next((v for v in values if int(v) not in _INT64), None)
    if large is not None:
        raise LayerError(f"parameter '{name}' is {large}, which does not fit into 64 bits")


def _param_text(value: Any) -> str:
    if isinstance(value, (bool, Flag)):
        return "true" if value else "false"
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _bytes(text: str) -> bytes:
    """Return text as a C string: up to the first NUL character."""
    return text.encode("utf-8", "replace").split(b"\0")[0]
