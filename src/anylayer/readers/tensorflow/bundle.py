"""The variables of a SavedModel or checkpoint: an .index file with a sorted table, and the data files (shards).

The table consists of blocks of entries. The keys of a block share prefixes. An index block locates the other
blocks, and the last 48 bytes of the file locate the index block.

Source: tensorflow/core/util/tensor_bundle (the entries), tensorflow/core/lib/io/format.cc (the table).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.network import Array
from anylayer.protobuf.binary import MappedFile
from anylayer.readers._folder import need_in_folder
from anylayer.readers._limits import MAX_CHECKPOINT_KEYS, MAX_CHECKPOINT_SHARDS
from anylayer.readers.tensorflow.messages import Record, decode
from anylayer.readers.tensorflow.tensors import READABLE, dtype_name, from_bytes, static_shape

_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
"""Bytes after each block: its compression and its checksum."""
_MAGIC = bytes.fromhex("57fb808b247547db")


class Bundle:
    """The tensors whose files begin with `prefix` ("variables/variables"), by key.

    The files must lie in the folder of `model`.
    """

    def __init__(self, prefix: Path, model: Path | None = None) -> None:
        self.prefix = prefix
        self._index = Path(f"{prefix}.index")
        self._model = model or self._index
        need(self._index.is_file(), f"the file {self._index.name} with its variables is missing", FileError)
        need_in_folder(self._index, self._model, f"its table of variables {self._index.name}")
        with at(self._index.name):
            buffer = MappedFile(self._index)
            self._entries: dict[bytes, Record] = {}
            self.shards = 1
            for key, start, stop in _table(buffer):
                if key:
                    self._entries[key] = decode(buffer, "BundleEntryProto", start, stop)
                    rule = f"the table has more than {MAX_CHECKPOINT_KEYS} entries"
                    need(len(self._entries) <= MAX_CHECKPOINT_KEYS, rule, FileError)
                else:
                    header = decode(buffer, "BundleHeaderProto", start, stop)
                    need(
                        header.last("endianness", 0) == 0,
                        "its numbers are big-endian, which is not supported",
                        FileError,
                    )
                    self.shards = header.last("num_shards", 1)
            rule = f"it claims {self.shards} shards, expected 1 to {MAX_CHECKPOINT_SHARDS}"
            need(0 < self.shards <= MAX_CHECKPOINT_SHARDS, rule, FileError)
        self._files: dict[int, MappedFile] = {}

    def __contains__(self, key: str) -> bool:
        return key.encode() in self._entries

    def array(self, key: str) -> Array:
        """Return the values of a tensor. They are a view of the mapped shard where possible."""
        entry = self._entries[key.encode()]
        with at(self._index.name), at(f"'{key}'"):
            dtype = dtype_name(entry.last("dtype", 0))
            need(dtype in READABLE, f"values of type {dtype} are not supported", FileError)
            need("slices" not in entry, "the tensor is stored in slices, which is not supported", FileError)
            shape = static_shape(entry.record("shape"))
            buffer = self._shard(entry.last("shard_id", 0))
            start, size = entry.last("offset", 0), entry.last("size", 0)
            need(
                0 <= start <= buffer.size and 0 <= size <= buffer.size - start,
                f"the tensor is at bytes {start} to {start + size}, but its shard has {buffer.size} bytes",
                FileError,
            )
            raw = np.frombuffer(buffer.data, np.uint8, size, start)
            return from_bytes(raw, dtype, shape)

    def _shard(self, number: int) -> MappedFile:
        need(0 <= number < self.shards, f"the tensor is in shard {number}, but there are {self.shards}", FileError)
        if number not in self._files:
            path = Path(f"{self.prefix}.data-{number:05d}-of-{self.shards:05d}")
            need(path.is_file(), f"the tensor is in {path.name}, which is missing", FileError)
            need_in_folder(path, self._model, f"the tensor is in {path.name}, which")
            self._files[number] = MappedFile(path)
        return self._files[number]


def _table(buffer: MappedFile) -> Iterator[tuple[bytes, int, int]]:
    """Yield every entry of the table: its key, and the start and end of its value."""
    size = buffer.size
    need(
        size >= _FOOTER_BYTES and bytes(buffer.data[size - 8 : size]) == _MAGIC,
        "this is not a table of variables: its last 8 bytes differ",
        FileError,
    )
    _, position = _handle(buffer, size - _FOOTER_BYTES, size)
    index, _ = _handle(buffer, position, size)
    for _, start, stop in _block(buffer, *index):
        block, _ = _handle(buffer, start, stop)
        yield from _block(buffer, *block)


def _handle(buffer: MappedFile, position: int, end: int) -> tuple[tuple[int, int], int]:
    """Return the start and the length of the block that a handle locates, and the position after the handle."""
    start, position = buffer.varint(position, end)
    length, position = buffer.varint(position, end)
    need(
        length >= 4 and start + length + _TRAILER_BYTES <= buffer.size,
        f"a block of {length} bytes at byte {start} exceeds the file's {buffer.size} bytes",
        FileError,
    )
    return (start, length), position


def _block(buffer: MappedFile, start: int, length: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the entries of a block: the key, and the start and end of the value."""
    need(buffer.data[start + length] == 0, "its blocks are compressed, which is not supported", FileError)
    restarts = int.from_bytes(buffer.data[start + length - 4 : start + length], "little")
    end = start + length - 4 - 4 * restarts
    need(end >= start, f"a block of {length} bytes claims {restarts} restart points", FileError)
    key, position = b"", start
    while position < end:
        shared, position = buffer.varint(position, end)
        unshared, position = buffer.varint(position, end)
        size, position = buffer.varint(position, end)
        need(
            shared <= len(key) and unshared + size <= end - position,
            f"the entry at byte {position} exceeds its block",
            FileError,
        )
        key = key[:shared] + bytes(buffer.data[position : position + unshared])
        position += unshared
        yield key, position, position + size
        position += size
