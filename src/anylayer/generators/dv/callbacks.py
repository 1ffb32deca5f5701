"""Callbacks of custom layers: their parameter structs, their C++ code, and the values that each layer passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import LayerError, at, need
from anylayer.generators._cpp import KEYWORDS, line_comment
from anylayer.generators._names import Names
from anylayer.generators.dv.parameters import INPUTS, Struct, struct_of
from anylayer.generators.dv.plan import Custom, DvLayer
from anylayer.generators.dv.priors import PriorLayer, priors_of
from anylayer.layer.opencv import opencv_params
from anylayer.loops import CppFunction, lower, table_text, to_cpp
from anylayer.source import Source, TracedNode

_RUNTIME = ("layer", "conf", "custom_param", "io_ptr", "fpga_layer", "Sequential")


@dataclass(slots=True)
class Callback:
    """A callback: the name of its type, the members of its struct, and its code."""

    name: str
    members: Sequence[str]
    code: str


@dataclass(slots=True)
class Callbacks:
    """The callbacks of a network. Layers with equal code and equal types of params share a callback."""

    source: Source
    two_arguments: bool
    all: list[Callback] = field(default_factory=list)
    _names: Names = field(default_factory=lambda: Names({*KEYWORDS, *_RUNTIME}))
    _known: dict[Any, Callback] = field(default_factory=dict)

    def of(self, layer: DvLayer) -> tuple[Callback, Struct]:
        """Return the callback of a custom layer, and its params.

        Raises LayerError for a layer whose operators have no loops.
        """
        kind, traced = layer.kind, self.traced(layer.names[0])
        if not isinstance(kind, Custom):
            raise TypeError(kind)
        type_ = traced.node.type if traced is not None else layer.names[0]
        with at(layer.place):
            if kind.graph is None:
                raise LayerError("it has no operators, so there is no code for it")
            constants = [v.const for v in kind.graph.outputs]
            found = None
            if len(constants) == 1 and constants[0] is not None:
                found = priors_of(constants[0], traced)
            struct = found.struct if found else struct_of(_params(traced) if kind.op is not None else {})
            if found is None:
                _add_inputs(struct, layer)
            code = _Code(found, kind, layer, self.two_arguments)
            key = (type_, tuple(struct.members), code.text("Same"))
        if key not in self._known:
            name = self._names.new(type_, "Layer")
            self._known[key] = Callback(name, struct.members, code.text(name))
            self.all.append(self._known[key])
        return self._known[key], struct

    def traced(self, name: str) -> TracedNode | None:
        """Return a node by its name."""
        return next((t for t in self.source.nodes if t.node.name == name), None)


def _params(traced: TracedNode | None) -> Mapping[str, Any]:
    return {} if traced is None else opencv_params(traced.node.params, traced.node.defaults)


def _add_inputs(struct: Struct, layer: DvLayer) -> None:
    """Add the offsets of the inputs to a struct if a layer has several inputs; the hardware's layer has room for
    one.
    """
    if len(layer.inputs) > 1:
        struct.members.append(f"input_place {INPUTS}[{len(layer.inputs)}];")
        places = []
        for view in layer.inputs:
            dims = view.buffer.dims
            sizes = ", ".join(map(str, [*dims, 0, 0][:3]))
            hardware = view.buffer.half and view.buffer.is_map
            flags = f"{str(not view.buffer.half).lower()}, {str(hardware).lower()}"
            places.append(f"{{ {view.buffer.offset}, {{ {sizes} }}, {len(dims)}, {flags} }}, ")
        struct.values.append("{ " + "".join(places) + "}")


@dataclass(slots=True)
class _Code:
    """The code of a callback without its name, so that equal callbacks can be found."""

    priors: PriorLayer | None
    kind: Custom
    layer: DvLayer
    two_arguments: bool

    def text(self, name: str) -> str:
        """Return the code with this name."""
        end = "" if self.two_arguments else ", uint8_t *io_ptr"
        head = f"void custom_callback_{name}(fpga_layer &layer, void *param{end}) {{\n"
        if self.two_arguments:
            head += "  uint8_t *io_ptr = current_io_ptr();\n"
        if self.priors is not None:
            return self.priors.code(name, head)
        return self.kernel(name, head)

    def kernel(self, name: str, head: str) -> str:
        """Return the callback of a layer that computes its outputs by loops."""
        graph, layer = self.kind.graph, self.layer
        if graph is None:
            raise TypeError(name)
        need(
            len(graph.inputs) == len(layer.inputs) or not graph.ops,
            "one of its inputs is a constant; give the constant as a param",
        )
        for v in (*graph.inputs, *graph.outputs):
            need(
                v.dtype == np.float32,
                f"layers on the CPU read and write float32, this one has {v.dtype}; convert it in the layer",
            )
        code = to_cpp(lower(graph), f"compute_{name}", line_comment)
        tables = [table_text(f"{name}_{t}", a.dtype, a) for t, a in code.tables]
        return "\n".join([*tables, code.text, head + self.body(name, code)])

    def body(self, name: str, code: CppFunction) -> str:
        """Return the statements of the callback, and its closing brace."""
        layer, lines = self.layer, []
        several = len(layer.inputs) > 1
        if several:
            lines.append(f"custom_param_{name} *places = reinterpret_cast<custom_param_{name}*>(param);")
        else:
            lines.append("(void)param;")
        used = layer.inputs if code.inputs else []
        for i, view in enumerate(used):
            place = (
                f"places->{INPUTS}[{i}]"
                if several
                else f"place_of_input(layer, {str(not view.buffer.half).lower()})"
            )
            read = f"read_input({place}, io_ptr)"
            planes = view.buffer.is_map and not view.last
            if planes:
                c, h, w = view.buffer.shape
                read = f"to_planes({read}, {w * h}, {c})"
            lines.append(f"const std::vector<float> input{i} = {read};")
        total = sum(b.count for b in layer.outputs)
        lines.append(f"std::vector<float> output({total});")
        arguments, at_ = [f"input{i}.data()" for i in range(len(used))], 0
        for buffer in layer.outputs:
            arguments.append(f"output.data() + {at_}" if at_ else "output.data()")
            at_ += buffer.count
        arguments += [f"{name}_{table}" for table, _ in code.tables]
        lines.append(f"compute_{name}({', '.join([*arguments, 'Sequential()'])});")
        if len(layer.outputs) == 1 and layer.output.is_map:
            c, h, w = layer.output.shape
            lines.append(f"output = to_planes(output, {c}, {w * h});")
        lines.append(put(layer.output.half, self.two_arguments))
        return "".join(f"  {line}\n" for line in lines) + "}\n"


def put(hardware: bool, two_arguments: bool) -> str:
    """Return the statement that writes the output of a callback."""
    arguments = ["layer", "output", *([] if two_arguments else ["io_ptr"]), *(["true"] if hardware else [])]
    return f"put_layer_output({', '.join(arguments)});"
