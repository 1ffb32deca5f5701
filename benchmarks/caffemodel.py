"""Write a .caffemodel by hand, so that Caffe importers read the weights that a network was filled with.

Field numbers are from BVLC Caffe's caffe.proto: NetParameter.name 1, .layer 100; LayerParameter.name 1, .type 2,
.blobs 7; BlobProto.data 5 (packed float), .shape 7; BlobShape.dim 1 (packed int64).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from anylayer.protobuf.binary import varint

Blob = NDArray[np.float32]
_BYTES = 2  # protobuf's wire type of everything written here


def head(number: int, size: int) -> bytes:
    """Return the tag and length that precede `size` bytes of field `number`."""
    return varint(number << 3 | _BYTES) + varint(size)


def _blob_head(shape: Sequence[int]) -> tuple[bytes, int]:
    """Return a blob's bytes up to its data, and the number of bytes of data that follow."""
    dims = b"".join(varint(d) for d in shape)
    message = head(1, len(dims)) + dims
    size = 4 * int(np.prod(shape))
    return head(7, len(message)) + message + head(5, size), size


def write(path: Path, name: str, layers: Iterable[tuple[str, str, Sequence[Blob]]]) -> None:
    """Write a network's weights: (layer name, layer type, blobs) for each layer. Blobs are written as they are
    generated, so a file may be larger than the memory.
    """
    with path.open("wb") as file:
        file.write(head(1, len(name.encode())) + name.encode())
        for layer, kind, blobs in layers:
            _layer(file, layer.encode(), kind.encode(), blobs)


def _layer(file: BinaryIO, name: bytes, kind: bytes, blobs: Sequence[Blob]) -> None:
    start = head(1, len(name)) + name + head(2, len(kind)) + kind
    heads = [_blob_head(blob.shape) for blob in blobs]
    sizes = [len(first) + size for first, size in heads]
    total = len(start) + sum(len(head(7, size)) + size for size in sizes)
    file.write(head(100, total) + start)
    for blob, size, (first, _) in zip(blobs, sizes, heads):
        file.write(head(7, size) + first)
        np.ascontiguousarray(blob, "<f4").tofile(file)
