"""The ONNX reader: models of any operator set, to a Network.

file.py       the model without its large arrays, which stay in the mapped file
tensors.py    an array: in the model, in the mapped file, or in a file beside it
functions.py  functions that the model brings itself
build.py      nodes, values, constants, graphs inside nodes --> Network
"""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, at, need
from anylayer.network import Network
from anylayer.readers import Option
from anylayer.readers._recognise import describe

WHAT = "an ONNX model (.onnx)"
OPTIONS: dict[str, Option] = {}


def match(path: Path) -> bool:
    """Whether the file is an ONNX model, by its first bytes; or is called one and cannot be told."""
    if path.is_dir():
        return False
    what = describe(path)
    return what == WHAT.partition(" (")[0] or (not what and path.suffix.lower() == ".onnx")


def read(path: Path, weights: Path | None = None, *, user_types: frozenset[str] = frozenset()) -> Network:
    """Read a model and its weights; those in files beside it must lie in its folder or below.

    `user_types` are operators that the user defines: their constant inputs become blobs, and where one is a
    function of the model it is called in place of the function.

    Raises FileError, NetworkError.
    """
    # These load the onnx package, which telling a file's format can do without.
    from anylayer.readers.onnx.build import build
    from anylayer.readers.onnx.file import load

    with at(str(path)):
        need(weights is None, "an ONNX model names its weights file itself: give the model alone", FileError)
        try:
            return build(load(path), user_types)
        except UnicodeError as error:
            raise FileError(f"a name in it is no text: {error}") from error
