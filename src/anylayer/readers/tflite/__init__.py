"""The TFLite reader: from a .tflite file to a Network.

schema.py      the tables, options and names of the format
flatbuffer.py  reads tables, every position of which is checked
flexbuffer.py  reads the options of custom operators, in the same way
sparse.py      returns the dense values of sparse tensors
metadata.py    reads names of signatures, labels and the normalization of images
build.py       makes the Network of the file's operators and tensors, and refuses what is not supported
"""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, need, within
from anylayer.network import Network
from anylayer.protobuf.binary import MappedFile
from anylayer.readers import Option
from anylayer.readers._recognize import describe
from anylayer.readers.tflite.build import build
from anylayer.readers.tflite.flatbuffer import FlatBuffer

WHAT = "a TensorFlow Lite model (.tflite)"
OPTIONS: dict[str, Option] = {}
_WHAT = "a TensorFlow Lite model"


def match(path: Path) -> bool:
    """Return whether a file has the identifier of TFLite, TFL3."""
    return path.is_file() and describe(path) == _WHAT


def read(model: Path, weights: Path | None = None, *, user_types: frozenset[str] = frozenset()) -> Network:
    """Read a model with its weights. Raise FileError or NetworkError, which name the operator."""
    with within(str(model)):
        need(weights is None, f"the model contains its weights; read it without the file {weights}", FileError)
        what = describe(model)
        need(what == _WHAT, f"this is {what or 'no TensorFlow Lite model'}, expected {_WHAT}", FileError)
        return build(FlatBuffer(MappedFile(model).data).root("Model"), model, user_types)
