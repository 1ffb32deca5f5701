"""Read arrays from .npy and .npz files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, InputError, at, need
from anylayer.network import Array

_MAX_ARRAY_BYTES = 1 << 33
"""Bytes of one array of an .npz file."""
_OBJECTS = "the array holds Python objects, which are not read; save it with a dtype of numbers"


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Raise FileError for a file that does not exist, and for one that is not of this kind."""
    with at(str(path)):
        try:
            yield
        except FileNotFoundError:
            raise FileError("there is no such file") from None
        except (OSError, FileError):
            raise
        except Exception as error:  # NumPy and zipfile raise many types of errors
            text = (str(error).splitlines() or [type(error).__name__])[0]
            need("Python objects" not in text, _OBJECTS, FileError)
            raise FileError(f"this is not an {kind} file: {text}") from None


def read_npy(path: Path) -> Array:
    """Read an .npy file. Raises FileError where its header claims more data than the file has."""
    with _reading(path, ".npy"):
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False))


def read_npz(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npz file by name. Raises FileError for a header that claims too much data."""
    with _reading(path, ".npz"), zipfile.ZipFile(path) as archive:
        return {e.filename.removesuffix(".npy"): _entry(archive, e) for e in archive.infolist()}


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    if entry.file_size >= _MAX_ARRAY_BYTES:
        raise FileError(f"array '{entry.filename}' is larger than 8 GiB")
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        size = dtype.itemsize * int(np.prod([int(d) for d in shape], dtype=object))
        need(not dtype.hasobject, f"array '{entry.filename}': {_OBJECTS}", FileError)
        if size > entry.file_size:
            needs = f"{dtype}{list(shape)} needs {size}"
            raise FileError(f"array '{entry.filename}' has {entry.file_size} bytes, but {needs}")
    with archive.open(entry) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def numeric(array: Array, path: Path) -> Array:
    need(array.dtype.kind in "fiub", f"{path}: the array must hold numbers, got dtype {array.dtype}", InputError)
    need(array.size > 0, f"{path}: the array has shape {array.shape} and no elements", InputError)
    return array
