"""The Caffe reader: prototxt and caffemodel of any age and fork, to a Network.

../_text_format.py  a prototxt, without a schema       wire.py      a binary file, over a memory map
proto_file.py a fork's caffe.proto ...                 decode.py    a binary network's layers
schema.py     ... and what it says about the fields    hdf5.py      weights in HDF5
                     \\                                 mean.py      mean images
                                                       protobuf.py  what was written, read by protobuf
../_tree.py   Block: the fields of either --> upgrade.py: V0, V1 and old inputs to today's form
                     |
build.py      rules.py (phase, stages), wiring.py (blobs to values), fields.py (params), blobs.py (weights),
              preprocess.py (transform_param) --> Network
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from anylayer.errors import FileError, InputError, at, nearest, need, need_name
from anylayer.layer import Definition, Registry
from anylayer.network import Network
from anylayer.readers import Option, options_of
from anylayer.readers._recognise import describe, is_text
from anylayer.readers._text_format import read_text
from anylayer.readers._tree import Block
from anylayer.readers.caffe.alignment import align
from anylayer.readers.caffe.blobs import StoredLayer
from anylayer.readers.caffe.build import Options, build
from anylayer.readers.caffe.decode import read_binary
from anylayer.readers.caffe.hdf5 import read_hdf5
from anylayer.readers.caffe.proto_file import core, read_proto
from anylayer.readers.caffe.rules import PHASES, network_state
from anylayer.readers.caffe.schema import Schema
from anylayer.readers.caffe.upgrade import join_splits, upgrade
from anylayer.readers.caffe.weights import TextLayer
from anylayer.readers.caffe.wire import read_weights

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
    """Whether the file is Caffe's, by its name or its first bytes."""
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
    dialect: str | None = None,
    proto: str | Path | None = None,
    phase: str = "TEST",
    level: int = 0,
    stages: str | Sequence[str] = (),
    user_types: frozenset[str] = frozenset(),
) -> Network:
    """Read a network and its weights.

    `model` is a prototxt, or a .caffemodel that carries its network. `user_types` are layer types that the
    user defines: their params are kept as the file has them. The other options are those of CaffeOptions.

    Raises FileError, NetworkError, LayerError, each naming the file and, where there is one, the line; InputError
    for a phase or a dialect that does not exist.
    """
    need(phase in PHASES, f"phase is TEST or TRAIN, got {phase!r}", InputError)
    if dialect is not None:
        _require_dialect(dialect)
    schema = None
    if proto is not None:
        need_name(Path(proto))
        schema = read_proto(_file(Path(proto), "schema"))
        schema.require("LayerParameter")
        if "NetParameter" not in schema.messages:
            schema.complete(core())
    net = _network(_file(Path(model), "model"), schema, dialect)
    known = sorted({*Registry.of("caffe").types(), *user_types}) if "layers" in net else ()
    net = upgrade(net, known)
    if not net.line:
        net = join_splits(net)
    stored = _weights(_file(Path(weights), "weights")) if weights is not None else []
    state = network_state(net, phase, level, (stages,) if isinstance(stages, str) else tuple(stages))
    options = Options(state, dialect, user_types, schema)
    return build(net, stored, str(weights) if weights is not None else "", options)


def complete(network: Network, definitions: Mapping[str, Sequence[Definition]]) -> None:
    """Compute the offsets of Crop layers without parameters, as HED's fork does. Raises LayerError."""
    if network.dialect == "hed":
        align(network, definitions)


def prove(files: Sequence[Path], params: Mapping[str, Mapping[str, Any]]) -> None:
    """Check with protobuf that the written files (.proto, .caffemodel, prototxt) agree and have these parameters
    of layers. Raises ConversionError naming the layer and the field."""
    from anylayer.readers.caffe.protobuf import prove as prove_files

    prove_files(files, params)


def _require_dialect(dialect: str) -> None:
    known = Registry.of("caffe").dialects()
    need(
        dialect in known,
        f"there is no dialect '{dialect}'{nearest(dialect, known)}; dialects: {', '.join(sorted(known))}",
        InputError,
    )


def _file(path: Path, what: str) -> Path:
    if not path.is_file():
        raise FileError(
            f"this is a folder, a {what} file is needed" if path.is_dir() else "there is no such file", str(path)
        )
    return path


def _network(path: Path, schema: Schema | None, dialect: str | None) -> Block:
    """The top-level block of a model file, which holds at least one layer."""
    binary = _is_binary(path, "a Caffe network", "a prototxt")
    if binary and path.suffix.lower() in (".prototxt", ".pbtxt", ".txt"):
        raise FileError("this is a binary .caffemodel, not a prototxt (text)", str(path))
    net = read_binary(path, schema, dialect) if binary else read_text(path)
    with at(str(path)):
        if "layer" not in net and "layers" not in net:
            raise _no_network(net)
    if schema is not None:
        schema.check(net)
    return net


def _is_binary(path: Path, wanted: str, form: str) -> bool:
    """Whether the file is a binary .caffemodel (else it is text); refuse what is neither, by what it is."""
    what = describe(path)
    with at(str(path)):
        need(what in ("", _MODEL), f"this is {what}, not {wanted}", FileError)
        binary = what == _MODEL or not is_text(path)
        need(
            not binary or what == _MODEL or path.suffix.lower() == ".caffemodel",
            f"this is a binary file of an unknown kind, not {form}",
            FileError,
        )
    return binary


def _no_network(net: Block) -> FileError:
    """Say what a text without layers is."""
    names = {entry.name for entry in net}
    if names & set(_SOLVER):
        nets = [f"'{net.string(e)}'" for e in net if e.name in ("net", "train_net", "test_net")]
        theirs = f"; its network is {', '.join(nets)}" if nets else ""
        return FileError(f"this is a solver, not a network{theirs}")
    if names == {"item"}:
        return FileError("this is a label map, not a network")
    if not names:
        return FileError("there is nothing in it but comments and white space")
    return FileError(f"this is no network: it has no layer (it has {', '.join(sorted(names)[:5])})")


def _weights(path: Path) -> Sequence[StoredLayer]:
    """The layers of a weights file: .caffemodel of any era, .caffemodel.h5, or the text form of either."""
    if describe(path) == "an HDF5 file":
        return read_hdf5(path)
    if _is_binary(path, "weights (.caffemodel or .caffemodel.h5)", "a .caffemodel"):
        layers = read_weights(path)
        need(layers, f"{path}: there is no layer in it", FileError)
        return layers
    found = [TextLayer.of(layer) for layer in upgrade(read_text(path)).blocks("layer")]
    need(
        any(layer.blobs for layer in found),
        f"{path}: this is a prototxt (text) without weights. The weights are in a .caffemodel",
        FileError,
    )
    return found
