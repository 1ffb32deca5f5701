"""Write a .caffemodel: a network with its weights in protobuf's binary format.

Lengths are computed first, so that each weight is written straight from its array, without a copy of all of them.
Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.layer import Enum, Field
from anylayer.libraries.varint import varint
from anylayer.network import Array
from anylayer.writers.caffe.field_types import Fields, as_list
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.messages import NET_FIELDS
from anylayer.writers.caffe.text import fields_of, in_order

MAX_BYTES = 2**31 - 1
"""The length of the longest message that protobuf, and therefore Caffe, reads."""

_VARINT, _BYTES, _FIXED32, _FIXED64 = 0, 2, 5, 1
_LAYER, _BLOBS = 100, 7
_CHUNK = 1 << 22


def write_caffemodel(net: CaffeNet, handle: BinaryIO) -> None:
    """Write the network with its parameters and weights. Raises FileError for more than Caffe can read."""
    _, fields = net.fields()
    head = encode(net.values(), NET_FIELDS)
    whole = net.dialect.name == "opencv"
    layers = [_LayerBytes(x, declared, whole_shapes=whole) for x, declared in zip(net.layers, fields)]
    total = len(head) + sum(len(tag(_LAYER, _BYTES)) + len(varint(x.size)) + x.size for x in layers)
    need(
        total <= MAX_BYTES,
        f"the .caffemodel would have {total} bytes, but Caffe reads at most {MAX_BYTES}. "
        "Write ONNX (.onnx), which has no such limit",
        FileError,
    )
    handle.write(head)
    for layer in layers:
        handle.write(tag(_LAYER, _BYTES) + varint(layer.size))
        for part in layer.parts():
            handle.write(part)


class _LayerBytes:
    """A layer's bytes. Their number, `size`, is known before the weights are read."""

    def __init__(self, layer: CaffeLayer, fields: Fields, *, whole_shapes: bool = False) -> None:
        self.whole_shapes = whole_shapes
        with at(layer.place):
            self._encode(layer, fields)

    def _encode(self, layer: CaffeLayer, fields: Fields) -> None:
        if self.whole_shapes:  # OpenCV refuses a blob without dimensions
            layer = replace(layer, blobs=[b.reshape(b.shape or (1,)) for b in layer.blobs])
        values = layer.values()
        first = {n: v for n, v in values.items() if n in fields and fields[n].number < _BLOBS}
        last = {n: v for n, v in values.items() if n not in first}
        self.head, self.tail, self.blobs = encode(first, fields), encode(last, fields), layer.blobs
        self.heads = [_blob_head(blob) for blob in self.blobs]
        self.size = (
            len(self.head) + len(self.tail) + sum(map(len, self.heads)) + sum(4 * b.size for b in self.blobs)
        )

    def parts(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes in pieces."""
        yield self.head
        for head, blob in zip(self.heads, self.blobs):
            yield head
            yield from _chunks(blob)
        yield self.tail


def _blob_head(blob: Array) -> bytes:
    """Return the bytes that precede the elements of a blob in its layer: tag, length and shape."""
    dims = b"".join(varint(d) for d in blob.shape)
    shape = (tag(1, _BYTES) + varint(len(dims)) + dims) if blob.shape else b""
    head = tag(7, _BYTES) + varint(len(shape)) + shape
    head += tag(5, _BYTES) + varint(4 * blob.size)
    return tag(_BLOBS, _BYTES) + varint(len(head) + 4 * blob.size) + head


def _chunks(blob: Array) -> Iterator[bytes | memoryview]:
    if blob.dtype == np.float32 and blob.flags.c_contiguous:
        flat = blob.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            yield np.ascontiguousarray(flat[start : start + _CHUNK], "<f4").data.cast("B")
        return
    yield np.ascontiguousarray(blob, "<f4").reshape(-1).data.cast("B") if blob.size else b""


def encode(values: Mapping[str, Any], fields: Fields) -> bytes:
    """Return a message's fields in binary form. Fields without a number are omitted."""
    out = bytearray()
    for name in in_order(values, fields):
        declared = fields.get(name)
        if declared is None or declared.number <= 0:
            continue
        found = as_list(values[name])
        if not isinstance(declared.kind, (type, Enum)) and declared.kind == "int64" and len(found) > 1:
            packed = b"".join(varint(int(v)) for v in found)
            out += tag(declared.number, _BYTES) + varint(len(packed)) + packed
            continue
        for one in found:
            out += _encode_value(one, declared)
    return bytes(out)


_FIXED = {"double": "<d", "fixed64": "<Q", "sfixed64": "<q", "fixed32": "<I", "sfixed32": "<i"}


def _encode_value(value: Any, declared: Field) -> bytes:
    """Return one value of a field in binary form, with its tag."""
    kind, number = declared.kind, declared.number
    if isinstance(value, Mapping):
        inner = encode(value, fields_of(declared))
        return tag(number, _BYTES) + varint(len(inner)) + inner
    if isinstance(kind, Enum):
        return tag(number, _VARINT) + varint(kind.numbers[value] if isinstance(value, str) else int(value))
    if kind in ("string", "bytes") or (kind == "any" and isinstance(value, str)):
        text = str(value).encode()
        return tag(number, _BYTES) + varint(len(text)) + text
    if kind == "bool":
        return tag(number, _VARINT) + varint(int(value in (1, "t", "True", "true")))
    if kind == "float" or (kind == "any" and isinstance(value, float)):
        with np.errstate(over="ignore"):
            return tag(number, _FIXED32) + bytes(np.float32(value).astype("<f4").tobytes())
    if kind != "double":
        whole = isinstance(value, (int, np.integer, np.bool_))
        need(whole, f"parameter '{declared.name}' must be an integer, got {value}")
    if kind in _FIXED:
        form = _FIXED[str(kind)]
        return tag(number, _FIXED64 if form in ("<d", "<Q", "<q") else _FIXED32) + struct.pack(form, value)
    whole_number = int(value)
    if kind in ("sint32", "sint64"):
        whole_number = 2 * whole_number if whole_number >= 0 else -2 * whole_number - 1
    return tag(number, _VARINT) + varint(whole_number)


def tag(number: int, wire_type: int) -> bytes:
    """Return the tag before a value: field number and wire type."""
    return varint(number << 3 | wire_type)
