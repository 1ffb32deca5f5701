"""TensorFlow's dtypes, shapes and tensors.

Source: tensorflow/core/framework/types.proto, tensor_shape.proto, tensor.proto.
"""

from __future__ import annotations

import math

import numpy as np

from anylayer.errors import FileError, need, plural
from anylayer.network import MAX_RANK, Array, Shape, reshaped
from anylayer.readers._arrays import bfloat16_to_float32
from anylayer.readers._limits import MAX_REPEATED_VALUES
from anylayer.readers.tensorflow.messages import Record, numbers, schema

_SHORT = {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_HALF": "float16"}
_NAMES = {word: _SHORT.get(word, word.removeprefix("DT_").lower()) for word in schema().enums["DataType"].numbers}
"""The name of each DataType, which is NumPy's name if NumPy has the dtype."""
_BY_NUMBER = {number: _NAMES[word] for word, number in schema().enums["DataType"].numbers.items()}
_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
READABLE = frozenset({"float16", "float32", "float64", "bfloat16", "bool", *_INTEGERS})
"""The dtypes whose values are supported. bfloat16 is read as float32."""
_QUANTIZED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}
"""The dtypes of quantized constants, and the dtypes that their values are read as."""
_VALUE_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val",
    "float16": "half_val", "bfloat16": "half_val", "uint32": "uint32_val", "uint64": "uint64_val",
}  # fmt: skip
"""The field of a TensorProto that holds values of a dtype. It is int_val for the dtypes that are not listed."""


def dtype_name(value: int | str) -> str:
    """Return the name of a DataType, given as its number or as a text file's word ("DT_FLOAT").

    A reference type has the name of its target. Raise FileError for an unknown word.
    """
    if isinstance(value, str):
        name = _NAMES.get(value.removesuffix("_REF"))
        if name is None:
            raise FileError(f"there is no dtype '{value[:40]}'")
        return name
    number = int(value) % 100 if 100 < int(value) < 200 else int(value)
    return _BY_NUMBER.get(number, f"dtype {number}")


def shape_of(record: Record) -> list[int | None] | None:
    """Return the sizes of a TensorShapeProto. A dynamic size is None. Return None if the rank is unknown."""
    if record.last("unknown_rank", False):
        return None
    dims = record.all("dim")
    need(len(dims) <= MAX_RANK, f"the shape has {len(dims)} axes; the limit is {MAX_RANK}", FileError)
    sizes = [int(dim.last("size", 0)) for dim in dims]
    return [None if size < 0 else size for size in sizes]


def static_shape(record: Record) -> Shape:
    """Return the shape of a TensorShapeProto. Raise FileError if a size is dynamic or the rank is unknown."""
    sizes = shape_of(record)
    if sizes is None or None in sizes:
        raise FileError("stored values need a static shape")
    return tuple(size for size in sizes if size is not None)


def tensor_values(record: Record) -> Array:
    """Return the values of a TensorProto. They are a view of the file if they are stored as raw bytes or floats.

    If the file stores fewer values than the shape has, the last one repeats, as in TensorFlow. Quantized values
    are read as integers. Raise FileError if shape and values do not agree, or if the dtype is not supported.
    """
    name = dtype_name(record.last("dtype", 0))
    name = _QUANTIZED.get(name, name)
    need(name in READABLE, f"values of type {name} are not supported", FileError)
    shape = static_shape(record.record("tensor_shape"))
    count = math.prod(shape)
    if "tensor_content" in record:
        raw = record.last("tensor_content", np.zeros(0, np.uint8))
        if len(raw) or not count:
            return from_bytes(raw, name, shape)
    values = _stored_values(record, name)
    need(
        len(values) <= count,
        f"has shape {shape}, which is {plural(count, 'value')}, but {len(values)} are stored",
        FileError,
    )
    return reshaped(_repeat_last(values, count), shape)


def from_bytes(raw: Array, name: str, shape: Shape) -> Array:
    """Return little-endian bytes as an array. `raw` has dtype uint8, and `name` is the dtype of the values.

    Raise FileError if the number of bytes does not match the shape.
    """
    dtype = np.dtype("<u2") if name == "bfloat16" else np.dtype(name).newbyteorder("<")
    expected = math.prod(shape) * dtype.itemsize
    need(
        len(raw) == expected,
        f"has shape {shape} of {name}, which is {expected} bytes, but {len(raw)} are stored",
        FileError,
    )
    values = raw.view(np.uint8) > 0 if name == "bool" else raw.view(dtype)
    return reshaped(bfloat16_to_float32(values) if name == "bfloat16" else values, shape)


def _stored_values(record: Record, name: str) -> Array:
    """Return the values in the field of a TensorProto that holds values of dtype `name`."""
    values = numbers(record, _VALUE_FIELDS.get(name, "int_val"))
    if name in ("float16", "bfloat16"):
        bits = values.astype(np.uint16)
        return bits.view(np.float16) if name == "float16" else bfloat16_to_float32(bits)
    return values if values.dtype == np.dtype(name) else values.astype(np.dtype(name))


def _repeat_last(values: Array, count: int) -> Array:
    """Return `count` values: the given ones, and the last of them repeated. Without given values all are 0.

    A single value is broadcast without using memory.
    """
    if len(values) == count:
        return values
    need(count < 1 << 31, f"claims {count} values, but {len(values)} are stored", FileError)
    if len(values) <= 1:
        return np.broadcast_to(values[0] if len(values) else values.dtype.type(0), (count,))
    need(count <= MAX_REPEATED_VALUES, f"claims {count} values, but {len(values)} are stored", FileError)
    return np.concatenate([values, np.full(count - len(values), values[-1], values.dtype)])
