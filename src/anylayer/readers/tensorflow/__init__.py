"""The TensorFlow reader: from frozen graphs (binary and text), SavedModels and checkpoints to a Network.

It does not need TensorFlow.

messages.py    decodes protobuf messages to Records
tensors.py     reads dtypes, shapes and values
graph.py       reads operations with their attributes
functions.py   inlines the functions of the graph's library
branches.py    removes branches whose condition is a constant
structure.py   lists the operations that form the graph: inputs, constants, calls, control flow
saved_model.py reads signatures and variables; bundle.py reads the files that hold the variables' values
build.py       sorts and prunes the operations, refuses what is not supported, and makes the Network; custom.py
               finds the data layout and the scale factors of custom operations
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anylayer.errors import FileError, need, within
from anylayer.network import Network
from anylayer.protobuf.binary import MappedFile
from anylayer.protobuf.text import MAX_TEXT_BYTES, parse, read_limited
from anylayer.readers import Option
from anylayer.readers._recognize import describe
from anylayer.readers.tensorflow.build import InlinedGraph, build, unconsumed_outputs
from anylayer.readers.tensorflow.functions import Inliner, by_name, functions_of
from anylayer.readers.tensorflow.graph import nodes_of
from anylayer.readers.tensorflow.messages import Record, decode, from_text
from anylayer.readers.tensorflow.saved_model import checkpoint_graph, saved_model_graph

WHAT = "a TensorFlow graph (.pb, .pbtxt), SavedModel or checkpoint (.meta)"
OPTIONS: dict[str, Option] = {}
_BINARY = "a TensorFlow graph"
_TEXT = "a TensorFlow graph (text)"
_SAVED = "a TensorFlow SavedModel"
_CHECKPOINT = "a TensorFlow checkpoint's graph"
_SAVED_TEXT = "a TensorFlow SavedModel (text)"
_MESSAGES = {_BINARY: "GraphDef", _TEXT: "GraphDef", _SAVED: "SavedModel", _SAVED_TEXT: "SavedModel"}


def match(path: Path) -> bool:
    """Return whether a file is a GraphDef, a SavedModel (or its folder) or the graph of a checkpoint."""
    file = _file(path)
    if not file.is_file():
        return False
    if _is_checkpoint(file):
        return True
    what = describe(file)
    return what in _MESSAGES or (not what and file.suffix.lower() == ".pb")


def _is_checkpoint(file: Path) -> bool:
    """Return whether a file is the graph of a checkpoint, which has an .index file in the same folder."""
    return file.with_suffix(".index").is_file() and describe(file) == _CHECKPOINT


def _file(path: Path) -> Path:
    """Return the graph's file. In the folder of a SavedModel it is saved_model.pb or saved_model.pbtxt."""
    if not path.is_dir():
        return path
    names = [path / "saved_model.pb", path / "saved_model.pbtxt"]
    return next((n for n in names if n.is_file()), names[0])


def read(model: Path, weights: Path | None = None, *, user_types: frozenset[str] = frozenset()) -> Network:
    """Read a graph. The constant inputs of operations of `user_types` become their blobs.

    Raise FileError or NetworkError. Each names the file and the operation.
    """
    path = _file(model)
    file = str(path)
    with within(file):
        need(weights is None, f"the graph contains its weights; read it without the file {weights}", FileError)
        if _is_checkpoint(path):
            buffer = MappedFile(path)
            meta = decode(buffer, "MetaGraphDef", 0, buffer.size)
            return build(checkpoint_graph(meta, path.with_suffix(""), file, user_types), user_types)
        record = _record(path)
        if record.message.__name__ == "SavedModel":
            network = build(saved_model_graph(record, path.parent, file), user_types)
            return replace(network, name=path.absolute().parent.name)
        functions = functions_of(record.record("library"))
        nodes = nodes_of(record.all("node"), file)
        outputs = unconsumed_outputs(nodes, functions, user_types)
        inliner = Inliner(functions, file)
        flat = by_name(inliner.graph(nodes))
        public = {o: inliner.resolve(o) for o in outputs}
        return build(InlinedGraph(file, flat, outputs=public, weights=file, inliner=inliner), user_types)


def _record(path: Path) -> Record:
    what = describe(path)
    description = what or "not a protobuf file, or it is cut off"
    need(what in _MESSAGES, f"this is {description}; expected {_BINARY}", FileError)
    if what in (_TEXT, _SAVED_TEXT):
        return from_text(parse(read_limited(path, MAX_TEXT_BYTES), str(path), raw=True), _MESSAGES[what])
    buffer = MappedFile(path)
    return decode(buffer, _MESSAGES[what], 0, buffer.size)
