"""The OpenVINO reader: IR of every version, a .xml and the .bin beside it, to a Network.

markup.py     the XML, with limits            weights.py    the .bin, over a memory map
layers.py     layers, ports and edges, in computing order
attributes.py what the attributes' text means
ir.py         v10, v11: OpenVINO's operations
legacy.py     v2 to v7: Caffe's layers by another spelling; legacy_types.py each of them, legacy_windows.py those
              that move a window, legacy_layer.py their attributes and weights
"""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, need, within, wording
from anylayer.network import Network
from anylayer.readers import Option
from anylayer.readers._beside import need_within
from anylayer.readers._recognise import describe
from anylayer.readers.openvino.ir import read_ir
from anylayer.readers.openvino.legacy import read_legacy
from anylayer.readers.openvino.markup import parse
from anylayer.readers.openvino.weights import Weights

WHAT = "an OpenVINO model (.xml with .bin)"
OPTIONS: dict[str, Option] = {}
_IR = "an OpenVINO model (IR)"
_NEWEST = 11


def match(path: Path) -> bool:
    """Whether the file is an IR's .xml, by its first element."""
    return path.is_file() and describe(path) == _IR


def read(model: Path, weights: Path | None = None, *, user_types: frozenset[str] = frozenset()) -> Network:
    """Read an IR. `weights` is its .bin; by default the file of the same name beside it.

    Layer types that the user defines (`user_types`) get their constant inputs as blobs.
    Raises FileError, NetworkError, LayerError, each naming the file and, where there is one, the line.
    """
    with within(str(model)):
        need(describe(model) == _IR, f"this is {describe(model) or 'no XML'}, not {_IR}", FileError)
        root = parse(model)
        need(root.tag == "net", f"this is <{root.tag}>, a network is <net>", FileError)
        version = root.attributes.get("version", "")
        need(
            version.isdigit() and len(version) < 4,
            f"its version is '{version[:20]}', a number is needed",
            FileError,
        )
        need(
            int(version) <= _NEWEST,
            f"its version is {version}; versions 2 to 7, 10 and 11 are known",
            FileError,
        )
        file = _weights(model, weights)
        if int(version) >= 10:
            return read_ir(root, str(model), file, user_types)
        need(2 <= int(version) <= 7, f"its version is {version}; versions 2 to 7, 10 and 11 are known", FileError)
        return read_legacy(root, str(model), file, user_types)


def _weights(model: Path, weights: Path | None) -> Weights:
    if weights is not None:
        need(weights.is_file(), f"there is no weights file {weights}", FileError)
        return Weights(weights, weights)
    beside = model.with_suffix(".bin")
    if not beside.is_file():
        return Weights(None, beside)
    given = wording(f"anylayer.read('{model}', '{beside}')", f"{model} {beside}")
    need_within(beside, model, f"its weights file {beside.name}", f". If it is the right one, name it: {given}")
    return Weights(beside, beside)
