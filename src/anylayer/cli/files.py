"""Write the files of a command atomically: a file appears complete or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO
from zipfile import ZipFile

import numpy as np

from anylayer.errors import InputError, need
from anylayer.libraries.whole import write_whole
from anylayer.network import Array, Flag


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, atomically."""
    write_whole(path, lambda file: file.write(text.encode()))


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to a .npy (one array), .npz or .json file; the suffix determines the format."""
    if path.suffix == ".npy":
        need(
            len(arrays) == 1,
            f"{path} holds one array, but there are {len(arrays)}: {', '.join(arrays)}. Select one with --blob, "
            f"or write {path.with_suffix('.npz')}",
            InputError,
        )
        (array,) = arrays.values()
        write_whole(path, lambda file: np.save(file, array))
    elif path.suffix == ".npz":

        def fill(file: IO[bytes]) -> None:  # np.savez refuses an array named "file"
            with ZipFile(file, "w") as archive:
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, np.asanyarray(array))

        write_whole(path, fill)
    else:
        write_text(path, to_json({name: array.tolist() for name, array in arrays.items()}) + "\n")


def to_json(value: object) -> str:
    """Return plain data and arrays as JSON. NaN and infinities become "NaN", "Infinity" and "-Infinity", and
    characters that cannot be printed are escaped."""
    text = json.dumps(_json_value(value), ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _json_value(value: object) -> object:
    if isinstance(value, dict):
        return {str(k): _json_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(v) for v in value]
    if isinstance(value, np.ndarray):
        return _json_value(value.tolist())
    if isinstance(value, Flag):
        return bool(value)
    if isinstance(value, np.generic):
        return _json_value(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
