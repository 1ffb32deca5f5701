"""The layers and blobs of a .caffemodel, read from a memory map.

Only the headers of fields are decoded. The values of a blob are skipped by their length, and become views of the
map, without a copy, when they are needed. No memory is allocated for a size that the file only claims.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, at, given, need, plural
from anylayer.network import MAX_RANK, Array, Shape, reshaped
from anylayer.protobuf.binary import BYTES, FIXED32, FIXED64, VARINT, MappedFile, to_int64
from anylayer.protobuf.proto_file import core
from anylayer.protobuf.schema import numbered
from anylayer.readers._arrays import to_float32
from anylayer.readers._limits import MAX_BLOB_PIECES, MAX_BLOBS
from anylayer.readers.caffe.blobs import StoredLayer

_CHUNK = 1 << 16
"""Values that are scanned at once for their tags."""
_Run = tuple[int, int, int]
"""A run of values in the file: the position of the first value, the number of values, and the stride in bytes."""


@dataclass(slots=True)
class BinaryBlob:
    """A BlobProto in a mapped file: see StoredBlob.

    `legacy_shape` maps the field numbers 1 to 4 (num, channels, height, width) to sizes. `raw` are the start and
    end of raw_data, and `raw_type` is its type. `integers` is true if the blob has int8_data.
    """

    buffer: MappedFile
    legacy_shape: dict[int, int] = field(default_factory=dict)
    dims: list[int] | None = None
    floats: list[_Run] = field(default_factory=list)
    doubles: list[_Run] = field(default_factory=list)
    raw: tuple[int, int] | None = None
    raw_type: int | None = None
    integers: bool = False

    def array(self) -> Array:
        """Return the values as float32. They are a view of the map if the file has one run of floats, else a copy.

        A view begins at any byte of the file, so it may be unaligned (`flags.aligned`). Raise FileError if shape
        and values do not agree, and for quantized weights.
        """
        rule = "quantized weights are not supported: the blob has 8-bit integers (int8_data, Ascend)"
        need(not self.integers, rule, FileError)
        values = self._values()
        shape = self.shape(len(values))
        count = int(np.prod(shape, dtype=object))
        need(
            count == len(values),
            f"has shape {shape}, which is {plural(count, 'value')}, but {len(values)} are stored",
            FileError,
        )
        return reshaped(values, shape)

    def shape(self, count: int) -> Shape:
        """Return the shape: num, channels, height and width if any of them is written, or else the dims.

        Without both, a single value has shape (). Raise FileError for several values without a shape.
        """
        if self.legacy_shape:
            dims = [self.legacy_shape.get(i, 0) for i in (1, 2, 3, 4)]
        elif self.dims is not None:
            dims = self.dims
        else:
            need(count == 1, f"has no shape, but {count} values", FileError)
            dims = []
        need(all(d >= 0 for d in dims), f"has shape {tuple(dims)}: a dimension is negative", FileError)
        return tuple(dims)

    def _values(self) -> Array:
        if self.doubles:
            return to_float32(self._runs(self.doubles, "<f8"))
        if self.floats or self.raw is None:
            return self._runs(self.floats, "<f4")
        start, stop = self.raw
        names = {0: "<f8", 1: "<f4", 2: "<f2"}
        rule = "field 12 is raw_data (OpenCV) or uint64_data (Ascend), and there is no raw_data_type to tell which"
        kind = given(self.raw_type, rule, FileError)
        rule = f"raw_data_type must be DOUBLE (0), FLOAT (1) or FLOAT16 (2), got {kind}"
        dtype = np.dtype(given(names.get(kind), rule, FileError))
        need(
            (stop - start) % dtype.itemsize == 0,
            f"{stop - start} bytes of raw_data are not a multiple of {dtype.itemsize}",
            FileError,
        )
        return to_float32(self._runs([(start, (stop - start) // dtype.itemsize, dtype.itemsize)], names[kind]))

    def _runs(self, runs: list[_Run], dtype: str) -> Array:
        """Return the values of runs, concatenated."""
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


def read_blob(buffer: MappedFile, start: int, stop: int) -> BinaryBlob:
    """Return the blob whose BlobProto is between two positions. Its values are not read."""
    blob = BinaryBlob(buffer)
    position = start
    while position < stop:
        for number, kind, low, high in buffer.fields(position, stop):
            position = high
            if number in (5, 6, 8, 9) and kind in (FIXED32, FIXED64):
                position = _add_unpacked(blob, number, kind, low, stop)
                break
            _blob_field(blob, number, kind, low, high)
    return blob


def _blob_field(blob: BinaryBlob, number: int, kind: int, low: int, high: int) -> None:
    """Store one field of a blob, except unpacked values."""
    if number in (1, 2, 3, 4) and kind == VARINT:
        blob.legacy_shape[number] = to_int64(blob.buffer.varint(low, high)[0])
    elif number == 7 and kind == BYTES:
        blob.dims = (blob.dims or []) + _dims(blob.buffer, low, high)
        _need_rank(blob.dims)
    elif number in (5, 8) and kind == BYTES:
        size = 4 if number == 5 else 8
        need(
            (high - low) % size == 0, f"{high - low} bytes of packed data are not a multiple of {size}", FileError
        )
        if high > low:
            _add_run(blob.floats if number == 5 else blob.doubles, (low, (high - low) // size, size))
    elif number == 10 and kind == VARINT:
        blob.raw_type = blob.buffer.varint(low, high)[0]
    elif number == 12 and kind == BYTES:
        blob.raw = (low, high)
    elif number in (10, 11, 12):
        blob.integers = blob.integers or number == 10


def _add_run(runs: list[_Run], run: _Run) -> None:
    need(len(runs) < MAX_BLOB_PIECES, f"has its values in more than {MAX_BLOB_PIECES} pieces", FileError)
    runs.append(run)


def _need_rank(dims: list[int]) -> None:
    need(len(dims) <= MAX_RANK, f"has a shape with more than {MAX_RANK} axes", FileError)


def _add_unpacked(blob: BinaryBlob, number: int, kind: int, low: int, stop: int) -> int:
    """Add the run of unpacked values that begins at `low`. Return the position after it.

    The same tag byte precedes each of the values.
    """
    size = 4 if kind == FIXED32 else 8
    expected = {5: FIXED32, 6: FIXED32, 8: FIXED64, 9: FIXED64}[number]
    need(kind == expected, f"field {number} of a blob has wire type {kind}, expected {expected}", FileError)
    step, tag = size + 1, number << 3 | kind
    count, left = 1, (stop - low - size) // step
    while left:
        chunk = min(left, _CHUNK)
        position = low + size + (count - 1) * step
        tags = np.ndarray((chunk,), np.uint8, blob.buffer.data, position, (step,))
        same = tags == tag
        run = chunk if same.all() else int(same.argmin())
        count, left = count + run, left - run
        if run < chunk:
            break
    runs = {5: blob.floats, 8: blob.doubles}.get(number)  # 6 and 9 are gradients
    if runs is not None:
        _add_run(runs, (low, count, step))
    return low + size + (count - 1) * step


def _dims(buffer: MappedFile, start: int, stop: int) -> list[int]:
    dims: list[int] = []
    for number, kind, low, high in buffer.fields(start, stop):
        if number == 1 and kind == VARINT:
            dims.append(to_int64(buffer.varint(low, high)[0]))
        elif number == 1 and kind == BYTES:
            while low < high:
                value, low = buffer.varint(low, high)
                dims.append(to_int64(value))
                _need_rank(dims)
        _need_rank(dims)
    return dims


def read_weights(path: Path) -> list[StoredLayer]:
    """Return the layers of a .caffemodel of any age (V0, V1, V2) in file order.

    The values of blobs are not read.
    """
    with at(str(path)):
        buffer = MappedFile(path)
        layers = []
        net = numbered(core().messages["NetParameter"])
        for number, kind, low, high in buffer.fields(0, buffer.size):
            if kind == BYTES and number in net and net[number].name in ("layer", "layers"):
                layers.append(StoredLayer(""))
                _read_layer(layers[-1], buffer, net[number].kind, low, high)
        return layers


def _read_layer(layer: StoredLayer, buffer: MappedFile, message: Any, start: int, stop: int) -> None:
    """Read the name and the blobs of the layer between two positions. A V0 layer is inside a V1LayerParameter."""
    declared = numbered(message)
    for number, kind, low, high in buffer.fields(start, stop):
        name = declared[number].name if kind == BYTES and number in declared else ""
        if name == "name":
            layer.name = buffer.text(low, high)
        elif name == "blobs":
            _add_blob(layer, buffer, low, high)
        elif name == "layer":
            _read_layer(layer, buffer, declared[number].kind, low, high)


def _add_blob(layer: StoredLayer, buffer: MappedFile, start: int, stop: int) -> None:
    with at(f"layer '{layer.name}'"), at(f"blob {len(layer.blobs)}"):
        rule = f"the layer has more than {MAX_BLOBS} blobs, which is the limit"
        need(len(layer.blobs) < MAX_BLOBS, rule, FileError)
        layer.blobs.append(read_blob(buffer, start, stop))
