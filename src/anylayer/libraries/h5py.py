"""h5py: the only file that imports it, when a file is opened. HDF5 files are read here with strangers in mind:
links to other files are not followed, and no more memory is taken than the file has bytes for."""

from __future__ import annotations

import io
import math
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.network import Array

Group = Any
Dataset = Any

_PACKED = 1100
"""The most that deflate shrinks: 1 byte to 1032."""


def _h5py(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise FileError(f"reading {path} needs: pip install h5py") from None
    return h5py


@contextmanager
def opened(path: Path, data: memoryview | None = None) -> Iterator[Group]:
    """The root group of an HDF5 file, or of the one that `data` of the file are.

    Raises FileError for what h5py cannot read, also while the group is in use.
    """
    h5py = _h5py(path)
    with at(str(path)):
        try:
            with h5py.File(path if data is None else _Part(data), "r") as file:
                yield file
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise FileError(f"this is no readable HDF5 file: {error}") from None


class _Part(io.RawIOBase):
    """Bytes as a file."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._data[self._at : self._at + len(view)] if self._at >= 0 else self._data[:0]
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


_HEAP = b"GCOL\x01\0\0\0"


def need_heaps(path: Path) -> None:
    """Refuse a file whose texts of open length lie in a broken heap: libhdf5 (1.14) never comes back from one
    whose free space is of size 0. To be called before `text` and `texts`.

    Source: HDF5 File Format Specification 3.0, III.E (global heap).
    """
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        start = whole.find(_HEAP)
        while start >= 0:
            need(_sound(whole, start), f"the heap at byte {start} is broken", FileError)
            start = whole.find(_HEAP, start + len(_HEAP))


def _sound(whole: Any, start: int) -> bool:
    """Whether the objects of a heap lie one behind the other within it."""
    stop = start + int.from_bytes(whole[start + 8 : start + 16], "little")
    if not start + 16 <= stop <= len(whole):
        return False
    position = start + 16
    while position + 16 <= stop:
        index = int.from_bytes(whole[position : position + 2], "little")
        size = int.from_bytes(whole[position + 8 : position + 16], "little")
        step = 16 + -(-size // 8) * 8 if index else size
        if step < 16 or position + step > stop:
            return False
        position += step
    return True


def member(group: Group, name: str) -> Any:
    """A member (group or dataset) by its path within `group`; None where there is none, or a link leads to
    another place."""
    import h5py

    found = group
    for part in filter(None, name.split("/")):
        key = part.encode()
        if not isinstance(found, h5py.Group) or not found.id.links.exists(key):
            return None
        if found.id.links.get_info(key).type != h5py.h5l.TYPE_HARD:
            return None
        found = found[part]
    return found


def is_group(found: Any) -> bool:
    """Whether a member is a group."""
    import h5py

    return isinstance(found, h5py.Group)


def is_dataset(found: Any) -> bool:
    """Whether a member is a dataset."""
    import h5py

    return isinstance(found, h5py.Dataset)


def need_stored(dataset: Dataset, what: str) -> None:
    """Refuse values that another file holds, and shapes that the file has no bytes for."""
    need(
        dataset.external is None and not dataset.is_virtual, f"{what} keeps its values in another file", FileError
    )
    stored, size = dataset.id.get_storage_size(), dataset.size * dataset.dtype.itemsize
    need(
        (dataset.chunks is not None or stored >= size) and size <= max(stored, 1) * _PACKED,
        f"{what} claims shape {dataset.shape}, {stored} bytes are stored",
        FileError,
    )


def values(dataset: Dataset, what: str) -> Array:
    """A dataset's values. Raises FileError as `need_stored`."""
    need_stored(dataset, what)
    return np.asarray(dataset[()])


def mapped(dataset: Dataset, what: str, whole: Array, start: int = 0) -> Array:
    """A dataset's values, left in the file where they lie there as they are: `whole` are the bytes of the file
    (mapped), `start` is where HDF5 begins in them. Raises FileError as `need_stored`."""
    need_stored(dataset, what)
    offset, kind, size = dataset.id.get_offset(), dataset.dtype, dataset.size * dataset.dtype.itemsize
    if offset is None or size == 0 or (start + offset) % kind.alignment or not kind.isnative:
        return np.asarray(dataset[()])
    begin = start + offset
    need(begin + size <= len(whole), f"{what} claims {size} bytes at {offset}, the file ends before", FileError)
    seen: Array = whole[begin : begin + size].view(kind).reshape(dataset.shape)
    return seen


def text(group: Group, name: str) -> str:
    """An attribute that is one text, or "" where there is none."""
    return _text(_attribute(group, name)) if name in group.attrs else ""


def texts(group: Group, name: str) -> list[str] | None:
    """An attribute that is a list of texts, or its pieces name0, name1, ... (one attribute holds 64 KiB)."""
    names = [name]
    if name not in group.attrs:
        names = []
        while f"{name}{len(names)}" in group.attrs:
            names.append(f"{name}{len(names)}")
    if not names:
        return None
    pieces = [np.asarray(_attribute(group, piece)).reshape(-1).tolist() for piece in names]
    return [_text(item) for piece in pieces for item in piece]


def _attribute(group: Group, name: str) -> Any:
    """An attribute's value, where the file is large enough for the values it claims."""
    held = group.attrs.get_id(name)
    size = math.prod(held.shape or ()) * max(held.dtype.itemsize, 1)
    need(
        size <= group.file.id.get_filesize(),
        f"attribute '{name}' claims {size} bytes, more than the file",
        FileError,
    )
    return group.attrs[name]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""
