"""Write a prototxt, and a .caffemodel: the network with its weights in protobuf's binary format.

Lengths are computed first, so that each weight is written straight from its array, without a copy of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.network import Array
from anylayer.protobuf.binary import BYTES, Fields, encode, tag, varint
from anylayer.protobuf.text import message_lines
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.messages import NET_FIELDS

MAX_BYTES = 2**31 - 1
"""The length of the longest message that protobuf, and therefore Caffe, reads."""

_LAYER, _BLOBS = 100, 7
_CHUNK = 1 << 22


def prototxt(net: CaffeNet) -> str:
    """Return the network as a prototxt, without its weights."""
    _, fields = net.fields()
    lines = [*message_lines(net.values(), NET_FIELDS)]
    for layer, declared in zip(net.layers, fields):
        lines += ["layer {", *(f"  {line}" for line in message_lines(layer.values(), declared)), "}"]
    return "".join(f"{line}\n" for line in lines)


def write_caffemodel(net: CaffeNet, handle: BinaryIO) -> None:
    """Write the network with its parameters and weights. Raises FileError for more than Caffe can read."""
    _, fields = net.fields()
    head = encode(net.values(), NET_FIELDS)
    whole = net.dialect.name == "opencv"
    layers = [_LayerBytes(x, declared, whole_shapes=whole) for x, declared in zip(net.layers, fields)]
    total = len(head) + sum(len(tag(_LAYER, BYTES)) + len(varint(x.size)) + x.size for x in layers)
    need(
        total <= MAX_BYTES,
        f"the .caffemodel would have {total} bytes, but Caffe reads at most {MAX_BYTES}. "
        "Write ONNX (.onnx), which has no such limit",
        FileError,
    )
    handle.write(head)
    for layer in layers:
        handle.write(tag(_LAYER, BYTES) + varint(layer.size))
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
    shape = (tag(1, BYTES) + varint(len(dims)) + dims) if blob.shape else b""
    head = tag(7, BYTES) + varint(len(shape)) + shape
    head += tag(5, BYTES) + varint(4 * blob.size)
    return tag(_BLOBS, BYTES) + varint(len(head) + 4 * blob.size) + head


def _chunks(blob: Array) -> Iterator[bytes | memoryview]:
    if blob.dtype == np.float32 and blob.flags.c_contiguous:
        flat = blob.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            yield np.ascontiguousarray(flat[start : start + _CHUNK], "<f4").data.cast("B")
        return
    yield np.ascontiguousarray(blob, "<f4").reshape(-1).data.cast("B") if blob.size else b""
