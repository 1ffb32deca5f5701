"""What the reader's tests write: prototxts, and protobuf's bytes put together by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anylayer.network import Network, Node
from anylayer.readers.caffe import read

SHARED = Path(__file__).parents[3] / "shared"

INPUT = 'layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }\n'


def read_net(text: str | bytes, weights: str | Path | bytes | None = None, **options: Any) -> Network:
    """Read a network from the current folder's deploy.prototxt, written with `text`."""
    Path("deploy.prototxt").write_bytes(text.encode() if isinstance(text, str) else text)
    if isinstance(weights, bytes):
        Path("net.caffemodel").write_bytes(weights)
        weights = "net.caffemodel"
    return read(Path("deploy.prototxt"), Path(weights) if weights is not None else None, **options)


def node(network: Network, name: str) -> Node:
    """The node of that name."""
    return next(n for n in network.nodes if n.name == name)


def varint(value: int) -> bytes:
    """A protobuf varint."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(number: int, value: int) -> bytes:
    """A varint field."""
    return varint(number << 3) + varint(value)


def message(number: int, *parts: bytes) -> bytes:
    """A length-delimited field: a message of these parts, or bytes."""
    body = b"".join(parts)
    return varint(number << 3 | 2) + varint(len(body)) + body


def string(number: int, value: str) -> bytes:
    """A string field."""
    return message(number, value.encode())


def floats(number: int, values: Iterable[float]) -> bytes:
    """A packed float field."""
    return message(number, *(struct.pack("<f", v) for v in values))


def loose_floats(number: int, values: Iterable[float]) -> bytes:
    """A float field that is not packed."""
    return b"".join(varint(number << 3 | 5) + struct.pack("<f", v) for v in values)


def doubles(number: int, values: Iterable[float]) -> bytes:
    """A packed double field."""
    return message(number, *(struct.pack("<d", v) for v in values))


def shape(*dims: int) -> bytes:
    """BlobProto.shape, packed."""
    return message(7, message(1, *(varint(d) for d in dims)))


def blob(dims: Iterable[int], values: Iterable[float]) -> bytes:
    """LayerParameter.blobs: a shape and packed floats."""
    return message(7, shape(*dims), floats(5, values))


def layer(name: str, *parts: bytes, type_: str = "InnerProduct") -> bytes:
    """NetParameter.layer."""
    return message(100, string(1, name), string(2, type_), *parts)
