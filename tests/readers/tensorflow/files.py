"""Encode GraphDefs in protobuf's binary format."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.readers.files import varint


def field(number: int, value: bytes | str | int) -> bytes:
    """Return a field: a varint for an int, otherwise a length and the bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


TYPES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int64": 9, "bool": 10, "float16": 19, "string": 7}


def shape(*sizes: int) -> bytes:
    return b"".join(field(2, field(1, size)) for size in sizes)


def tensor(array: Any) -> bytes:
    array = np.asarray(array)
    return field(1, TYPES[array.dtype.name]) + field(2, shape(*array.shape)) + field(4, array.tobytes())


def attr(value: Any) -> bytes:
    """Return an AttrValue. Bytes are returned as they are, and the name of a dtype becomes a type."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return field(5, int(value))
    if isinstance(value, int):
        return field(3, value)
    if isinstance(value, float):
        return varint(4 << 3 | 5) + np.float32(value).tobytes()
    if isinstance(value, list):
        return field(1, b"".join(field(3, v) for v in value))
    return field(6, TYPES[value]) if value in TYPES else field(2, value)


def node(name: str, op: str, *inputs: str, **attrs: Any) -> bytes:
    """Return a NodeDef."""
    data = field(1, name) + field(2, op) + b"".join(field(3, i) for i in inputs)
    return data + b"".join(field(5, field(1, k) + field(2, attr(v))) for k, v in attrs.items())


def const(name: str, value: Any) -> bytes:
    value = np.asarray(value)
    return node(name, "Const", dtype=value.dtype.name, value=field(8, tensor(value)))


def placeholder(name: str, *sizes: int, dtype: str = "float32") -> bytes:
    return node(name, "Placeholder", dtype=dtype, shape=field(7, shape(*sizes)))


def graph(*nodes: bytes, library: bytes = b"") -> bytes:
    """Return a GraphDef."""
    return b"".join(field(1, n) for n in nodes) + (field(2, library) if library else b"")


def function(name: str, arguments: list[str], results: dict[str, str], *nodes: bytes) -> bytes:
    """Return a FunctionDef. `results` maps its outputs to the values inside the function."""
    signature = field(1, name) + b"".join(field(2, field(1, a)) for a in arguments)
    signature += b"".join(field(3, field(1, r)) for r in results)
    returned = b"".join(field(4, field(1, k) + field(2, v)) for k, v in results.items())
    return field(1, signature) + b"".join(field(3, n) for n in nodes) + returned


def library(*functions: bytes) -> bytes:
    return b"".join(field(1, f) for f in functions)


def calls(name: str) -> bytes:
    """Return the attribute `f` of a call."""
    return field(10, field(1, name))
