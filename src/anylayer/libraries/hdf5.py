"""Read HDF5 files with pyfive. A damaged file raises an exception; libhdf5 would end the process.

This is the only file that imports pyfive, and it does so when a file is opened. Links to other files are not
followed. Arrays that are stored without a filter are views of the mapped file. The bytes that are read and
unpacked are limited in proportion to the size of the file.
"""

from __future__ import annotations

import io
import math
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from anylayer.errors import AnyLayerError, FileError, at, need
from anylayer.network import Array, DType, reshaped

T = TypeVar("T")

_MAX_RATIO = 100
"""The limit for the size of unpacked values, relative to the size of the file. Packed weights are hardly
smaller."""
_MIN_LIMIT = 1 << 26
"""Bytes that any file may unpack to."""
_BYTES_PER_READ = 64
"""What each read adds to the bytes that are counted."""
_MAX_MEMBERS = 1 << 20  # groups and datasets of a file
_UNDEFINED_ADDRESS = (1 << 64) - 1
"""The address of values that are not in the file."""
_DEFLATE, _SHUFFLE, _FLETCHER32 = 1, 2, 3


@contextmanager
def opened(path: Path, data: Array | None = None, size: int = 0) -> Iterator[Group]:
    """Open an HDF5 file, and yield its root group.

    data: the bytes of the HDF5 file, where it is inside the archive `path`. size: the number of bytes that it
    takes in the archive. Raises FileError for what cannot be read.
    """
    with at(str(path)):
        try:
            import pyfive
        except ImportError:
            raise FileError("to read HDF5 files: pip install pyfive") from None
        whole = mapped(path) if data is None else data
        source = _Source(pyfive, whole, max(_MIN_LIMIT, _MAX_RATIO * (size or len(whole))))
        yield Group(_read(lambda: pyfive.File(_Part(whole))), source)


def mapped(path: Path) -> Array:
    """Return the bytes of a file as a memory map. The map is private, so that OpenVINO, which shares weights only
    from writable memory, cannot change the file."""
    need(path.stat().st_size > 0, "the file is empty", FileError)
    return np.memmap(path, np.uint8, "c")


_REMEDY = "write the file again with h5py.File(path, 'w') and compression=None or 'gzip'"
_FILTERS = {4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf", 32001: "blosc", 32004: "lz4", 32015: "zstd"}
"""Registered filters of HDF5 that are not read."""


def _read(function: Callable[[], T]) -> T:
    """Call pyfive. Any exception that it raises for a damaged file becomes a FileError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()
    except AnyLayerError:
        raise
    except NotImplementedError as error:
        raise FileError(f"this is not a readable HDF5 file: {error!s:.200}") from error
    except Exception as error:
        if isinstance(error, AssertionError) or "layout class" in str(error):
            rule = (
                "a part of it is damaged, or a link leads to another file, which is not followed, or its arrays "
                f"have the layout of libver='latest'; {_REMEDY}"
            )
            raise FileError(f"this is not a readable HDF5 file: {rule}") from None
        raise FileError("this is not a readable HDF5 file: its structure is damaged") from error


@dataclass(slots=True)
class _Source:
    """An open file: its bytes, and the numbers of bytes and of members that may still be read."""

    pyfive: Any
    whole: Array
    unpackable: int
    members: int = _MAX_MEMBERS

    def take(self, size: int, what: str) -> None:
        """Count unpacked bytes. Raise FileError above the limit. `what` names the array."""
        self.unpackable -= size
        need(
            self.unpackable >= 0,
            f"{what} unpacks to {size} bytes; the limit for the whole file is {_MAX_RATIO} times its size",
            FileError,
        )


class _Part(io.RawIOBase):
    """Bytes as a file object. The bytes that are read are limited, because a structure may have a cycle."""

    def __init__(self, data: Array) -> None:
        self._data, self._at = memoryview(data.data), 0
        self._left = _MIN_LIMIT + _BYTES_PER_READ * len(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        begin = min(max(self._at, 0), len(self._data))
        stop = len(self._data) if size is None or size < 0 else min(begin + size, len(self._data))
        self._left -= _BYTES_PER_READ + stop - begin
        need(self._left >= 0, "its structure contains a cycle", FileError)
        self._at += stop - begin
        return bytes(self._data[begin:stop])


class Group:
    """A group of an HDF5 file: members by name, and attributes."""

    def __init__(self, raw: Any, source: _Source) -> None:
        self._raw, self._source = raw, source
        self._members: dict[str, Group | Dataset | None] = {}
        self._attributes: dict[str, Any] | None = None
        self._names: dict[str, None] = _read(lambda: dict.fromkeys(raw))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def member(self, path: str) -> Group | Dataset | None:
        """Return a member by its path in the group, or None where there is none."""
        member: Group | Dataset | None = self
        for name in filter(None, path.split("/")):
            member = member._member(name) if isinstance(member, Group) else None
        return member

    def _member(self, name: str) -> Group | Dataset | None:
        if name not in self._members:
            self._source.members -= 1
            need(self._source.members >= 0, f"it has more than {_MAX_MEMBERS} members", FileError)
            self._members[name] = self._enter(name)
        return self._members[name]

    def _enter(self, name: str) -> Group | Dataset | None:
        if name not in self or name in (".", ".."):
            return None
        raw = _read(lambda: self._raw.get_lazy_view(name))
        if isinstance(raw, self._source.pyfive.Dataset):
            return Dataset(raw, self._source)
        return Group(raw, self._source) if isinstance(raw, self._source.pyfive.Group) else None

    def has(self, name: str) -> bool:
        """Return whether there is an attribute."""
        return name in self._attrs()

    def text(self, name: str) -> str:
        """Return an attribute that is a string; "" where there is none."""
        return _text(self._attrs().get(name))

    def texts(self, name: str) -> list[str] | None:
        """Return an attribute that is a list of strings, or None where there is none.

        An attribute holds at most 64 KiB, so Keras splits a longer list into attributes name0, name1, ...
        """
        held = self._attrs()
        names = [name]
        if name not in held:
            names = []
            while f"{name}{len(names)}" in held:
                names.append(f"{name}{len(names)}")
        if not names:
            return None
        pieces = [np.asarray(held[piece]).reshape(-1).tolist() for piece in names]
        return [_text(item) for piece in pieces for item in piece]

    def _attrs(self) -> dict[str, Any]:
        if self._attributes is None:
            self._attributes = _read(lambda: dict(self._raw.attrs))
        return self._attributes


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


class Dataset:
    """An array in an HDF5 file."""

    def __init__(self, raw: Any, source: _Source) -> None:
        self._raw, self._source = raw, source
        self.shape: tuple[int, ...] = tuple(_read(lambda: raw.shape) or ())
        self.dtype: DType = _read(lambda: np.dtype(raw.dtype))

    def values(self, what: str) -> Array:
        """Return the values: a view of the mapped file where they are stored unchanged, and a copy otherwise.

        Raises FileError for values in another file, for shapes that need more bytes than the file has, and for
        filters other than deflate, shuffle and Fletcher32. `what` names the array in messages.
        """
        need(self.dtype.kind in "fiub", f"{what} holds {self.dtype}, expected numbers", FileError)
        layout = _read(lambda: self._raw.id.layout_class)
        need(layout in (0, 1, 2), f"{what} keeps its values in another file", FileError)
        if layout == 2:
            return self._read_chunks(what)
        if layout == 1:
            return self._contiguous(what)
        return reshaped(np.asarray(_read(lambda: self._raw[()]), self.dtype), self.shape)

    def _contiguous(self, what: str) -> Array:
        start = _read(lambda: int(self._raw.id.data_offset))
        size = math.prod(self.shape) * self.dtype.itemsize
        if not size:
            return reshaped(np.zeros(0, self.dtype), self.shape)
        need(
            start != _UNDEFINED_ADDRESS,
            f"{what} claims shape {self.shape}, 0 bytes are stored in this file",
            FileError,
        )
        whole = self._source.whole
        need(
            start + size <= len(whole),
            f"{what} claims shape {self.shape}, {size} bytes at byte {start}; the file has {len(whole)}",
            FileError,
        )
        data = whole[start : start + size]
        if data.ctypes.data % self.dtype.alignment:
            data = data.copy()
        seen: Array = reshaped(data.view(self.dtype), self.shape)
        return seen if self.dtype.isnative else seen.astype(self.dtype.newbyteorder("="))

    def _read_chunks(self, what: str) -> Array:
        """Return the values of an array that is stored in chunks."""
        ident = self._raw.id
        chunk = tuple(_read(lambda: ident.chunks) or ())
        need(
            len(chunk) == len(self.shape) and all(c > 0 for c in chunk),
            f"{what} of shape {self.shape} has chunks of shape {chunk}",
            FileError,
        )
        index = _read(lambda: dict(ident.index))
        steps = [range(0, d, c) for d, c in zip(self.shape, chunk)]
        count = math.prod(-(-d // c) for d, c in zip(self.shape, chunk))
        stored = sum(int(one.size) for one in index.values())
        need(
            len(index) >= count,
            f"{what} claims shape {self.shape}, {stored} bytes are stored in this file",
            FileError,
        )
        self._source.take(math.prod(self.shape) * self.dtype.itemsize, what)
        values = reshaped(np.empty(math.prod(self.shape), self.dtype.newbyteorder("=")), self.shape)
        filters = [(f["filter_id"], f.get("client_data", ())) for f in ident.filter_pipeline or ()]
        for place in product(*steps) if count else ():
            need(place in index, f"{what} lacks its chunk at {place}", FileError)
            cut = tuple(slice(p, p + c) for p, c in zip(place, chunk))
            part = values[cut]
            one = self._chunk(index[place], chunk, filters, what)
            part[...] = one[tuple(slice(n) for n in part.shape)]
        return values

    def _chunk(self, stored: Any, chunk: tuple[int, ...], filters: list[Any], what: str) -> Array:
        start, size = int(stored.byte_offset), int(stored.size)
        whole, size_of_values = self._source.whole, math.prod(chunk) * self.dtype.itemsize
        need(start + size <= len(whole), f"{what} has a chunk that ends after the end of the file", FileError)
        self._source.take(size_of_values, what)
        data = whole[start : start + size].tobytes()
        for i, (number, parameters) in reversed(list(enumerate(filters))):
            if not stored.filter_mask & (1 << i):
                data = _undo_filter(data, number, parameters, size_of_values, what)
        need(
            len(data) == size_of_values,
            f"{what} has a chunk of {len(data)} bytes, expected {size_of_values}",
            FileError,
        )
        return np.frombuffer(data, self.dtype).reshape(chunk)


def _undo_filter(data: bytes, number: int, parameters: Sequence[int], wanted: int, what: str) -> bytes:
    """Undo a filter of a chunk (HDF5 File Format Specification 3.0, IV.A.2.l).

    number: of the filter. parameters: its client data. wanted: the size of the chunk's values in bytes.
    """
    if number == _DEFLATE:
        packed = zlib.decompressobj()
        try:
            return packed.decompress(data, wanted + 4)
        except zlib.error as error:
            raise FileError(f"{what} is damaged: {error}") from None
    if number == _SHUFFLE:
        size = int(parameters[0]) if len(parameters) else 0
        need(size > 0 and len(data) % size == 0, f"{what} is shuffled by {size} bytes", FileError)
        planes = np.frombuffer(data, np.uint8).reshape(size, -1)
        return bytes(planes.T.tobytes())
    if number == _FLETCHER32:
        need(len(data) >= 4 and _sums_agree(data), f"{what} is damaged: its checksum differs", FileError)
        return data[:-4]
    name = _FILTERS.get(number, f"number {number}")
    raise FileError(
        f"{what} is compressed with filter {name}; supported: deflate (gzip), shuffle, Fletcher32; {_REMEDY}"
    )


def _sums_agree(data: bytes) -> bool:
    """Return whether a chunk ends with the Fletcher32 sum of its bytes (H5_checksum_fletcher32, H5checksum.c)."""
    body = data[:-4] + b"\0" * (len(data) % 2)
    words = np.frombuffer(body, ">u2").astype(np.uint64)
    weights = np.arange(len(words), 0, -1, dtype=np.uint64) % np.uint64(65535)
    sums = (int(words.sum() % 65535), int((words * weights % np.uint64(65535)).sum() % 65535))
    stored = int.from_bytes(data[-4:], "little")
    return sums == ((stored & 0xFFFF) % 65535, (stored >> 16) % 65535)
