"""ONNX models as files: checked, with their weights in a file beside them where they are too many for protobuf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path, PurePath
from typing import IO, Any

import numpy as np

from anylayer.corrections import corrected
from anylayer.errors import FileError
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import producer
from anylayer.libraries.onnx import checker, helper, onnx
from anylayer.network import Array
from anylayer.optimize.simplify import simplify
from anylayer.source import Source, Written, other_outputs
from anylayer.writers.onnx.model import Public, to_onnx

WHAT = "an ONNX model (.onnx)"
SUFFIXES = (".onnx",)
OPTIONS = frozenset(("functions", "keep", "batch", "external"))
RUNS = "onnxruntime"

_MOST_INSIDE = 1 << 31
"""Bytes that protobuf can hold."""
_ROOM = 1 << 26
"""Bytes left in a protobuf for what is not weights."""
_SMALL = 1024
"""Bytes of a constant up to which it stays in the model in any case."""
_ALIGNMENT = 4096
"""So that a reader may map the weights (onnx.proto on external_data)."""
_PIECE = 1 << 26


def write(source: Source, path: Path, *, external: bool | None = None, **told: Any) -> Written:
    """Write the network as `path`, checked in onnx's strict mode with full shape inference.

    `external` puts the weights into a file beside it (`path` with .data behind it); None does where they are more
    than protobuf can hold, 2 GiB. Raises FileError where what came out is not what ONNX allows.
    """
    graph = _simplified(source.graph)
    for o in graph.ops:
        if o.body is not None:
            o.body = _simplified(o.body)
    size = sum(v.const.nbytes for v in _constants(graph) if v.const is not None)
    if external is None:
        external = size > _MOST_INSIDE - _ROOM
    data = path.with_name(f"{path.name}.data")
    with data.open("wb") if external else nullcontext() as file:
        beside = _Beside(file, data.name) if file is not None else None
        _save(graph, source, path, beside)
        _check(path)
        done = Written([*([data] if external else []), path], outputs=other_outputs(source))
        for ours, theirs in done.outputs.items():
            done.notes.append(f"output '{ours}' is called '{theirs}' in the file: an input has its name")
        kept = [o for o in graph.ops if o.kept]
        if kept:
            done.unrun = _unknown(kept)
        if kept and not done.unrun:
            done.stand_in = path.with_name("stand-in.onnx")
            graph.ops = [_computed(o) for o in graph.ops]
            _save(graph, source, done.stand_in, beside)
    return done


def _simplified(graph: Graph) -> Graph:
    """The graph for any runtime. Zeros in front of a MaxPool name all the axes: where none are named, ONNX Runtime
    1.31 takes them for the pool's own padding, which is no value at all."""
    done = corrected(simplify(graph), RUNS).graph
    for o in done.ops:
        pad = producer(done.producers, o.inputs[0], "Pad") if o.op == "MaxPool" else None
        if pad is not None and len(pad.inputs) < 4:
            axes = done.constant(np.arange(len(pad.outputs[0].shape)), trusted=True)
            zero = done.constant(np.zeros((), pad.outputs[0].dtype), trusted=True)
            pad.inputs = [*pad.inputs[:2], pad.inputs[2] if len(pad.inputs) > 2 else zero, axes]
    return done


def _save(graph: Graph, source: Source, path: Path, beside: _Beside | None) -> None:
    name = source.network.name or path.stem
    values = {name for node in source.network.nodes for name in node.outputs}
    renamed = other_outputs(source)
    public = Public([renamed.get(name, name) for name in source.outputs], values)
    model = to_onnx(graph, name, beside, public=public)
    for opset in model.opset_import:
        opset.version = max(
            [opset.version, *(n.version for n in source.network.nodes if n.domain == opset.domain)]
        )
    _describe(model, source)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _unknown(kept: Sequence[Op]) -> str:
    """Why nothing can run a model with these layers; "" where what they compute is known."""
    types = dict.fromkeys(o.op for o in kept if o.body is None)
    return f"nothing here computes what is kept: {', '.join(types)}" if types else ""


def _computed(o: Op) -> Op:
    """A kept layer as a call of what it computes."""
    if not o.kept or o.body is None:
        return o
    present: list[Value | None] = [v for v in o.inputs if v is not None]
    return replace(o, kept=False, attrs={}, inputs=present[: len(o.body.inputs)])


def _check(path: Path) -> None:
    try:
        checker.check_model(str(path), full_check=True)
    except (checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise FileError(f"onnx's checker refuses what was written: {error}", path.name) from error


def _describe(model: onnx.ModelProto, source: Source) -> None:
    """Say what it was made of, without this machine's folders or the time."""
    from anylayer import __version__

    network = source.network
    model.producer_version = __version__
    told = {"source": PurePath(network.source).name, "format": network.format, "dialect": network.dialect or ""}
    told.update({f"layout:{name}": layout for name, layout in network.layouts.items() if name in source.inputs})
    helper.set_model_props(model, {key: value for key, value in told.items() if value})


def _constants(graph: Graph) -> Iterator[Value]:
    """Each constant that the operators of a graph read, once."""
    seen: set[Value] = set()
    for o in graph.ops:
        inside = _constants(o.body) if o.body is not None and not o.kept else ()
        for value in [*o.inputs, *inside]:
            if value is not None and value.const is not None and value not in seen:
                seen.add(value)
                yield value


class _Beside:
    """The file of the weights: writes each one when it is first asked for, and gives its place."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file, self.name = file, name
        self.places: dict[Value, int] = {}

    def __call__(self, name: str, value: Value) -> tuple[str, int] | None:
        array = value.const
        if array is None or array.nbytes <= _SMALL:
            return None
        if value not in self.places:
            self.file.write(bytes(-self.file.tell() % _ALIGNMENT))
            self.places[value] = self.file.tell()
            for piece in _pieces(array):
                self.file.write(np.ascontiguousarray(piece).data)
        return self.name, self.places[value]


def _pieces(array: Array) -> Iterator[Array]:
    """An array in pieces along its first axis, so that one that is mapped or repeated is never held as a whole."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array
    rows = max(1, _PIECE // max(1, flat.nbytes // len(flat)))
    for start in range(0, len(flat), rows):
        yield flat[start : start + rows]
