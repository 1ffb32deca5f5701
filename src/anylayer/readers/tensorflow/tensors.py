"""TensorFlow's dtypes, shapes and tensors (framework/types.proto, tensor_shape.proto, tensor.proto)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.errors import FileError, need
from anylayer.network import Array
from anylayer.readers.tensorflow.messages import Record, numbers

NAMES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "qint8",
    12: "quint8",
    13: "qint32",
    14: "bfloat16",
    15: "qint16",
    16: "quint16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    20: "resource",
    21: "variant",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
}
"""DataType -> the dtype's name: NumPy's where NumPy has it."""

_SPELLED = {
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    "DT_HALF": "float16",
    **{f"DT_{name.upper()}": name for name in NAMES.values()},
}
_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMPY = frozenset({"float16", "float32", "float64", "bfloat16", "bool", *_INTEGERS})
"""The dtypes whose values are read; bfloat16 is read as float32."""
_QUANTIZED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}
"""The dtypes of quantised constants, and the dtype that their values are read as."""
_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "float16": "half_val",
    "bfloat16": "half_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
}
_MOST_AXES = 32
_MOST_FILLED = 1 << 26


def dtype_name(value: Any) -> str:
    """The name of a DataType, given as its number or as text spells it. A reference counts as its target."""
    if isinstance(value, str):
        found = _SPELLED.get(value.removesuffix("_REF"))
        need(found is not None, f"there is no dtype '{value[:40]}'", FileError)
        return found or ""
    number = int(value) % 100 if 100 < int(value) < 200 else int(value)
    return NAMES.get(number, f"dtype {number}")


def shape_of(record: Record) -> list[int | None] | None:
    """The sizes of a TensorShapeProto, None for an open one; None where not even the rank is known."""
    if record.last("unknown_rank", False):
        return None
    dims = record.all("dim")
    need(len(dims) <= _MOST_AXES, f"a shape of {len(dims)} sizes, {_MOST_AXES} are the most", FileError)
    sizes = [int(dim.last("size", 0)) for dim in dims]
    return [None if size < 0 else size for size in sizes]


def tensor(record: Record) -> Array:
    """The values of a TensorProto: a view of the file where they are stored as raw bytes or floats.

    Values that are not written repeat the last one, as TensorFlow has it. Quantised values are read as the whole
    numbers they are. Raises FileError where shape and values
    do not agree, or where the dtype is none of NUMPY.
    """
    name = dtype_name(record.last("dtype", 0))
    name = _QUANTIZED.get(name, name)
    need(name in NUMPY, f"values of {name} are not read", FileError)
    shape = shape_of(record.record("tensor_shape"))
    need(shape is not None and None not in shape, "a constant needs a known shape", FileError)
    sizes = tuple(int(d or 0) for d in shape or ())
    count = math.prod(sizes)
    if "tensor_content" in record:
        raw = record.last("tensor_content", np.zeros(0, np.uint8))
        if len(raw) or not count:
            return from_bytes(raw, name, sizes)
    values = _listed(record, name)
    need(
        len(values) <= count,
        f"has shape {sizes}, which is {count} values, but {len(values)} are stored",
        FileError,
    )
    return _filled(values, count).reshape(sizes)


def from_bytes(raw: Array, name: str, shape: tuple[int, ...]) -> Array:
    """Raw little-endian bytes as an array. Raises FileError where they are not as many as the shape says."""
    dtype = np.dtype("<u2") if name == "bfloat16" else np.dtype(name).newbyteorder("<")
    wanted = math.prod(shape) * dtype.itemsize
    need(
        len(raw) == wanted,
        f"has shape {shape} of {name}, which is {wanted} bytes, but {len(raw)} are stored",
        FileError,
    )
    values = raw.view(np.uint8) > 0 if name == "bool" else raw.view(dtype)
    return _widened(values, name).reshape(shape)


def _widened(values: Array, name: str) -> Array:
    """bfloat16 as float32."""
    if name != "bfloat16":
        return values
    wide: Array = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return wide


def _listed(record: Record, name: str) -> Array:
    """The values of the field that a dtype's values stand in."""
    values = numbers(record, _FIELDS.get(name, "int_val"))
    if name in ("float16", "bfloat16"):
        bits = values.astype(np.uint16)
        return bits.view(np.float16) if name == "float16" else _widened(bits, name)
    return values if values.dtype == np.dtype(name) else values.astype(np.dtype(name))


def _filled(values: Array, count: int) -> Array:
    """`count` values, of which the last one given repeats."""
    if len(values) == count:
        return values
    need(count < 1 << 31, f"claims {count} values, but {len(values)} are stored", FileError)
    if len(values) <= 1:
        return np.broadcast_to(values[0] if len(values) else values.dtype.type(0), (count,))
    need(count <= _MOST_FILLED, f"claims {count} values, but {len(values)} are stored", FileError)
    return np.concatenate([values, np.full(count - len(values), values[-1], values.dtype)])
