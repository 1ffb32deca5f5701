"""Write a file so that it appears complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from anylayer.errors import FileError, InputError, need


def need_file(path: Path) -> None:
    """Raise InputError if `path` is a folder, a device or a pipe: a file that is moved there would replace it."""
    kind = "a folder" if path.is_dir() else "a device or a pipe"
    need(path.is_file() or not path.exists(), f"{path} is {kind}; the output must be a file", InputError)


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """Yield a path in a new folder beside `path`, for a library that writes files by name.

    Where the block ends without an error, the file there becomes `path`; else it is deleted. Raises InputError if
    `path` is a folder or a device.
    """
    need_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming_output(path):
        context = tempfile.TemporaryDirectory(prefix=f".{path.name[:32]}.", dir=path.parent)
    with context as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


def write_whole(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file by `fill(file)` under a temporary name in the same folder, then rename it to `path`.

    Missing folders are created. Raises InputError if `path` is a folder or a device.
    """
    need_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming_output(path):
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:32]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w+b") as file:
            fill(file)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _naming_output(path: Path) -> Iterator[None]:
    """Raise FileError with the name of the output, not of the temporary file, where it cannot be created."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot be written: {error.strerror}", str(path)) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
