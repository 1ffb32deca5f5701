"""The Caffe reader: from a prototxt and a caffemodel of any age and fork to a Network.

A text file and a binary file both become Blocks (see anylayer.protobuf), which are upgraded and then built.

wire.py             finds the layers and blobs of a binary file in a memory map
decode.py           decodes the layers of a binary network
hdf5.py             reads weights from HDF5
upgrade.py          converts V0 layers, V1 layers and old input fields to the current form
rules.py            selects the layers by phase, level and stages
wiring.py           turns blob names into values
fields.py           selects the params of a layer
blobs.py            assigns weights to layers, and reads those of a text file
preprocess.py       reads transform_param, and mean images
build.py            makes the Network from all of these
alignment.py        computes the offsets of HED's Crop layers
protobuf.py         checks with protobuf what the Caffe writer has written
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from anylayer.errors import FileError, InputError, at, need, need_name, need_one_of, some
from anylayer.folders import NamesByFile
from anylayer.layer import Definition, Registry
from anylayer.network import Network
from anylayer.protobuf.proto_file import core, read_proto
from anylayer.protobuf.schema import Schema
from anylayer.protobuf.text import read_text
from anylayer.protobuf.tree import Block
from anylayer.readers import Option, caffe, options_of
from anylayer.readers._recognize import describe, is_text
from anylayer.readers.caffe.blobs import StoredLayer, text_layer
from anylayer.readers.caffe.build import Built, Options, build
from anylayer.readers.caffe.rules import PHASES, network_state
from anylayer.readers.caffe.upgrade import remove_splits, upgrade
from anylayer.readers.caffe.wire import read_weights

if TYPE_CHECKING:
    from anylayer.readers.caffe import alignment, decode, protobuf

__all__ = ["alignment", "decode", "protobuf"]  # loaded when they are first used

sys.modules[__name__].__class__ = NamesByFile

WHAT = "a Caffe network (.prototxt, .caffemodel)"


class CaffeOptions(TypedDict, total=False):
    """The options of anylayer.read for Caffe networks."""

    dialect: Annotated[
        str | None,
        Option("The fork of Caffe the file was written for, where forks give its layers different meanings."),
    ]
    proto: Annotated[str | Path | None, Option("The fork's own caffe.proto.")]
    phase: Annotated[str | None, Option('The phase whose layers take part: "TEST" (the default) or "TRAIN".')]
    level: Annotated[int | None, Option("The level that include and exclude rules are asked about; 0 by default.")]
    stages: Annotated[
        str | Sequence[str] | None, Option("The stages that include and exclude rules are asked about.")
    ]


OPTIONS = options_of(CaffeOptions)
_SUFFIXES = (".prototxt", ".caffemodel", ".caffemodel.h5")
_MODEL = "a Caffe model (binary)"
_NETWORK = re.compile(rb"^\s*(layers?\s*:?\s*[{<]|input(_dim|_shape)?\s*[:{])", re.MULTILINE)
_SOLVER = ("net", "train_net", "test_net", "base_lr", "max_iter", "solver_mode", "lr_policy", "snapshot_prefix")


def match(path: Path) -> bool:
    """Return whether a file is Caffe's, judged by its name or its first bytes."""
    if path.is_dir():
        return False
    if path.name.lower().endswith(_SUFFIXES):
        return True
    what = describe(path)
    if what:
        return what == _MODEL
    with path.open("rb") as handle:
        return _NETWORK.search(handle.read(1 << 16)) is not None


def read(
    model: Path,
    weights: Path | None = None,
    *,
    user_types: frozenset[str] = frozenset(),
    **options: Unpack[CaffeOptions],
) -> Network:
    """Read a network and its weights.

    `model` is a prototxt, or a .caffemodel that contains its network. `user_types` are layer types that the user
    defines; their params are kept as the file has them. `options` are those of CaffeOptions.

    Raise FileError, NetworkError or LayerError, each with the file and, if known, the line. Raise InputError for a
    phase or a dialect that does not exist.
    """
    return built(model, weights, user_types, **options).network


def built(
    model: Path,
    weights: Path | None,
    user_types: frozenset[str],
    needs_match: bool = True,
    **options: Unpack[CaffeOptions],
) -> Built:
    """Read a network as `read` does. Return it with the layers of the file, also those that it leaves out.

    needs_match: whether a weights file without any layer of the network is refused.
    """
    dialect, proto, stages = options.get("dialect"), options.get("proto"), options.get("stages") or ()
    option = options.get("phase")
    phase = "TEST" if option is None else option
    need(phase in PHASES, f"phase must be TEST or TRAIN, got {phase!r}", InputError)
    if dialect is not None:
        dialects = sorted(Registry.of("caffe").dialects())
        need_one_of(dialect, dialects, f"there is no dialect '{dialect}'", "dialects")
    schema = None
    if proto is not None:
        need_name(Path(proto))
        what = describe(_file(Path(proto), "schema"))
        need(not what, f"{proto}: this is {what}, not a schema of Caffe (caffe.proto)", FileError)
        schema = read_proto(Path(proto))
        schema.require("LayerParameter")
        if "NetParameter" not in schema.messages:
            schema.complete(core())
    net = _network(_file(Path(model), "model"), schema, dialect)
    types = sorted({*Registry.of("caffe").types(), *user_types}) if "layers" in net else ()
    net = upgrade(net, types)
    if not net.line:
        net = remove_splits(net)
    stored = read_stored(Path(weights)) if weights is not None else []
    stages = (stages,) if isinstance(stages, str) else tuple(stages)
    state = network_state(net, phase, options.get("level") or 0, stages)
    rules = Options(state, dialect, user_types, schema, needs_match)
    return build(net, stored, str(weights) if weights is not None else "", rules)


def complete(network: Network, definitions: Mapping[str, Sequence[Definition]]) -> None:
    """Compute the offsets of Crop layers without parameters, as HED's fork does. Raise LayerError if it cannot."""
    if network.dialect == "hed":
        caffe.alignment.align(network, definitions)


def prove(files: Sequence[Path], params: Mapping[str, Mapping[str, Any]]) -> None:
    """Check with protobuf that the written files agree and have the given parameters of layers.

    `files` are the .proto, the .caffemodel and the prototxt. Raise ConversionError with the layer and the field.
    """
    caffe.protobuf.prove(files, params)


def _file(path: Path, what: str) -> Path:
    if not path.is_file():
        rule = f"this is a folder, expected a {what} file" if path.is_dir() else "there is no such file"
        raise FileError(rule, str(path))
    return path


def _network(path: Path, schema: Schema | None, dialect: str | None) -> Block:
    """Return the top-level block of a model file. Raise FileError if it has no layer."""
    binary = _is_binary(path, "a Caffe network", "a prototxt")
    if binary and path.suffix.lower() in (".prototxt", ".pbtxt", ".txt"):
        raise FileError("this is a binary .caffemodel, not a prototxt (text)", str(path))
    net = caffe.decode.read_binary(path, schema, dialect) if binary else read_text(path)
    with at(str(path)):
        if "layer" not in net and "layers" not in net:
            raise _no_network(net)
    if schema is not None:
        schema.check(net)
    return net


def _is_binary(path: Path, expected: str, form: str) -> bool:
    """Return whether a file is a binary .caffemodel, as opposed to text. Raise FileError for any other file.

    `expected` and `form` describe the expected file in the message.
    """
    what = describe(path)
    with at(str(path)):
        need(what in ("", _MODEL), f"this is {what}, not {expected}", FileError)
        binary = what == _MODEL or not is_text(path)
        need(
            not binary or what == _MODEL or path.suffix.lower() == ".caffemodel",
            f"this is a binary file of an unknown kind, not {form}",
            FileError,
        )
    return binary


def _no_network(net: Block) -> FileError:
    """Return the error for a text without layers, which says what it is instead."""
    names = {entry.name for entry in net}
    if names & set(_SOLVER):
        nets = [f"'{net.string(e)}'" for e in net if e.name in ("net", "train_net", "test_net")]
        hint = f"; its network is {', '.join(nets)}" if nets else ""
        return FileError(f"this is a solver, not a network{hint}")
    if names == {"item"}:
        return FileError("this is a label map, not a network")
    if not names:
        return FileError("the file has nothing but comments and white space")
    return FileError(f"this is not a network: it has no layer, only {some(sorted(names), 5)}")


def read_stored(path: Path) -> Sequence[StoredLayer]:
    """Return the layers of a weights file: a .caffemodel of any age, a .caffemodel.h5, or a text with blobs."""
    _file(path, "weights")
    if describe(path) == "an HDF5 file":
        from anylayer.readers.caffe.hdf5 import read_hdf5

        return read_hdf5(path)
    if _is_binary(path, "weights (.caffemodel or .caffemodel.h5)", "a .caffemodel"):
        layers = read_weights(path)
        need(layers, f"{path}: the file has no layers", FileError)
        return layers
    text_layers = [text_layer(layer) for layer in upgrade(read_text(path)).blocks("layer")]
    need(
        any(layer.blobs for layer in text_layers),
        f"{path}: this is a prototxt (text) without weights. Give the prototxt first, and then the .caffemodel",
        FileError,
    )
    return text_layers
