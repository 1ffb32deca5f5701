"""Parquet files by pyarrow. This is the only file that imports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as _pa
import pyarrow.parquet as _parquet

from anylayer.errors import FileError
from anylayer.libraries.whole import write_whole
from anylayer.network import Array

_pyarrow: Any = _pa


def write_parquet(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns as a Parquet file, which appears whole or not at all.

    A column of arrays becomes lists of their values, in a column of its name, and their shapes, in NAME.shape.
    """
    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        if values and isinstance(values[0], str):
            arrays[name] = _pyarrow.array(values, _pyarrow.string())
        else:
            arrays[name] = _lists([array.ravel() for array in values])
            shapes = [list(array.shape) for array in values]
            arrays[f"{name}.shape"] = _pyarrow.array(shapes, _pyarrow.list_(_pyarrow.int64()))
    write_whole(path, lambda file: _parquet.write_table(_pyarrow.table(arrays), file))


def _lists(arrays: Sequence[Array]) -> Any:
    """Return flat arrays as one column of lists."""
    ends = np.cumsum([0, *(len(a) for a in arrays)])
    return _pyarrow.LargeListArray.from_arrays(_pyarrow.array(ends), _pyarrow.array(np.concatenate(arrays)))


def strings(path: Path, column: str) -> list[str]:
    """Return a column of texts of a Parquet file. Raises FileError where the file is damaged."""
    try:
        return _parquet.read_table(path, columns=[column]).column(column).to_pylist()
    except (_pyarrow.ArrowException, KeyError, OSError) as error:
        raise FileError(f"the file is damaged: {str(error).splitlines()[0]}", str(path)) from None
