"""The OpenVINO reader: from an IR (a .xml file, with its weights in a .bin file) to a Network.

markup.py     parses the XML within limits
weights.py    reads the .bin file from a memory map
layers.py     connects layers and ports by the edges, and sorts the layers in computing order
ir.py         IR v10 and v11: layers are OpenVINO's operations
legacy.py     IR v2 to v7: layers are Caffe's, spelled differently. legacy_types.py translates each layer type,
              legacy_windows.py convolutions and pooling; legacy_layer.py reads their attributes and weights
"""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, need, within, wording
from anylayer.network import Network
from anylayer.readers import Option
from anylayer.readers._folder import need_in_folder
from anylayer.readers._recognize import describe
from anylayer.readers.openvino.ir import read_ir
from anylayer.readers.openvino.legacy import read_legacy
from anylayer.readers.openvino.markup import parse
from anylayer.readers.openvino.weights import BinFile

WHAT = "an OpenVINO model (.xml with .bin)"
OPTIONS: dict[str, Option] = {}
KERNEL_TYPES = True
_IR = "an OpenVINO model (IR)"
_NEWEST_VERSION = 11
_VERSIONS = "versions 2 to 7, 10 and 11 are supported"


def match(path: Path) -> bool:
    """Return whether a file is the .xml file of an IR, judged by its first element."""
    return path.is_file() and describe(path) == _IR


def read(
    model: Path,
    weights: Path | None = None,
    *,
    user_types: frozenset[str] = frozenset(),
    kernel_types: frozenset[str] = frozenset(),
) -> Network:
    """Read an IR. `weights` is its .bin file, by default the file of the same name in the same folder.

    The constant inputs of layers whose types the user defines (`user_types`) become their blobs.
    Layers of `kernel_types` in an IR of 2018 keep their attributes and blobs.
    Raise FileError, NetworkError or LayerError. Each names the file and, if known, the line.
    """
    with within(str(model)):
        need(describe(model) == _IR, f"this is {describe(model) or 'not XML'}, expected {_IR}", FileError)
        root = parse(model)
        need(root.tag == "net", f"the root element is <{root.tag}>, expected <net>", FileError)
        version = root.attributes.get("version", "")
        need(version.isdigit() and len(version) < 4, f"its version '{version[:20]}' is not a number", FileError)
        need(int(version) <= _NEWEST_VERSION, f"its version is {version}; {_VERSIONS}", FileError)
        file = _weights(model, weights)
        if int(version) >= 10:
            return read_ir(root, str(model), file, user_types)
        need(2 <= int(version) <= 7, f"its version is {version}; {_VERSIONS}", FileError)
        return read_legacy(root, str(model), file, user_types, kernel_types)


def _weights(model: Path, weights: Path | None) -> BinFile:
    """Map the given weights file, or the file with the model's name and the suffix .bin if there is one."""
    if weights is not None:
        need(weights.is_file(), f"there is no weights file {weights}", FileError)
        return BinFile(weights)
    default = model.with_suffix(".bin")
    if not default.is_file():
        return BinFile(default, exists=False)
    remedy = wording(f"anylayer.read('{model}', '{default}')", f"{model} {default}")
    need_in_folder(
        default, model, f"its weights file {default.name}", f". If it is the right file, name it: {remedy}"
    )
    return BinFile(default)
