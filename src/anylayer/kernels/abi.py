"""The binary interface of native layers for ctypes, read from `sdk/include/anylayer/abi.h`."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np

from anylayer.kernels.compiler import sdk

_HEADER = re.sub(r"/\*.*?\*/", "", (sdk() / "include/anylayer/abi.h").read_text("utf-8"), flags=re.DOTALL)
_CONSTANTS = {name: int(number) for name, number in re.findall(r"ANYLAYER_(\w+)(?: =)? (\d+)", _HEADER)}


def _numbers(names: str) -> list[int]:
    """Return constants of the header by their names without the prefix."""
    return [_CONSTANTS[name] for name in names.split()]


VERSION, MAX_RANK = _numbers("ABI MAX_RANK")
ENTRY = "anylayer_library_entry"
OK, NOT_IMPLEMENTED, NOT_FOUND = _numbers("OK NOT_IMPLEMENTED NOT_FOUND")
ANY, NCHW, NHWC, BLOCKED = _numbers("ANY_LAYOUT NCHW NHWC BLOCKED")
LAYOUTS = {ANY: "any", NCHW: "NCHW", NHWC: "NHWC", BLOCKED: "blocked"}
DYNAMIC_BATCH, REENTRANT, ELEMENTWISE, TAKES_TURNS = _numbers("DYNAMIC_BATCH REENTRANT ELEMENTWISE TAKES_TURNS")
NONE, FLAG, INTEGER, REAL, STRING, MESSAGE, TENSOR = _numbers("NONE FLAG INTEGER REAL STRING MESSAGE TENSOR")

_DTYPES = "float16 float32 float64 bool int8 int16 int32 int64 uint8 uint16 uint32 uint64"
NUMBERS: dict[np.dtype[Any], int] = {np.dtype(name): _CONSTANTS[name.upper()] for name in _DTYPES.split()}
"""The numbers of the binary interface for dtypes."""
DTYPES: dict[int, np.dtype[Any]] = {number: dtype for dtype, number in NUMBERS.items()}
"""The dtypes by these numbers."""

STR, PTR = ctypes.c_char_p, ctypes.c_void_p
_SCALARS = {
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    **dict.fromkeys(("int32_t", "anylayer_status"), ctypes.c_int32),
    "void": None,
    "anylayer_log": PTR,
}
LOG = ctypes.CFUNCTYPE(None, STR)


class Structure(ctypes.Structure):
    """A C structure whose first field is its own size, which is set automatically."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(ctypes.sizeof(type(self)), *args, **fields)


def _type(declaration: str) -> Any:
    """Return the type of a parameter or field: a number, a text, or a pointer, whatever it points to."""
    if "*" not in declaration:
        return _SCALARS[declaration.split()[0]]
    return STR if declaration.count("*") == 1 and "char " in declaration else PTR


def _field(declaration: str) -> tuple[str, object]:
    """Return the name and type of a structure's field: a function, an array of characters, or a simple type."""
    function = re.fullmatch(r"(\w+) \(\*(\w+)\)\((.*)\)", declaration)
    if function is not None:
        result, name, parameters = function.groups()
        types = [] if parameters == "void" else map(_type, parameters.split(","))
        return name, ctypes.CFUNCTYPE(_type(result), *types)
    array = re.fullmatch(r"char (\w+)\[ANYLAYER_(\w+)\]", declaration)
    if array is not None:
        return array[1], ctypes.c_char * _CONSTANTS[array[2]]
    return declaration.replace("*", " ").split()[-1], _type(declaration)


def _structure(name: str) -> type[Structure]:
    """Return a structure of the header."""
    body = re.search(rf"typedef struct anylayer_{name} {{(.*?)}}", _HEADER, re.DOTALL)
    declarations = "" if body is None else " ".join(body[1].split())
    fields = [_field(one.strip()) for one in declarations.split(";") if one.strip()]
    return type(name, (Structure,), {"_fields_": fields})


Text, CTensor, CShape = _structure("message"), _structure("tensor"), _structure("shape")
Param, Params, CNode = _structure("param"), _structure("params"), _structure("node")
CEdge, CConfiguration, Shapes = _structure("edge"), _structure("configuration"), _structure("shapes")
CCall, Embedded, Type, CLibrary = (_structure(name) for name in ("call", "embedded", "type", "library"))
REPORT = type(Embedded().report)
"""The type of the function that an engine's operator calls back."""


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
