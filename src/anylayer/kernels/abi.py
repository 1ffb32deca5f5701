"""The structures of `sdk/include/anylayer/abi.h` for ctypes, field by field."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

VERSION = 1
"""The version of the binary interface."""
ENTRY = "anylayer_library_entry"
OK, ERROR, NOT_IMPLEMENTED, NOT_FOUND = range(4)
MAX_RANK = 32  # axes of a tensor
NAME_SIZE = 64
ANY = 0
NCHW, NHWC, BLOCKED = 1, 2, 3
LAYOUTS = {ANY: "any", NCHW: "NCHW", NHWC: "NHWC", BLOCKED: "blocked"}
DYNAMIC_BATCH, REENTRANT, ELEMENTWISE = 1, 2, 4
TAKES_TURNS = 1
NONE, FLAG, INTEGER, REAL, STRING, MESSAGE, TENSOR = range(7)

_NUMBERS = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13,
}  # fmt: skip
NUMBERS: dict[np.dtype[Any], int] = {np.dtype(name): number for name, number in _NUMBERS.items()}
"""The numbers of the binary interface for dtypes."""
DTYPES: dict[int, np.dtype[Any]] = {number: dtype for dtype, number in NUMBERS.items()}
"""The dtypes by these numbers."""


class Structure(ctypes.Structure):
    """A C structure whose first field is its own size, which is set automatically."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(ctypes.sizeof(type(self)), *args, **fields)


U32, I32, STR, PTR = ctypes.c_uint32, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p


class Text(Structure):
    _fields_ = (("struct_size", U32), ("capacity", U32), ("text", STR))


class CTensor(Structure):
    _fields_ = (
        ("struct_size", U32),
        ("dtype", I32),
        ("rank", I32),
        ("layout", I32),
        ("sizes", PTR),
        ("data", PTR),
        ("name", STR),
    )


class Param(Structure):
    _fields_ = (
        ("struct_size", U32),
        ("kind", I32),
        ("count", U32),
        ("list", U32),
        ("name", STR),
        ("integers", PTR),
        ("reals", PTR),
        ("strings", PTR),
        ("messages", PTR),
        ("tensors", PTR),
    )


class Params(Structure):
    _fields_ = (("struct_size", U32), ("count", U32), ("entries", PTR))


class CNode(Structure):
    _fields_ = (
        ("struct_size", U32),
        ("output_count", U32),
        ("name", STR),
        ("type", STR),
        ("params", PTR),
        ("blob_count", U32),
        ("input_count", U32),
        ("blobs", PTR),
        ("inputs", PTR),
    )


class CEdge(Structure):
    _fields_ = (("struct_size", U32), ("dtype", I32), ("layout", I32), ("in_place", I32))


class CConfiguration(Structure):
    _fields_ = (
        ("struct_size", U32),
        ("flags", U32),
        ("implementation", U32),
        ("input_count", U32),
        ("output_count", U32),
        ("reserved", U32),
        ("inputs", PTR),
        ("outputs", PTR),
        ("name", ctypes.c_char * NAME_SIZE),
    )


class CShape(Structure):
    _fields_ = (("struct_size", U32), ("rank", I32), ("sizes", PTR))


class Shapes(Structure):
    _fields_ = (
        ("struct_size", U32),
        ("in_place", I32),
        ("output_count", U32),
        ("internal_count", U32),
        ("outputs", PTR),
        ("internals", PTR),
    )


class CCall(Structure):
    _fields_ = (
        ("struct_size", U32),
        ("threads", U32),
        ("input_count", U32),
        ("output_count", U32),
        ("internal_count", U32),
        ("reserved", U32),
        ("inputs", PTR),
        ("outputs", PTR),
        ("internals", PTR),
        ("host", PTR),
    )


REPORT = ctypes.CFUNCTYPE(ctypes.c_uint64, PTR, PTR, STR)


class Embedded(Structure):
    _fields_ = (
        ("struct_size", U32),
        ("direct", U32),
        ("forward", PTR),
        ("instance", PTR),
        ("call", PTR),
        ("report", REPORT),
    )


CREATE = ctypes.CFUNCTYPE(I32, PTR, PTR, PTR)
DESTROY = ctypes.CFUNCTYPE(None, PTR)
CONFIGURATION = ctypes.CFUNCTYPE(I32, PTR, U32, PTR, PTR)
SELECT = ctypes.CFUNCTYPE(I32, PTR, PTR, PTR)
SHAPES = ctypes.CFUNCTYPE(I32, PTR, PTR, U32, U32, PTR, PTR)
CALL = ctypes.CFUNCTYPE(I32, PTR, PTR, PTR)
LOG = ctypes.CFUNCTYPE(None, STR)
SET_LOG = ctypes.CFUNCTYPE(None, PTR)
UNLOAD = ctypes.CFUNCTYPE(None)


class Type(Structure):
    _fields_ = (
        ("struct_size", U32),
        ("reserved", U32),
        ("name", STR),
        ("description", STR),
        ("create", CREATE),
        ("destroy", DESTROY),
        ("configuration", CONFIGURATION),
        ("select", SELECT),
        ("shapes", SHAPES),
        ("finalize", CALL),
        ("forward", CALL),
    )


class CLibrary(Structure):
    _fields_ = (
        ("struct_size", U32),
        ("abi", U32),
        ("version", STR),
        ("description", STR),
        ("type_count", U32),
        ("flags", U32),
        ("types", PTR),
        ("set_log", SET_LOG),
        ("unload", UNLOAD),
    )


def pointers(structures: list[Any]) -> Any:
    """Return an array of pointers to structures, or None for an empty list. The caller must keep both alive."""
    if not structures:
        return None
    return (ctypes.c_void_p * len(structures))(*map(ctypes.addressof, structures))


def address(array: Any) -> int | None:
    """Return the address of a ctypes array or structure as a field holds it, None for None."""
    return None if array is None else ctypes.addressof(array)


class Messages:
    """A buffer for the error message of a call."""

    __slots__ = ("_buffer", "_text", "at")

    def __init__(self, capacity: int = 4096) -> None:
        self._buffer = ctypes.create_string_buffer(capacity)
        self._text = Text(capacity, ctypes.cast(self._buffer, ctypes.c_char_p))
        self.at = ctypes.addressof(self._text)

    def take(self) -> str:
        """Return the message and clear the buffer."""
        text = self._buffer.value.decode("utf-8", "replace").strip()
        self._buffer.value = b""
        return text
