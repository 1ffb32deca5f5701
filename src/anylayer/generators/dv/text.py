"""The generated header and source file of a network, in the form of DMP's tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.errors import at
from anylayer.folders import fill, template
from anylayer.generators._cpp import line_comment, names, string
from anylayer.generators.dv.callbacks import Callbacks
from anylayer.generators.dv.plan import Concat, Convolution, Custom, DvLayer, DvPlan, FullyConnected, Runs, Softmax
from anylayer.generators.dv.weights import packed
from anylayer.loops import prelude

_TITLES = {
    Convolution: ("Convolution Layer", "LT_CONV"),
    Runs: ("Convolution Layer", "LT_CONV"),
    FullyConnected: ("Fully Connected Layer", "LT_FC"),
    Concat: ("CopyConcatenate Layer", "LT_COPY_CONCAT"),
    Softmax: ("SoftMax Layer", "LT_SOFTMAX"),
    Custom: ("Custom Layer", "LT_CUSTOM"),
}


@dataclass(frozen=True, slots=True)
class ProjectText:
    """The header, the source file and the weights."""

    header: str
    source: str
    weights: bytes


def write(plan: DvPlan, name: str, callbacks: Callbacks) -> ProjectText:
    """Return the files of a plan. `name` is an identifier: the class is C<name>."""
    weights: list[bytes] = []
    bodies = [_layer(i, layer, plan, name, callbacks, weights) for i, layer in enumerate(plan.layers)]
    return ProjectText(
        _header(plan, name, callbacks), _source(plan, name, callbacks, bodies, weights), b"".join(weights)
    )


def _header(plan: DvPlan, name: str, callbacks: Callbacks) -> str:
    lines = ["#pragma once", "", '#include "dmp_network.h"', ""]
    end = "" if callbacks.two_arguments else ", uint8_t *io_ptr"
    if _reads_several(callbacks):
        lines += [template(__file__, "input_place.hpp")]
    for callback in callbacks.all:
        members = [f"  {m}" for m in callback.members]
        lines += [f"// {line_comment(note)}" for note in callback.notes]
        lines += [f"struct custom_param_{callback.name}", "{", *members, "};", ""]
        lines += [f"void custom_callback_{callback.name}(fpga_layer &layer, void *custom_param{end});", ""]
    lines += [f"class C{name} : public CDMP_Network {{", " private:"]
    lines += [f"  void Layer_{i}();" for i in range(len(plan.layers))]
    lines += ["", " public:"]
    if len(plan.inputs) > 1:
        member_names = names()
        pairs = [(member_names.new(f"input_{v.name}"), view) for v, view in zip(plan.graph.inputs, plan.inputs)]
        places = ", ".join(f"{name} = {view.buffer.offset}" for name, view in pairs)
        lines += [
            "  // The offset of each input from get_network_input_addr_cpu(), in bytes.",
            f"  enum {{ {places} }};",
        ]
    lines += ["  virtual bool Initialize();", f"  C{name}();", f"  virtual ~C{name}();", "};", ""]
    return "\n".join(lines)


def _reads_several(callbacks: Callbacks) -> bool:
    """Return whether a layer has several inputs, so that its struct says where they lie."""
    return any("input_place" in m for c in callbacks.all for m in c.members)


def _helpers(callbacks: Callbacks, code: str) -> list[str]:
    """Return the functions that the code of callbacks uses."""
    texts = [prelude(code, pooled=False)]
    if callbacks.two_arguments:
        texts.append(template(__file__, "current_io_ptr.hpp"))
    if "read_input" in code:
        texts += [] if _reads_several(callbacks) else [template(__file__, "input_place.hpp")]
        arguments = "from, values" if callbacks.two_arguments else "from, values, io_ptr"
        texts.append(fill(template(__file__, "inputs.hpp"), arguments=arguments))
    if "prior_box_t box;" in code:
        texts.append(template(__file__, "priors.hpp"))
    return texts


def _source(plan: DvPlan, name: str, callbacks: Callbacks, bodies: Sequence[str], weights: Sequence[bytes]) -> str:
    outputs = [layer for layer in plan.layers if any(b.is_output for b in layer.outputs)]
    parts = [f'#include "{name}_gen.h"\n']
    codes = [c.code for c in callbacks.all]
    if codes:
        parts += ["#include <map>\n#include <vector>\n", *_helpers(callbacks, "\n".join(codes)), *codes]
    parts += [f"C{name}::C{name}() {{\n}}\n", f"C{name}::~C{name}() {{\n}}\n"]
    calls = "".join(f"  Layer_{i}();\n" for i in range(len(bodies)))
    parts.append(
        f"bool C{name}::Initialize() {{\n  if (!ReserveMemory({sum(map(len, weights))}, {plan.size})) {{\n"
        f"    return false;\n  }}\n\n  set_num_layers({len(bodies)});\n"
        f"  set_num_output_layers({len(outputs)});\n\n"
        f"{calls}\n  return true;\n}}\n"
    )
    return "\n".join([*parts, *bodies])


def _layer(i: int, layer: DvLayer, plan: DvPlan, name: str, callbacks: Callbacks, weights: list[bytes]) -> str:
    """Return the method of a layer, and append its weights."""
    kind, (title, type_) = layer.kind, _TITLES[type(layer.kind)]
    if isinstance(kind, Concat) and not kind.copies:
        title, type_ = "Concatenate Layer", "LT_CONCAT"
    lines = [f"//Layer_{i}: {title}", *(f"//\t->: {line_comment(n)}" for n in layer.names)]
    lines += [f"void C{name}::Layer_{i}()", "{"]
    before, own = _kind_fields(layer, plan, callbacks)
    lines += [*before, f"  struct fpga_layer& layer = get_layer({i});", f"  layer.type = {type_};"]
    fields = [f"layer.name = {string(', '.join(layer.names))};"]
    offset = sum(map(len, weights))
    parts = kind.parts if isinstance(kind, Runs) else [layer]
    runs = [(part.kind, part) for part in parts if isinstance(part.kind, Convolution)]
    if runs:
        fields += _command(layer, runs[0][0], kind.topology if isinstance(kind, Runs) else 1)
    for number, (run, part) in enumerate(runs):
        with at(part.place):
            weights.append(packed(run))
        fields += _run(number, run, part, offset)
        offset += len(weights[-1])
    if isinstance(kind, FullyConnected):
        fields += _fully_connected(kind, layer, offset)
        with at(layer.place):
            weights.append(packed(kind))
    lines += [f"  {line}" for line in [*fields, *_fields(layer), *own]]
    if any(b.is_output for b in layer.outputs):
        number = sum(any(b.is_output for b in other.outputs) for other in plan.layers[:i])
        lines.append(f"  output_layers_[{number}] = &layer;")
    return "\n".join([*lines, f"}}//end of  Layer_{i}", ""])


def _kind_fields(layer: DvLayer, plan: DvPlan, callbacks: Callbacks) -> tuple[list[str], list[str]]:
    """Return the definitions and the fields that only layers of this kind have."""
    kind = layer.kind
    if isinstance(kind, Custom):
        callback, struct = callbacks.of(layer)
        values = [f"    {v}," for v in struct.values]
        before = [f"  static custom_param_{callback.name} custom_param = {{", *values, "  };", ""]
        own = [f"layer.custom_proc_ptr = &custom_callback_{callback.name};", "layer.custom_param = &custom_param;"]
        return before, own
    if isinstance(kind, Concat) and kind.copies:
        sources = [
            next(j for j, other in enumerate(plan.layers) if v.buffer in other.outputs) for v in layer.inputs
        ]
        before = [f"  static fpga_layer *input_layers[{len(sources)}];"]
        before += [f"  input_layers[{n}] = &get_layer({j});" for n, j in enumerate(sources)]
        return [*before, ""], [f"layer.input_layer_num = {len(sources)};", "layer.input_layers = input_layers;"]
    return [], [f"layer.softmax_axis = {len(layer.output.dims) - 1};"] if isinstance(kind, Softmax) else []


def _fields(layer: DvLayer) -> list[str]:
    """Return the fields of a layer with the offsets and sizes of its buffers."""
    source, output = layer.inputs[0].buffer if layer.inputs else None, layer.output
    count = sum(b.count for b in layer.outputs)
    dims = output.dims if len(layer.outputs) == 1 else [count]
    lines = [
        f"layer.input_offs = {source.offset if source else 0};",
        f"layer.output_offs = {output.offset};",
        f"layer.output_size = {sum(b.size for b in layer.outputs)};",
    ]
    for what, sizes in (("input", source.dims if source else []), ("output", dims)):
        lines += [f"layer.{what}_dim[{j}] = {d};" for j, d in enumerate(sizes)]
        lines.append(f"layer.{what}_dim_size = {len(sizes)};")
    flags = {
        "is_output": any(b.is_output for b in layer.outputs),
        "is_f32_output": not output.half,
        "is_input_hw_layout": bool(source and source.half and source.is_map),
    }
    return [*lines, *(f"layer.{flag} = {str(value).lower()};" for flag, value in flags.items())]


def _half(value: float) -> str:
    """Return the bits of a 16-bit float."""
    return f"0x{int(np.float16(value).view(np.uint16)):X}"


def _command(layer: DvLayer, first: Convolution, topology: int) -> list[str]:
    """Return the fields of a convolution's configuration before those of its runs."""
    c, h, w = layer.inputs[0].buffer.shape
    return [
        "dmp_dv_cmdraw_conv_v0& conf = layer.conv_conf;",
        *_head("CONV"),
        f"conf.topo = {hex(topology)};",
        *(f"conf.{name} = {size};" for name, size in (("w", w), ("h", h), ("z", 1), ("c", c))),
        *_buffers(layer),
        f"conf.eltwise_buf.mem = {'io_mem_' if first.is_sum else 'NULL'};",
        f"conf.eltwise_buf.offs = {layer.inputs[1].buffer.offset if first.is_sum else 0};",
        f"conf.output_mode = {int(first.is_sum)};",
    ]


def _run(number: int, kind: Convolution, layer: DvLayer, weights: int) -> list[str]:
    """Return the fields of a run."""
    ky, kx = kind.weight.shape[2:] if kind.weight is not None else (1, 1)
    average = kind.pool == 2
    dilated = kind.dilation != (1, 1)
    fields = {
        "m": layer.output.shape[0],
        "conv_enable": 0 if kind.weight is None else 1 + 2 * kind.depthwise + 4 * kind.transposed,
        "p": hex(kx if kx == ky else kx | ky << 8),
        "pz": 1,
        "weight_buf.mem": "weights_mem_",
        "weight_buf.offs": weights,
        "weight_fmt": 0 if kind.weight is None else 1 if kind.table is None else 3,
        "conv_pad": _bytes(*kind.pads),
        "conv_stride": _bytes(*kind.stride),
        "conv_dilation": _bytes(*kind.dilation) if dilated else 0,
        "pool_enable": 2 if kind.is_sum else kind.pool,
        "pool_size": _bytes(1, 1) if kind.is_sum else _bytes(*kind.pool_size),
        "pool_stride": _bytes(*kind.pool_stride),
        "pool_pad": _bytes(*kind.pool_pads),
        "pool_avg_param": _half(1 / (kind.pool_size[0] * kind.pool_size[1]))
        if average
        else _half(int(kind.is_sum)),
        "actfunc": kind.activation,
        "actfunc_param": _half(kind.parameter),
        "rectifi_en": 0,
        "lrn": "0x503" if kind.lrn else 0,
    }
    return [f"conf.run[{number}].{name} = {value};" for name, value in fields.items()]


def _fully_connected(kind: FullyConnected, layer: DvLayer, weights: int) -> list[str]:
    """Return the fields of a fully connected layer's configuration. The weights are in the order of the input."""
    outputs, inputs = kind.weight.shape
    return [
        "dmp_dv_cmdraw_fc_v0& conf = layer.fc_conf;",
        *_head("FC"),
        f"conf.input_size = {inputs};",
        f"conf.output_size = {outputs};",
        "conf.weight_buf.mem = weights_mem_;",
        f"conf.weight_buf.offs = {weights};",
        *_buffers(layer),
        f"conf.weight_fmt = {int(kind.table is not None)};",
        f"conf.actfunc = {kind.activation};",
        f"conf.actfunc_param = {_half(kind.parameter)};",
    ]


def _head(device: str) -> list[str]:
    lines = ["size = sizeof(conf)", f"device_type = DMP_DV_DEV_{device}", "version = 0"]
    return [f"conf.header.{line};" for line in lines]


def _buffers(layer: DvLayer) -> list[str]:
    """Return the fields for the buffers of the input and the output."""
    offsets = {"input": layer.inputs[0].buffer.offset, "output": layer.output.offset}
    lines = [(f"conf.{n}_buf.mem = io_mem_;", f"conf.{n}_buf.offs = {offset};") for n, offset in offsets.items()]
    return [line for both in lines for line in both]


def _bytes(*numbers: int) -> str:
    """Return small numbers as the bytes of one hexadecimal word, the lowest byte first."""
    return hex(sum(n << 8 * i for i, n in enumerate(numbers)))
