"""Files a command writes: whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from anylayer.errors import InputError, need
from anylayer.network import Array, Flag


def write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file with `fill(file)`: beside its place first, then moved there, so that a half-written file is
    never seen under `path`. Folders on the way are made.
    """
    need(not path.is_dir(), f"{path} is a folder, a file was to be written there", InputError)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:32]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write(path, lambda file: file.write(text.encode()))


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write .npy (one array), .npz or .json, told by the suffix."""
    if path.suffix == ".npy":
        need(
            len(arrays) == 1,
            f"{path} holds one array, there are {len(arrays)}: {', '.join(arrays)}. Choose one with --blob, or "
            f"write {path.with_suffix('.npz')}",
            InputError,
        )
        (array,) = arrays.values()
        write(path, lambda file: np.save(file, array))
    elif path.suffix == ".npz":
        from zipfile import ZipFile

        def fill(file: IO[bytes]) -> None:  # np.savez cannot hold an array named "file"
            with ZipFile(file, "w") as archive:
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, np.asanyarray(array))

        write(path, fill)
    else:
        write_text(path, to_json({name: array.tolist() for name, array in arrays.items()}) + "\n")


def to_json(value: Any) -> str:
    """JSON of plain values; what JSON lacks as the strings "NaN", "Infinity" and "-Infinity"."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Flag):
        return bool(value)
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
