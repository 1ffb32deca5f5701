"""The ONNX reader: from a model of any operator set to a Network.

file.py   parses the model without its large arrays, and reads arrays
build.py  makes the Network from nodes, values, constants and subgraphs, and inlines the model's functions
"""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, at, need
from anylayer.network import Network
from anylayer.readers import Option
from anylayer.readers._recognize import describe

WHAT = "an ONNX model (.onnx)"
OPTIONS: dict[str, Option] = {}


def match(path: Path) -> bool:
    """Return whether a file is an ONNX model by its first bytes, or by its suffix if they say nothing."""
    if path.is_dir():
        return False
    what = describe(path)
    return what == WHAT.partition(" (")[0] or (not what and path.suffix.lower() == ".onnx")


def read(path: Path, weights: Path | None = None, *, user_types: frozenset[str] = frozenset()) -> Network:
    """Read a model with its weights. Its external data files must lie in its folder or below.

    `user_types` are operators that the user defines. Their constant inputs become blobs. A user's operator
    replaces a function of the model that has the same name.

    Raise FileError or NetworkError.
    """
    # These modules load the onnx package, which `match` does not need.
    from anylayer.readers.onnx.build import build
    from anylayer.readers.onnx.file import load

    with at(str(path)):
        rule = "an ONNX model names its weights file itself; read the model without another file"
        need(weights is None, rule, FileError)
        try:
            return build(load(path), user_types)
        except UnicodeError as error:
            raise FileError(f"a name in it is not text: {error}") from error
