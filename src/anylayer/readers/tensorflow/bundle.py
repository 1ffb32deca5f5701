"""The variables of a SavedModel or checkpoint: variables.index, a sorted table, and the shards it points into.

Source: tensorflow/core/util/tensor_bundle (the entries), core/lib/io/format.cc (the table: blocks of keys that
share their beginnings, found by an index block, found by the last 48 bytes).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.network import Array
from anylayer.readers._beside import need_within
from anylayer.readers._protobuf import Buffer
from anylayer.readers.tensorflow.messages import Record, decode
from anylayer.readers.tensorflow.tensors import NUMPY, dtype_name, from_bytes, shape_of

_FOOTER = 48
_MAGIC = bytes.fromhex("57fb808b247547db")
_TRAILER = 5
_MOST_KEYS = 1_000_000
_MOST_SHARDS = 10_000


class Bundle:
    """The tensors below a prefix ("variables/variables"), by key. Its files must lie in the folder of `model`."""

    def __init__(self, prefix: Path, model: Path | None = None) -> None:
        self.prefix = prefix
        self._index = Path(f"{prefix}.index")
        self._model = model or self._index
        need(
            self._index.is_file(),
            f"there is no {self._index.name} beside it, which tells its variables",
            FileError,
        )
        need_within(self._index, self._model, f"its table of variables {self._index.name}")
        with at(self._index.name):
            buffer = Buffer(self._index)
            self._entries: dict[bytes, Record] = {}
            self.shards = 1
            for key, start, stop in _table(buffer):
                if key:
                    self._entries[key] = decode(buffer, "BundleEntryProto", start, stop)
                    need(len(self._entries) <= _MOST_KEYS, f"more than {_MOST_KEYS} entries", FileError)
                else:
                    header = decode(buffer, "BundleHeaderProto", start, stop)
                    need(
                        header.last("endianness", 0) == 0,
                        "its numbers are big-endian, which is not read",
                        FileError,
                    )
                    self.shards = header.last("num_shards", 1)
            need(0 < self.shards <= _MOST_SHARDS, f"it claims {self.shards} shards", FileError)
        self._files: dict[int, Buffer] = {}

    def __contains__(self, key: str) -> bool:
        return key.encode() in self._entries

    def array(self, key: str) -> Array:
        """A tensor's values: a view of its shard."""
        entry = self._entries[key.encode()]
        with at(self._index.name), at(f"'{key}'"):
            dtype = dtype_name(entry.last("dtype", 0))
            need(dtype in NUMPY, f"values of {dtype} are not read", FileError)
            need("slices" not in entry, "is stored in slices, which are not put together", FileError)
            sizes = shape_of(entry.record("shape"))
            need(sizes is not None and None not in sizes, "has an open shape", FileError)
            buffer = self._shard(entry.last("shard_id", 0))
            start, size = entry.last("offset", 0), entry.last("size", 0)
            need(
                0 <= start <= buffer.size and 0 <= size <= buffer.size - start,
                f"lies at bytes {start} to {start + size}, its shard has {buffer.size}",
                FileError,
            )
            raw = np.frombuffer(buffer.data, np.uint8, size, start)
            return from_bytes(raw, dtype, tuple(int(d or 0) for d in sizes or ()))

    def _shard(self, number: int) -> Buffer:
        need(0 <= number < self.shards, f"lies in shard {number} of {self.shards}", FileError)
        if number not in self._files:
            path = Path(f"{self.prefix}.data-{number:05d}-of-{self.shards:05d}")
            need(path.is_file(), f"lies in {path.name}, which is missing", FileError)
            need_within(path, self._model, f"lies in {path.name}, which")
            self._files[number] = Buffer(path)
        return self._files[number]


def _table(buffer: Buffer) -> Iterator[tuple[bytes, int, int]]:
    """Every entry: its key, and where its value starts and ends."""
    size = buffer.size
    need(
        size >= _FOOTER and bytes(buffer.data[size - 8 : size]) == _MAGIC,
        "this is no table of variables: its last 8 bytes differ",
        FileError,
    )
    _, position = _handle(buffer, size - _FOOTER, size)
    index, _ = _handle(buffer, position, size)
    for _, start, stop in _block(buffer, *index):
        block, _ = _handle(buffer, start, stop)
        yield from _block(buffer, *block)


def _handle(buffer: Buffer, position: int, end: int) -> tuple[tuple[int, int], int]:
    """A block's first byte and length, and the position behind them."""
    start, position = buffer.varint(position, end)
    length, position = buffer.varint(position, end)
    need(
        length >= 4 and start + length + _TRAILER <= buffer.size,
        f"a block of {length} bytes at byte {start} does not lie in its {buffer.size} bytes",
        FileError,
    )
    return (start, length), position


def _block(buffer: Buffer, start: int, length: int) -> Iterator[tuple[bytes, int, int]]:
    need(buffer.data[start + length] == 0, "its blocks are compressed, which is not read", FileError)
    restarts = int.from_bytes(buffer.data[start + length - 4 : start + length], "little")
    end = start + length - 4 - 4 * restarts
    need(end >= start, f"a block of {length} bytes claims {restarts} points to start at", FileError)
    key, position = b"", start
    while position < end:
        shared, position = buffer.varint(position, end)
        fresh, position = buffer.varint(position, end)
        size, position = buffer.varint(position, end)
        need(
            shared <= len(key) and fresh + size <= end - position,
            f"the entry at byte {position} does not lie in its block",
            FileError,
        )
        key = key[:shared] + bytes(buffer.data[position : position + fresh])
        position += fresh
        yield key, position, position + size
        position += size
