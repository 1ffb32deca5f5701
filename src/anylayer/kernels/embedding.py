"""A layer of a library as an operator inside an engine's graph."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.kernels import abi
from anylayer.kernels.layer import NativeLayer
from anylayer.kernels.params import Arena
from anylayer.network import ABSENT, Array, TensorType
from anylayer.numerics import largest_error, tolerance_for

_NUMBER = re.compile(r"anylayer error (\d+)\.")
_MAX_KEPT = 8  # exceptions


class Errors:
    """Exceptions raised inside an engine's operator, while the engine passes on only their text or nothing.

    `count` is the number of exceptions so far. The last `_MAX_KEPT` are kept.
    """

    def __init__(self) -> None:
        self._kept: dict[int, BaseException] = {}
        self._numbers = itertools.count(1)
        self.count = 0

    def keep(self, error: BaseException) -> int:
        """Store an exception, and return its number. `count` grows last, so that other threads find it."""
        number = next(self._numbers)
        self._kept[number] = error
        self._kept.pop(number - _MAX_KEPT, None)
        self.count = number
        return number

    def named_in(self, text: str) -> BaseException | None:
        """Return the exception whose number is in the engine's error message, or None."""
        match = _NUMBER.search(text)
        return self._kept.pop(int(match[1]), None) if match else None

    def since(self, count: int) -> BaseException | None:
        """Return the last exception if there were more than `count`, else None. If several threads run a model at
        the same time, all of them get it."""
        return self._kept.get(self.count) if self.count != count else None


def is_embeddable(kernel: object) -> bool:
    """Return whether a native layer can be an operator of a graph. Its library must be in this process and contain
    the SDK's C++ code (Library.takes_turns), and no optional input may be left out."""
    return isinstance(kernel, NativeLayer) and kernel.library.takes_turns and ABSENT not in kernel.types


class EmbeddedLibrary:
    """The structure through which an engine's operator calls a native layer: see anylayer_embedded in abi.h. The
    operator gets its `address`. After the first call is checked, it calls `forward` of the library directly if no
    array must be converted. Otherwise it calls back into Python.

    order: the permutation from the file's order of axes to the one in which the engine passes the arrays; None if
    both are the same. Only a layer that `takes_any_order` may have one. Its first call compares both orders.
    """

    def __init__(
        self, layer: NativeLayer, threads: int | None, errors: Errors, order: Sequence[int] | None = None
    ) -> None:
        self._program, self._errors = layer.program(threads), errors
        self.library = str(layer.library.file)
        self._layer, self._order = layer, order
        arena = Arena()
        self._inputs = [_in_order(slot.file_type, order) for slot in layer.inputs]
        self._outputs = [_in_order(slot.file_type, order) for slot in layer.results]
        self._tensors = [
            [arena.tensor(kind, slot.layout) for kind, slot in zip(kinds, slots)]
            for kinds, slots in ((self._inputs, layer.inputs), (self._outputs, layer.results))
        ]
        internals = [arena.tensor(kind) for kind in layer.internals]
        self._call = arena.call(threads or 0, self._tensors[0], self._tensors[1], internals)
        forward, at = layer.kernel.functions.forward, ctypes.addressof(self._call)
        self._struct = abi.Embedded(0, forward, layer.handle, at, abi.REPORT(self._report))
        self._kept = arena
        self.address = ctypes.addressof(self._struct)

    def _report(self, inputs: int | None, outputs: int | None, text: bytes | None) -> int:
        """Compute the outputs; or take the message of a call of `forward`. Return the number of an error, or 0."""
        try:
            if text is not None:
                raise self._layer.failed(
                    text.decode("utf-8", "replace") or "forward returns an error without a message"
                )
            self._run(_arrays(inputs, self._inputs), _arrays(outputs, self._outputs))
            self._struct.direct = self._program.direct
        except BaseException as error:
            return self._errors.keep(error)
        return 0

    def _run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Compute the outputs. Raise LayerError if they depend on the order of axes in which the arrays are."""
        if self._order is None:
            self._program(inputs, outputs)
            return
        back = np.argsort(self._order)
        want = self._program([np.ascontiguousarray(x.transpose(back)) for x in inputs])
        for tensor, array in zip([*self._tensors[0], *self._tensors[1]], [*inputs, *outputs]):
            tensor.data = array.ctypes.data
        with self._layer.library.turn:
            self._layer.call("forward", self._layer.handle, ctypes.addressof(self._call))
        for i, (y, other) in enumerate(zip(outputs, want)):
            if largest_error(y.transpose(back), other) > tolerance_for(y.dtype):
                raise self._layer.failed(
                    f"states that it is elementwise, but computes another output {i} where the channels are last"
                )


def _in_order(kind: TensorType, order: Sequence[int] | None) -> TensorType:
    return kind if order is None else TensorType(tuple(kind.shape[i] for i in order), kind.dtype)


def _arrays(at: int | None, types: Sequence[TensorType]) -> list[Array]:
    """Return arrays over the memory that an array of pointers points to."""
    addresses: Any = (ctypes.c_void_p * len(types)).from_address(at or 0) if types else ()
    return [_array(address, kind) for address, kind in zip(addresses, types)]


def _array(address: int | None, kind: TensorType) -> Array:
    size = int(np.prod(kind.shape)) * kind.dtype.itemsize
    if not size or not address:
        return np.empty(kind.shape, kind.dtype)
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.ndarray(kind.shape, kind.dtype, memory)
