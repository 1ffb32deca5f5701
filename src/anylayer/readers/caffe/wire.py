"""A .caffemodel's blobs, read over a memory map.

Only the headers of messages are walked: a blob's values are skipped by their length and become views of the
map, without a copy, when they are asked for. Nothing is allocated that the file merely claims.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.network import Array, Shape
from anylayer.readers._protobuf import BYTES, FIXED32, FIXED64, VARINT, Buffer, signed

MAX_DEPTH = 64
_BLOCK = 1 << 16
_RUNS = 100_000
_DIMS = 32
_MOST_BLOBS = 1000


@dataclass(slots=True)
class StoredBlob:
    """A BlobProto in a mapped file: where its values lie, and its shape."""

    buffer: Buffer
    legacy: dict[int, int] = field(default_factory=dict)
    dims: list[int] | None = None
    floats: list[tuple[int, int, int]] = field(default_factory=list)  # start, number of values, stride in bytes
    doubles: list[tuple[int, int, int]] = field(default_factory=list)
    raw: tuple[int, int] | None = None
    raw_type: int | None = None
    integers: bool = False

    def array(self) -> Array:
        """The values as float32: a view of the map where the file has one run of floats, else a copy.

        A view lies at any byte of the file, so it may be unaligned (`flags.aligned`). Raises FileError where
        shape and values do not agree.
        """
        need(not self.integers, "8-bit integers (int8_data, Ascend): quantised weights are not read", FileError)
        values = self._values()
        shape = self.shape(len(values))
        count = int(np.prod(shape, dtype=object))
        need(
            count == len(values),
            f"has shape {shape}, which is {count} values, but {len(values)} are stored",
            FileError,
        )
        return values.reshape(shape)

    def shape(self, count: int) -> Shape:
        """The shape: num, channels, height, width where any is written, else the dims, else that of one value."""
        if self.legacy:
            dims = [self.legacy.get(i, 0) for i in (1, 2, 3, 4)]
        elif self.dims is not None:
            dims = self.dims
        else:
            need(count == 1, f"has no shape but {count} values", FileError)
            dims = []
        need(all(d >= 0 for d in dims), f"has shape {tuple(dims)}: a dimension is negative", FileError)
        return tuple(dims)

    def _values(self) -> Array:
        if self.doubles:
            return float32(self._runs(self.doubles, "<f8"))
        if self.floats or self.raw is None:
            return self._runs(self.floats, "<f4")
        start, stop = self.raw
        names = {0: "<f8", 1: "<f4", 2: "<f2"}
        need(
            self.raw_type is not None,
            "values in field 12 are raw_data (OpenCV) or uint64_data (Ascend), and no raw_data_type tells which",
            FileError,
        )
        need(
            self.raw_type in names,
            f"raw_data_type must be DOUBLE (0), FLOAT (1) or FLOAT16 (2), got {self.raw_type}",
            FileError,
        )
        dtype = np.dtype(names[self.raw_type or 0])
        need(
            (stop - start) % dtype.itemsize == 0,
            f"{stop - start} bytes of raw_data are no whole values",
            FileError,
        )
        run = self._runs([(start, (stop - start) // dtype.itemsize, dtype.itemsize)], names[self.raw_type or 0])
        return float32(run)

    def _runs(self, runs: list[tuple[int, int, int]], dtype: str) -> Array:
        kind = np.dtype(dtype)
        parts = []
        for start, count, stride in runs:
            if stride == kind.itemsize:
                parts.append(np.frombuffer(self.buffer.data, kind, count, start) if count else np.empty(0, kind))
            else:
                parts.append(np.ndarray((count,), kind, self.buffer.data, start, (stride,)))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, kind)


def float32(values: Any) -> Array:
    """The values as float32 (themselves where they are); what is too large becomes infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, np.float32)


def read_blob(buffer: Buffer, start: int, stop: int) -> StoredBlob:
    """Index one BlobProto: its values are not touched."""
    blob = StoredBlob(buffer)
    position = start
    while position < stop:
        for number, kind, low, high in buffer.fields(position, stop):
            position = high
            if number in (5, 6, 8, 9) and kind in (FIXED32, FIXED64):
                position = _unpacked(blob, number, kind, low, stop)
                break
            _blob_field(blob, number, kind, low, high)
    return blob


def _blob_field(blob: StoredBlob, number: int, kind: int, low: int, high: int) -> None:
    if number in (1, 2, 3, 4) and kind == VARINT:
        blob.legacy[number] = signed(blob.buffer.varint(low, high)[0])
    elif number == 7 and kind == BYTES:
        blob.dims = (blob.dims or []) + _dims(blob.buffer, low, high)
        need(len(blob.dims) <= _DIMS, f"has a shape of more than {_DIMS} dimensions", FileError)
    elif number in (5, 8) and kind == BYTES:
        size = 4 if number == 5 else 8
        need((high - low) % size == 0, f"{high - low} bytes of packed data are no whole values", FileError)
        runs = blob.floats if number == 5 else blob.doubles
        need(len(runs) < _RUNS, f"has its values in more than {_RUNS} pieces", FileError)
        if high > low:
            runs.append((low, (high - low) // size, size))
    elif number == 10 and kind == VARINT:
        blob.raw_type = blob.buffer.varint(low, high)[0]
    elif number == 12 and kind == BYTES:
        blob.raw = (low, high)
    elif number in (10, 11, 12):
        blob.integers = blob.integers or number == 10


def _unpacked(blob: StoredBlob, number: int, kind: int, low: int, stop: int) -> int:
    """Take the run of single values that starts at `low`, each behind the same tag byte; where it ends."""
    size = 4 if kind == FIXED32 else 8
    wanted = {5: FIXED32, 6: FIXED32, 8: FIXED64, 9: FIXED64}[number]
    need(kind == wanted, f"field {number} of a blob has wire type {kind}, expected {wanted}", FileError)
    step, tag = size + 1, number << 3 | kind
    count, left = 1, (stop - low - size) // step
    while left:
        block = min(left, _BLOCK)
        at_byte = low + size + (count - 1) * step
        tags = np.ndarray((block,), np.uint8, blob.buffer.data, at_byte, (step,))
        same = tags == tag
        run = block if same.all() else int(same.argmin())
        count, left = count + run, left - run
        if run < block:
            break
    runs = {5: blob.floats, 8: blob.doubles}.get(number)
    if runs is not None:
        need(len(runs) < _RUNS, f"has its values in more than {_RUNS} pieces", FileError)
        runs.append((low, count, step))
    return low + size + (count - 1) * step


def _dims(buffer: Buffer, start: int, stop: int) -> list[int]:
    dims: list[int] = []
    for number, kind, low, high in buffer.fields(start, stop):
        if number == 1 and kind == VARINT:
            dims.append(signed(buffer.varint(low, high)[0]))
        elif number == 1 and kind == BYTES:
            while low < high:
                value, low = buffer.varint(low, high)
                dims.append(signed(value))
                need(len(dims) <= _DIMS, f"has a shape of more than {_DIMS} dimensions", FileError)
        need(len(dims) <= _DIMS, f"has a shape of more than {_DIMS} dimensions", FileError)
    return dims


@dataclass(slots=True)
class StoredLayer:
    """A layer in a binary file: its name and its blobs."""

    name: str
    blobs: list[StoredBlob] = field(default_factory=list)


def read_weights(path: Path) -> list[StoredLayer]:
    """The layers of a .caffemodel of any era (V0, V1, V2), in file order, with their blobs indexed."""
    with at(str(path)):
        buffer = Buffer(path)
        layers = []
        for number, kind, low, high in buffer.fields(0, buffer.size):
            if kind == BYTES and number in (2, 100):
                layers.append(_layer(buffer, low, high, number == 2))
        return layers


def _layer(buffer: Buffer, start: int, stop: int, old: bool) -> StoredLayer:
    layer = StoredLayer("")
    name_at, blobs_at = (4, 6) if old else (1, 7)
    for number, kind, low, high in buffer.fields(start, stop):
        if kind != BYTES:
            continue
        if number == name_at:
            layer.name = buffer.text(low, high)
        elif number == blobs_at:
            _add_blob(layer, buffer, low, high)
        elif old and number == 1:
            for inner, inner_kind, inner_low, inner_high in buffer.fields(low, high):
                if inner_kind == BYTES and inner == 1:
                    layer.name = buffer.text(inner_low, inner_high)
                elif inner_kind == BYTES and inner == 50:
                    _add_blob(layer, buffer, inner_low, inner_high)
    return layer


def _add_blob(layer: StoredLayer, buffer: Buffer, start: int, stop: int) -> None:
    with at(f"layer '{layer.name}'"), at(f"blob {len(layer.blobs)}"):
        need(len(layer.blobs) < _MOST_BLOBS, f"{_MOST_BLOBS} blobs are the most in a layer", FileError)
        layer.blobs.append(read_blob(buffer, start, stop))
