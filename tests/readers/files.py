"""Write prototxts, and encode protobuf messages field by field, for the tests of the Caffe reader."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anylayer.network import Network, Node
from anylayer.readers.caffe import read

INPUT = 'layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }\n'


def read_net(text: str | bytes, weights: str | Path | bytes | None = None, **options: Any) -> Network:
    """Write `text` to deploy.prototxt in the current folder, and read it as a network."""
    Path("deploy.prototxt").write_bytes(text.encode() if isinstance(text, str) else text)
    if isinstance(weights, bytes):
        Path("net.caffemodel").write_bytes(weights)
        weights = "net.caffemodel"
    return read(Path("deploy.prototxt"), Path(weights) if weights is not None else None, **options)


def node(network: Network, name: str) -> Node:
    """Return the node with a name."""
    return next(n for n in network.nodes if n.name == name)


def varint(value: int) -> bytes:
    """Return a varint."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(number: int, value: int) -> bytes:
    """Return a varint field."""
    return varint(number << 3) + varint(value)


def message(number: int, *parts: bytes) -> bytes:
    """Return a length-delimited field whose value is the concatenation of the parts."""
    body = b"".join(parts)
    return varint(number << 3 | 2) + varint(len(body)) + body


def string(number: int, value: str) -> bytes:
    """Return a string field."""
    return message(number, value.encode())


def floats(number: int, values: Iterable[float]) -> bytes:
    """Return a packed float field."""
    return message(number, *(struct.pack("<f", v) for v in values))


def loose_floats(number: int, values: Iterable[float]) -> bytes:
    """Return a repeated float field that is not packed."""
    return b"".join(varint(number << 3 | 5) + struct.pack("<f", v) for v in values)


def doubles(number: int, values: Iterable[float]) -> bytes:
    """Return a packed double field."""
    return message(number, *(struct.pack("<d", v) for v in values))


def shape(*dims: int) -> bytes:
    """Return the field BlobProto.shape, with packed sizes."""
    return message(7, message(1, *(varint(d) for d in dims)))


def blob(dims: Iterable[int], values: Iterable[float]) -> bytes:
    """Return the field LayerParameter.blobs, with a shape and packed floats."""
    return message(7, shape(*dims), floats(5, values))


def layer(name: str, *parts: bytes, type_: str = "InnerProduct") -> bytes:
    """Return the field NetParameter.layer."""
    return message(100, string(1, name), string(2, type_), *parts)
