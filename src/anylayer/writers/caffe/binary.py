"""A .caffemodel: a network with its weights in protobuf's binary form (protobuf.dev/programming-guides/encoding).

Lengths are computed first, so that weights go from where they lie to the file without a copy of them all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.layer import Enum, Field
from anylayer.network import Array
from anylayer.writers.caffe.base import NET
from anylayer.writers.caffe.inference import Fields
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.text import fields_of, in_order, listed

MOST_BYTES = 2**31 - 1
"""Protobuf, and so Caffe, reads no message that is longer."""

_VARINT, _BYTES, _FIXED32, _FIXED64 = 0, 2, 5, 1
_LAYER, _BLOBS = 100, 7
_CHUNK = 1 << 22


def write_caffemodel(net: CaffeNet, handle: BinaryIO) -> None:
    """Write the network with its parameters and weights. Raises FileError where Caffe could not read so
    much."""
    _, fields = net.fields()
    head = encode(net.values(), NET)
    whole = net.dialect.name == "opencv"
    layers = [_Layer(x, declared, whole_shapes=whole) for x, declared in zip(net.layers, fields)]
    total = len(head) + sum(len(tag(_LAYER, _BYTES)) + len(varint(x.size)) + x.size for x in layers)
    need(
        total <= MOST_BYTES,
        f"the weights make a .caffemodel of {total} bytes, {MOST_BYTES} are the most that Caffe reads. "
        "Write ONNX (.onnx), which holds more",
        FileError,
    )
    handle.write(head)
    for layer in layers:
        handle.write(tag(_LAYER, _BYTES) + varint(layer.size))
        for part in layer.parts():
            handle.write(part)


class _Layer:
    """A layer's bytes, known by length before its weights are looked at."""

    def __init__(self, layer: CaffeLayer, fields: Fields, *, whole_shapes: bool = False) -> None:
        self.whole_shapes = whole_shapes
        with at(layer.place):
            self._encode(layer, fields)

    def _encode(self, layer: CaffeLayer, fields: Fields) -> None:
        if self.whole_shapes:  # OpenCV takes no blob without dimensions
            layer = replace(layer, blobs=[b.reshape(b.shape or (1,)) for b in layer.blobs])
        values = layer.values()
        before = {n: v for n, v in values.items() if n in fields and fields[n].number < _BLOBS}
        behind = {n: v for n, v in values.items() if n not in before}
        self.head, self.tail, self.blobs = encode(before, fields), encode(behind, fields), layer.blobs
        self.heads = [_blob_head(blob) for blob in self.blobs]
        self.size = (
            len(self.head) + len(self.tail) + sum(map(len, self.heads)) + sum(4 * b.size for b in self.blobs)
        )

    def parts(self) -> Iterator[Any]:
        yield self.head
        for head, blob in zip(self.heads, self.blobs):
            yield head
            yield from _chunks(blob)
        yield self.tail


def _blob_head(blob: Array) -> bytes:
    """Everything of a blob in its layer up to its values: its shape stands first."""
    dims = b"".join(varint(d) for d in blob.shape)
    shape = (tag(1, _BYTES) + varint(len(dims)) + dims) if blob.shape else b""
    head = tag(7, _BYTES) + varint(len(shape)) + shape
    head += tag(5, _BYTES) + varint(4 * blob.size)
    return tag(_BLOBS, _BYTES) + varint(len(head) + 4 * blob.size) + head


def _chunks(blob: Array) -> Iterator[Any]:
    if blob.dtype == np.float32 and blob.flags.c_contiguous:
        flat = blob.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            yield np.ascontiguousarray(flat[start : start + _CHUNK], "<f4").data.cast("B")
        return
    yield np.ascontiguousarray(blob, "<f4").reshape(-1).data.cast("B") if blob.size else b""


def encode(values: Mapping[str, Any], fields: Fields) -> bytes:
    """A message's fields. Those without a number are left out."""
    out = bytearray()
    for name in in_order(values, fields):
        declared = fields.get(name)
        if declared is None or declared.number <= 0:
            continue
        found = listed(values[name])
        if not isinstance(declared.kind, (type, Enum)) and declared.kind == "int64" and len(found) > 1:
            packed = b"".join(varint(int(v)) for v in found)
            out += tag(declared.number, _BYTES) + varint(len(packed)) + packed
            continue
        for one in found:
            out += _one(one, declared)
    return bytes(out)


_FIXED = {"double": "<d", "fixed64": "<Q", "sfixed64": "<q", "fixed32": "<I", "sfixed32": "<i"}


def _one(value: Any, declared: Field) -> bytes:
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


def tag(number: int, kind: int) -> bytes:
    """The key in front of a value."""
    return varint(number << 3 | kind)


def varint(value: int) -> bytes:
    """An integer in as few bytes as it takes; a negative one in ten."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
