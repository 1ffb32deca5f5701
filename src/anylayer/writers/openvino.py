"""Write a network as OpenVINO IR: a .xml and its .bin."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.corrections import corrected
from anylayer.corrections.chains import cut_for_file
from anylayer.corrections.rounding import graph_for_file
from anylayer.errors import EngineError, FileError, LayerError, at, need, shortened, some, wording
from anylayer.graph import Dim, Graph, Op, Value
from anylayer.graph.facts import number, producer
from anylayer.graph.open_sizes import SIZES
from anylayer.network import CHANNEL_ORDERS, Array
from anylayer.optimize.simplify import simplify
from anylayer.source import Source, Written, other_outputs
from anylayer.writers._onnx_model import Lifted, Public, titles, to_onnx
from anylayer.writers._precision import OPTIONS as PRECISION_OPTIONS
from anylayer.writers._precision import Precision, precision_of
from anylayer.writers._target import renamed_output_notes, why_not_run

WHAT = "an OpenVINO model (.xml with .bin)"
SUFFIXES = (".xml",)
OPTIONS = frozenset(("keep", "batch")) | PRECISION_OPTIONS
RUNS = "openvino"
QUANTIZED = True

_NOT_XML = re.compile("[^\\t\\n\\r -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""A character that XML 1.0 cannot have."""
_UNSUPPORTED = re.compile("No conversion rule found for operations: ([^\\n]+)")
"""The list of operators in OpenVINO's error, for example "DeformConv-19, NonZero-13"."""
_LARGE = 1 << 16
"""The size, in bytes, of the smallest constant that is shared with OpenVINO instead of copied through protobuf."""


RESPELLED = {
    **dict.fromkeys(("ReLU", "Relu"), ("Relu", "ReLU")),
    **dict.fromkeys(("SoftMax", "Softmax"), ("Softmax", "SoftMax")),
}
"""Types of OpenVINO's operators that an IR spells differently, also where an extension defines the type. For each
of both spellings: the name of the extension that OpenVINO looks for, and the spelling in the IR."""


def write(source: Source, path: Path, **options: Any) -> Written:
    """Write the network as `path` and a .bin beside it: IR v11, as OpenVINO writes it.

    options: as in precision_of. "float16" is the precision of the weights (half the size); the device determines
        that of the computation. Nodes stay in float32 with "int8" only.

    A kept layer becomes an operation of version "extension" with the layer's type. Its attributes are the params,
    its inputs those of the layer followed by the weights. A runtime needs an extension that defines it.

    Characters that XML cannot have are escaped in the names of layers and of values inside the network.

    Raises EngineError where OpenVINO refuses the network or is not installed, LayerError where a kept layer has an
    attribute that an IR cannot express or a condition selects an index out of range, and FileError for the name of
    an input or output that XML cannot have.
    """
    for name in (*source.inputs, *source.outputs):
        bad = _NOT_XML.search(name)
        if bad is not None:
            rule = f"the name {shortened(ascii(name))} has the character {bad[0]!a}, which XML cannot have"
            raise FileError(rule, source.network.source)
    precision = precision_of(source, ("int8",), **options)
    precision.need_possible(source.graph)
    _need_indices_in_range(source.graph)
    graph = source.graph if source.sizes is not None else simplify(source.graph, "openvino")
    graph = cut_for_file(graph_for_file(corrected(graph, RUNS)))
    weights = path.with_suffix(".bin")
    _save(graph, source, path, precision)
    written = Written([weights, path], outputs=other_outputs(source))
    precision.describe(written)
    written.notes += renamed_output_notes(written.outputs)
    kept = [o for o in graph.ops if o.kept]
    written.unrun = why_not_run(kept)
    for type_ in dict.fromkeys(o.op for o in kept if o.op in RESPELLED):
        found, spelled = RESPELLED[type_]
        written.notes.append(
            f"kept layers of type '{type_}' have the type '{spelled}' in the file, for which OpenVINO looks for "
            f"an extension called '{found}'"
        )
    if kept and not written.unrun:
        written.stand_in = path.with_name("stand-in.xml")
        _save(_with_inlined_bodies(graph), source, written.stand_in, precision)
    written.notes.append(_PRECISION)
    return written


_PRECISION = (
    "the comparison is in float32. On CPUs with bfloat16, OpenVINO computes in bfloat16 by default, with 2 to "
    "3 digits. Pass the config {'INFERENCE_PRECISION_HINT': 'f32'} to compile_model for float32"
)
"""The file has no way to request float32 (OpenVINO 2026.4): the CPU plugin ignores a precision in
`runtime_options`, and drops the attribute `precise` of an operation that it fuses (MatMul with Add) or replaces
(LSTM)."""


def _need_indices_in_range(graph: Graph, scope: str = "") -> None:
    """Raise LayerError where a condition selects an index out of range, for which an IR raises no error.

    An If whose other branch cannot be computed has such an index, np.bincount with `minlength`, and a loop without
    a limit of steps. scope: the node of operators in a body that have none.
    """
    for o in graph.ops:
        if o.body is not None:
            _need_indices_in_range(o.body, o.scope or scope)
        where = producer(graph.producers, o.inputs[1], "Where") if o.op in _SELECTING else None
        for index in where.inputs[1:] if where is not None else ():
            number_, size = number(index), o.first.shape[o["axis"]]
            most = size.maximum if isinstance(size, Dim) else int(size)
            if number_ is not None and not -most <= number_ < most:
                how = wording("constants={name: value} of read", "--constant NAME=VALUE")
                raise LayerError(
                    "a condition selects a branch that cannot be computed for these shapes, or an index out of "
                    "range, as np.bincount does for a number above minlength, and a loop without a limit of steps "
                    "at its end. An OpenVINO model gives wrong values for it instead of an error. Give the "
                    f"value of the input that decides the condition: {how}. Clip the index, or limit the loop",
                    f"layer '{o.scope or scope}'",
                )


_SELECTING = ("Gather", "ScatterElements")


def _save(graph: Graph, source: Source, path: Path, precision: Precision) -> None:
    ov = _openvino()
    shared: list[Array] = []
    try:
        model = _model(graph, source, shared, precision)
    except RuntimeError as error:
        raise unsupported(graph, error) or EngineError(f"OpenVINO refuses the network: {error}") from error
    _escape_names(model)
    if any(o.op == "DequantizeLinear" for o in graph.ops):  # OpenVINO would round the other factor to 8 bits, too
        model.set_rt_info("0", ["runtime_options", "DYNAMIC_QUANTIZATION_GROUP_SIZE"])
    if source.network.channel_orders:
        model.set_rt_info(json.dumps(source.network.channel_orders), CHANNEL_ORDERS.split("."))
    for key, text in precision.properties.items():
        model.set_rt_info(text, key.split("."))
    if source.sizes is not None:
        model.set_rt_info(source.sizes.stated().to_json(), SIZES.split("."))
    try:
        ov.save_model(model, str(path), compress_to_fp16=precision.half)
    except RuntimeError as error:
        raise FileError(f"cannot be written: {error}", path.name) from error


def unsupported(graph: Graph, error: Exception) -> EngineError | None:
    """Return the error of operators that OpenVINO does not have, or None where `error` does not name any."""
    match = _UNSUPPORTED.search(str(error))
    if match is None:
        return None
    types = [name.rpartition("-")[0].rpartition(".")[2] for name in match[1].split(", ")]
    layers = list(dict.fromkeys(f"'{o.scope}'" for o in graph.ops if o.op in types and o.scope))
    where = f" ({'layer' if len(layers) == 1 else 'layers'} {some(layers)})" if layers else ""
    rule = f"OpenVINO does not support operator {', '.join(map(repr, types))}{where}"
    return EngineError(rule)


def _escape_names(model: Any) -> None:
    """Replace characters that XML cannot have by their escape sequences in Python, for example "\\x01"."""

    def escaped(name: str) -> str:
        return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), name)

    model.set_friendly_name(escaped(model.get_friendly_name()))
    outputs = [output for op in model.get_ops() for output in op.outputs()]
    used_names = {name for output in outputs for name in output.get_names()}
    for op in model.get_ops():
        op.set_friendly_name(escaped(op.get_friendly_name()))
    for output in outputs:
        names = output.get_names()
        new = {name for name in names if not _NOT_XML.search(name)}
        for name in sorted(names - new):
            other = escaped(name)
            while other in used_names:
                other += "_"
            used_names.add(other)
            new.add(other)
        if new != names:
            output.set_names(new)


def _openvino() -> Any:
    try:
        from anylayer.libraries.openvino import ov
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("anylayer"):
            raise
        raise EngineError("writing OpenVINO models needs: pip install openvino") from None
    return ov


def _model(graph: Graph, source: Source, shared: list[Array], precision: Precision) -> Any:
    """Return the ov.Model of the graph. Append arrays to `shared` that must live as long as the model."""
    from anylayer.libraries.openvino import fold_constants, read_onnx

    cut = _GraphWithoutKept(graph)
    constants = Lifted(_LARGE)
    public = Public.of(source, [f"{v.name}/kept" for v in cut.read])
    lift = None if precision.int8 else constants
    proto = to_onnx(cut.graph, source.network.name or "net", lift=lift, public=public)
    if precision.int8:
        from anylayer.libraries.onnxruntime import to_int8

        nodes, _ = precision.quantized(graph, titles(graph), source)
        proto = to_int8(proto, precision.calibrate, nodes, reduce_range=precision.reduce_range)
    model = read_onnx(proto.SerializeToString())
    parameters = {p.get_friendly_name(): p for p in model.get_parameters()}
    for name, array in constants.items():
        _put_constant(model, parameters[name], array, shared)
    if cut.kept:
        cut.insert_kept(model, len(source.outputs))
    for name, layout in source.network.layouts.items():
        if name in parameters:
            parameters[name].set_layout(_openvino().Layout(layout))
    model.validate_nodes_and_infer_types()
    # folding would make them float32 again
    if not precision.int8 and not any(o.op == "DequantizeLinear" for o in graph.ops):
        fold_constants(model)
    _name_inputs_and_outputs(model, graph, public.outputs[: len(source.outputs)])
    return _with_float16_io(model) if precision.io == "float16" else model


def _with_float16_io(model: Any) -> Any:
    """Return the model with its float32 inputs and outputs in float16."""
    ov = _openvino()
    steps = ov.preprocess.PrePostProcessor(model)
    for ports, part in ((model.inputs, steps.input), (model.outputs, steps.output)):
        for i, port in enumerate(ports):
            if port.get_element_type() == ov.Type.f32:
                part(i).tensor().set_element_type(ov.Type.f16)
    return steps.build()


def _name_inputs_and_outputs(model: Any, graph: Graph, outputs: Sequence[str]) -> None:
    """Remove other names from the outputs, and add the inputs without consumers.

    Folding constants adds the constants' names to an output. OpenVINO removes inputs without consumers.
    """
    ov = _openvino()
    public = {*outputs, *(v.name for v in graph.inputs)}
    for name, result in zip(outputs, model.get_results()):
        tensor = result.input_value(0)
        tensor.set_names({*(tensor.get_names() & public), name})
        result.output(0).set_names({name})
    present = {name for p in model.get_parameters() for name in p.output(0).get_names()}
    for value in graph.inputs:
        if value.name not in present:
            shape = [d if isinstance(d, int) else -1 for d in value.shape]
            parameter = ov.op.Parameter(ov.Type(value.dtype), ov.PartialShape(shape))
            parameter.set_friendly_name(value.name)
            parameter.output(0).set_names({value.name})
            model.add_parameters([parameter])


def _put_constant(model: Any, parameter: Any, array: Array, shared: list[Array]) -> None:
    """Replace an input of the model by a constant that shares the array's memory."""
    ov = _openvino()
    memory = np.require(array, requirements=["C", "W"])
    shared.append(memory)
    constant = ov.op.Constant(ov.Tensor(memory, shared_memory=True), shared_memory=True)
    constant.set_friendly_name(parameter.get_friendly_name())
    ov.utils.replace_node(parameter, constant)
    model.remove_parameter(parameter)


class _GraphWithoutKept:
    """A graph from which the kept layers are removed. Their outputs become inputs of it, their inputs outputs."""

    def __init__(self, graph: Graph) -> None:
        self.kept = [o for o in graph.ops if o.kept]
        self.read: list[Value] = []
        for o in self.kept:
            self.read += [v for v in o.inputs if v is not None and v not in self.read]
        self.graph = graph
        if self.kept:
            self.graph = Graph()
            self.graph.ops = [o for o in graph.ops if not o.kept]
            self.graph.inputs = [*graph.inputs, *(v for o in self.kept for v in o.outputs)]
            self.graph.outputs = [*graph.outputs, *self.read]

    def insert_kept(self, model: Any, outputs: int) -> None:
        """Insert the kept layers into the model.

        The model has a further output for each value that they read, after the first `outputs`, and an input for
        each of their outputs. These are removed.
        """
        results = model.get_results()
        sources = {v: _without_identity(r.input_value(0)) for v, r in zip(self.read, results[outputs:])}
        parameters = {name: p for p in model.get_parameters() for name in p.output(0).get_names()}
        for o in self.kept:
            with at(f"layer '{o.scope}' ({o.op})"):
                node = _operation(o, [sources[v] for v in o.inputs if v is not None])
            node.set_friendly_name(o.scope or o.op)
            for i, value in enumerate(o.outputs):
                parameter = parameters[value.name]
                for target in parameter.output(0).get_target_inputs():
                    target.replace_source_output(node.output(i))
                for key, source_output in sources.items():
                    if source_output.get_node().get_friendly_name() == parameter.get_friendly_name():
                        sources[key] = node.output(i)
                node.output(i).set_names({value.name})
                model.remove_parameter(parameter)
        for result in results[outputs:]:
            model.remove_result(result)


def _without_identity(output: Any) -> Any:
    """Return the output that a chain of Identity nodes copies."""
    while output.get_node().get_type_name() == "Identity":
        output = output.get_node().input_value(0)
    return output


def _operation(o: Op, inputs: Sequence[Any]) -> Any:
    """Return a kept layer as an OpenVINO operation with the layer's attributes and output types."""
    ov = _openvino()
    attributes = {name: _text(name, value) for name, value in o.attrs.items()}
    types = [(v.dtype, [d if isinstance(d, int) else -1 for d in v.shape]) for v in o.outputs]

    def init(self: Any, given: Any = None) -> None:
        ov.Op.__init__(self, self, given)

    def infer(self: Any) -> None:
        for i, (dtype, shape) in enumerate(types):
            self.set_output_type(i, ov.Type(dtype), ov.PartialShape(shape))

    def visit(self: Any, visitor: Any) -> bool:
        visitor.on_attributes(attributes)
        return True

    members = {"__init__": init, "validate_and_infer_types": infer, "visit_attributes": visit}
    node = type(o.op, (ov.Op,), members)(list(inputs))
    node.constructor_validate_and_infer_types()
    return node


def _text(name: str, value: Any) -> Any:
    """Return an attribute as an IR spells it. Raises LayerError for a type that an IR has no spelling for."""
    if isinstance(value, (list, tuple)):
        return ", ".join(str(_text(name, v)) for v in value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, str):
        need(not _NOT_XML.search(value), f"attribute '{name}' is {value!a}, with a character that XML cannot have")
        return str(value)
    raise LayerError(f"attribute '{name}' is a {type(value).__name__}, which an IR cannot express")


def _with_inlined_bodies(graph: Graph) -> Graph:
    """Return the graph with each kept layer replaced by the operators of its body."""
    result = Graph()
    result.inputs, result.outputs = graph.inputs, graph.outputs
    result.ops = []
    for o in graph.ops:
        if not o.kept or o.body is None:
            result.ops.append(o)
            continue
        present = [v for v in o.inputs if v is not None][: len(o.body.inputs)]
        outer: dict[Value, Value] = dict(zip(o.body.inputs, present))
        outer.update(zip(o.body.outputs, o.outputs))
        for inner in o.body.ops:
            inputs = [None if v is None else outer.get(v, v) for v in inner.inputs]
            outputs = [outer.get(v, v) for v in inner.outputs]
            result.ops.append(replace(inner, inputs=inputs, outputs=outputs, scope=o.scope))
    return result
