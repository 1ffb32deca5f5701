"""The TensorFlow reader: frozen graphs (binary and text) and SavedModels to a Network, without TensorFlow.

messages.py  protobuf to Records           tensors.py   dtypes, shapes, values
graph.py     operations with attributes    functions.py the library's functions put where they are called
branches.py  branches whose condition is a constant
structure.py the operations that are structure: inputs, constants, calls, control flow
saved_model.py signatures and variables (bundle.py: the table that holds their values)
build.py     order, pruning, refusals, custom operations (factors.py) --> Network
"""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, need, within
from anylayer.network import Network
from anylayer.readers import Option
from anylayer.readers._limits import MAX_TEXT_BYTES
from anylayer.readers._protobuf import Buffer
from anylayer.readers._recognise import describe
from anylayer.readers._text_format import parse, read_limited
from anylayer.readers.tensorflow.build import Graph, build, by_name, ends
from anylayer.readers.tensorflow.functions import Inliner, library
from anylayer.readers.tensorflow.graph import nodes_of
from anylayer.readers.tensorflow.messages import Record, convert, decode
from anylayer.readers.tensorflow.saved_model import checkpoint_of, graph_of

WHAT = "a TensorFlow graph (.pb, .pbtxt), SavedModel or checkpoint (.meta)"
OPTIONS: dict[str, Option] = {}
_BINARY = "a TensorFlow graph"
_TEXT = "a TensorFlow graph (text)"
_SAVED = "a TensorFlow SavedModel"
_CHECKPOINT = "a TensorFlow checkpoint's graph"
_SAVED_TEXT = "a TensorFlow SavedModel (text)"
_MESSAGES = {_BINARY: "GraphDef", _TEXT: "GraphDef", _SAVED: "SavedModel", _SAVED_TEXT: "SavedModel"}


def match(path: Path) -> bool:
    """Whether the file is a GraphDef, or the folder (or the file in it) a SavedModel."""
    file = _file(path)
    if not file.is_file():
        return False
    if _is_checkpoint(file):
        return True
    what = describe(file)
    return what in _MESSAGES or (not what and file.suffix.lower() == ".pb")


def _is_checkpoint(file: Path) -> bool:
    """Whether this is the graph of a checkpoint, which has an .index beside it."""
    return file.with_suffix(".index").is_file() and describe(file) == _CHECKPOINT


def _file(path: Path) -> Path:
    """The graph's file: in a folder its saved_model.pb or .pbtxt."""
    if not path.is_dir():
        return path
    names = [path / "saved_model.pb", path / "saved_model.pbtxt"]
    return next((n for n in names if n.is_file()), names[0])


def read(model: Path, weights: Path | None = None, *, user_types: frozenset[str] = frozenset()) -> Network:
    """Read a graph. Constants that operations of `user_types` read become their blobs.

    Raises FileError, NetworkError, each naming the file and the operation.
    """
    path = _file(model)
    file = str(path)
    with within(file):
        need(weights is None, f"a frozen graph holds its weights itself, got {weights} besides", FileError)
        if _is_checkpoint(path):
            buffer = Buffer(path)
            meta = decode(buffer, "MetaGraphDef", 0, buffer.size)
            return build(checkpoint_of(meta, path.with_suffix(""), file, user_types), user_types)
        record = _record(path)
        if record.message == "SavedModel":
            return build(graph_of(record, path.parent, file), user_types)
        functions = library(record.record("library"))
        nodes = nodes_of(record.all("node"), file)
        outputs = ends(nodes, functions, user_types)
        inliner = Inliner(functions, file)
        flat = by_name(inliner.graph(nodes))
        return build(
            Graph(file, flat, outputs={o: inliner.resolved(o) for o in outputs}, weights=file), user_types
        )


def _record(path: Path) -> Record:
    what = describe(path)
    found = what or "no protobuf file, or one that is cut off"
    need(what in _MESSAGES, f"this is {found}, not {_BINARY}", FileError)
    if what in (_TEXT, _SAVED_TEXT):
        return convert(parse(read_limited(path, MAX_TEXT_BYTES), str(path), raw=True), _MESSAGES[what])
    buffer = Buffer(path)
    return decode(buffer, _MESSAGES[what], 0, buffer.size)
