"""Mean images: files with one BlobProto (.binaryproto)."""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, at, need
from anylayer.network import Array
from anylayer.protobuf.binary import MappedFile
from anylayer.readers._recognize import describe
from anylayer.readers.caffe.wire import read_blob


def read_mean(path: Path) -> Array:
    """Return a mean image (C, H, W) as float32. Raise FileError if the file is not one."""
    if not path.is_file():
        raise FileError("there is no such mean file", str(path))
    with at(str(path)):
        what = describe(path)
        need(
            what in ("", "a Caffe blob (.binaryproto)"),
            f"this is {what}, expected a mean image (.binaryproto)",
            FileError,
        )
        buffer = MappedFile(path)
        mean = read_blob(buffer, 0, buffer.size).array()
        need(mean.size > 0, "this is not a mean image: it has no values", FileError)
        while mean.ndim > 3 and mean.shape[0] == 1:
            mean = mean[0]
        need(
            mean.ndim == 3, f"a mean image must have shape (channels, height, width), got {mean.shape}", FileError
        )
        return mean
