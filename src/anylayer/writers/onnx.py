"""Write a network as a checked .onnx file, with weights that protobuf cannot hold in a second file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path, PurePath
from typing import IO, Any

import numpy as np

from anylayer import __version__
from anylayer.corrections import corrected
from anylayer.errors import FileError, InputError, need
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import producer
from anylayer.graph.open_sizes import SIZES
from anylayer.libraries.onnx import checker, helper, onnx
from anylayer.network import CHANNEL_ORDERS, Array
from anylayer.optimize.simplify import simplify
from anylayer.source import Source, Written, other_outputs
from anylayer.writers._onnx_model import EXACT_PRODUCTS, Public, titles, to_onnx
from anylayer.writers._precision import IN_FLOAT32, Precision, precision_of
from anylayer.writers._precision import OPTIONS as PRECISION_OPTIONS
from anylayer.writers._target import renamed_output_notes, why_not_run

WHAT = "an ONNX model (.onnx)"
SUFFIXES = (".onnx",)
OPTIONS = frozenset(("functions", "keep", "batch", "external")) | PRECISION_OPTIONS
RUNS = "onnxruntime"
QUANTIZED = True

_MAX_PROTOBUF_BYTES = 1 << 31
"""The largest size of a protobuf message in bytes."""
_RESERVED = 1 << 26
"""Bytes of a message that are reserved for everything other than weights."""
_MAX_INLINE_BYTES = 1024
"""The size, in bytes, of the largest constant that always stays in the model."""
_ALIGNMENT = 4096
"""Alignment of each constant in the weights file, so that a reader can map it (onnx.proto, external_data)."""
_PIECE = 1 << 26
"""The number of bytes of a constant that are written at once."""


def write(source: Source, path: Path, *, external: bool | None = None, **options: Any) -> Written:
    """Write the network as `path` and check the file with onnx's checker, including full shape inference.

    external: put the weights into a second file, `path` plus ".data". None does so if they do not fit into 2 GiB,
        the limit of protobuf.
    options: as in precision_of. With "float16", operators that lose much precision in float16 stay in float32.

    Raises FileError where the checker refuses the file, and InputError for a precision that cannot be written.
    """
    precision = precision_of(source, **options)
    graph = _simplify(source.graph)
    for o in graph.ops:
        if o.body is not None:
            o.body = _simplify(o.body)
    size = sum(v.const.nbytes for v in _constants(graph) if v.const is not None)
    if external is None:
        external = size > _MAX_PROTOBUF_BYTES - _RESERVED
    if precision.name != "float32":
        need(
            not external,
            f"precision='{precision.name}' needs the weights in the file itself, which must have less than 2 GiB",
            InputError,
        )
        precision.need_possible(graph)
    data = path.with_name(f"{path.name}.data")
    with data.open("wb") if external else nullcontext() as file:
        weights = _WeightsFile(file, data.name) if file is not None else None
        _save(graph, source, path, weights, precision)
        _check(path)
        written = Written([*([data] if external else []), path], outputs=other_outputs(source))
        precision.describe(written)
        written.notes += renamed_output_notes(written.outputs)
        if any(_rounds_factor(graph, o) for o in graph.ops):
            option, level = EXACT_PRODUCTS
            written.notes.append(
                "by default ONNX Runtime rounds the values that it multiplies by quantized weights to 8 bits; the "
                f"comparison is without that, as in a session with the config entry {option}={level}"
            )
        kept_layers = [o for o in graph.ops if o.kept]
        if kept_layers:
            written.unrun = why_not_run(kept_layers)
        if kept_layers and not written.unrun:
            written.stand_in = path.with_name("stand-in.onnx")
            graph.ops = [_call_of_body(o) for o in graph.ops]
            _save(graph, source, written.stand_in, weights, precision)
    return written


def _simplify(graph: Graph) -> Graph:
    """Return the simplified graph with corrections for ONNX Runtime, and for empty arrays in OpenVINO.

    A Pad before a MaxPool lists all axes. Without axes, ONNX Runtime 1.31 fuses the Pad into the pool, whose own
    padding never wins the maximum, while the zeros of the Pad can.
    """
    result = corrected(corrected(simplify(graph, "onnx"), RUNS).graph, "onnx file").graph
    for o in result.ops:
        pad = producer(result.producers, o.inputs[0], "Pad") if o.op == "MaxPool" else None
        if pad is not None and len(pad.inputs) < 4:
            axes = result.constant(np.arange(len(pad.outputs[0].shape)), trusted=True)
            zero = result.constant(np.zeros((), pad.outputs[0].dtype), trusted=True)
            pad.inputs = [*pad.inputs[:2], pad.input(2) or zero, axes]
    return result


def _rounds_factor(graph: Graph, o: Op) -> bool:
    """Return whether an operator multiplies values that are not quantized by quantized weights: ONNX Runtime
    replaces it by its operator MatMulNBits."""
    if o.op != "MatMul" or o.domain:
        return False
    first, weights = (producer(graph.producers, v, "DequantizeLinear") for v in o.inputs)
    return first is None and weights is not None and weights.first.const is not None


def _save(graph: Graph, source: Source, path: Path, weights: _WeightsFile | None, precision: Precision) -> None:
    """Write a graph with the names, opsets and metadata of its source."""
    name = source.network.name or path.stem
    model = to_onnx(graph, name, weights, public=Public.of(source))
    for opset in model.opset_import:
        if opset.domain:  # the operators of the standard set are those of the version that to_onnx states
            versions = [n.version for n in source.network.nodes if n.domain == opset.domain]
            opset.version = max([opset.version, *versions])
    _describe(model, source, precision)
    if precision.half:
        from anylayer.libraries.onnxruntime import to_float16

        model = to_float16(model, IN_FLOAT32, precision.blocked(graph, titles(graph)), precision.io == "float32")
    elif precision.int8:
        from anylayer.libraries.onnxruntime import to_int8

        nodes, between = precision.quantized(graph, titles(graph), source)
        model = to_int8(model, precision.calibrate, nodes, between, reduce_range=precision.reduce_range)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _call_of_body(o: Op) -> Op:
    """Return a kept layer as a call of its body; another operator unchanged."""
    if not o.kept or o.body is None:
        return o
    present: list[Value | None] = [v for v in o.inputs if v is not None]
    return replace(o, kept=False, attrs={}, inputs=present[: len(o.body.inputs)])


def _check(path: Path) -> None:
    try:
        checker.check_model(str(path), full_check=True)
    except (checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise FileError(f"onnx's checker refuses the file: {error}", path.name) from error


def _describe(model: onnx.ModelProto, source: Source, precision: Precision) -> None:
    """Record the source and the precision in the model's metadata. Paths of folders and the time are left out."""
    network = source.network
    model.producer_version = __version__
    properties = {
        "source": PurePath(network.source).name,
        "format": network.format,
        "dialect": network.dialect or "",
        **precision.properties,
    }
    properties.update(
        {f"layout:{name}": layout for name, layout in network.layouts.items() if name in source.inputs}
    )
    if network.channel_orders:
        properties[CHANNEL_ORDERS] = json.dumps(network.channel_orders)
    if source.sizes is not None:
        properties[SIZES] = source.sizes.stated().to_json()
    helper.set_model_props(model, {key: value for key, value in properties.items() if value})


def _constants(graph: Graph) -> Iterator[Value]:
    """Yield each constant that the operators of a graph and of its calls read, once."""
    seen: set[Value] = set()
    for o in graph.ops:
        inside = _constants(o.body) if o.body is not None and not o.kept else ()
        for value in [*o.inputs, *inside]:
            if value is not None and value.const is not None and value not in seen:
                seen.add(value)
                yield value


class _WeightsFile:
    """The file of weights beside a model. A call writes a constant once, and returns the file's name and the
    offset.

    It returns None for a small constant, which stays in the model.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file, self.name = file, name
        self.offsets: dict[Value, int] = {}

    def __call__(self, name: str, value: Value) -> tuple[str, int] | None:
        array = value.const
        if array is None or array.nbytes <= _MAX_INLINE_BYTES:
            return None
        if value not in self.offsets:
            self.file.write(bytes(-self.file.tell() % _ALIGNMENT))
            self.offsets[value] = self.file.tell()
            for piece in _pieces(array):
                self.file.write(np.ascontiguousarray(piece).data)
        return self.name, self.offsets[value]


def _pieces(array: Array) -> Iterator[Array]:
    """Yield an array in pieces along its first axis, so that a mapped or broadcast array is never copied whole."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array
    rows = max(1, _PIECE // max(1, flat.nbytes // len(flat)))
    for start in range(0, len(flat), rows):
        yield flat[start : start + rows]
