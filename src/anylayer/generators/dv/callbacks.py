"""Callbacks of custom layers: their parameter structs, their C++ code, and the values that each layer passes."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import AnyLayerError, at, given, need
from anylayer.folders import fill, template
from anylayer.generators._cpp import KEYWORDS, line_comment, names, string
from anylayer.generators._names import Names
from anylayer.generators.dv.plan import Custom, DvLayer
from anylayer.graph import Graph
from anylayer.layer.opencv import opencv_params
from anylayer.loops import CppFunction, Opened, at_fixed_sizes, lower, number, table_text, to_cpp
from anylayer.loops.parameters import ParamNumber
from anylayer.network import Array, Flag
from anylayer.source import Source, TracedNode

CALLBACK = "THIS_CALLBACK"
"""Stands for a callback's name in its code, so that equal callbacks can be found."""
INPUTS = "input_places"
"""The member with the places of a layer's inputs."""
_RUNTIME = ("layer", "conf", "custom_param", "io_ptr", "fpga_layer", "Sequential")


@dataclass(slots=True)
class Callback:
    """A callback: the name of its type, the members of its struct, notes about them, and its code."""

    name: str
    members: Sequence[str]
    notes: Sequence[str]
    code: str


@dataclass(slots=True)
class Callbacks:
    """The callbacks of a network. Layers with equal code and equal types of params share a callback."""

    source: Source
    two_arguments: bool
    all: list[Callback] = field(default_factory=list)
    _names: Names = field(default_factory=lambda: Names({*KEYWORDS, *_RUNTIME}))
    _known: dict[tuple[str, tuple[str, ...], str], Callback] = field(default_factory=dict)

    def of(self, layer: DvLayer) -> tuple[Callback, Struct]:
        """Return the callback of a custom layer, and its params.

        Raises LayerError for a layer whose operators have no loops.
        """
        kind, traced = layer.kind, self.traced(layer.names)
        if not isinstance(kind, Custom):
            raise TypeError(kind)
        type_ = traced.node.type if traced is not None else layer.names[0]
        with at(layer.place):
            graph = given(kind.graph, "it has no operators, so there is no code for it")
            constants = [v.const for v in graph.outputs]
            priors, notes = None, list[str]()
            if len(constants) == 1 and constants[0] is not None:
                priors = priors_of(constants[0], traced)
            if priors is not None:
                struct, read = struct_of(priors.params), priors.read
                text = self.head() + priors.code(CALLBACK, _put(self.two_arguments))
            else:
                source = None if traced is None else _with_params(graph, traced)
                owns = traced is not None and (source is not None or kind.op is not None)
                struct = struct_of(_params(traced), self.floats(type_)) if owns else Struct()
                text, read = _kernel(
                    source or Opened(graph), layer, traced, struct, self.head(), self.two_arguments
                )
                notes += source.notes if source is not None else []
        key = (type_, tuple(struct.members), text)
        if key not in self._known:
            name = self._names.new(type_, "Layer")
            unread = [member for param, member in struct.names.items() if param not in read]
            notes += [f"numbers in the code, which does not read these: {', '.join(unread)}"] if unread else []
            self._known[key] = Callback(name, struct.members, notes, text.replace(CALLBACK, name))
            self.all.append(self._known[key])
        return self._known[key], struct

    def traced(self, names: Sequence[str]) -> TracedNode | None:
        """Return the node of a layer, or None for one that stands for several nodes."""
        return next((t for t in self.source.nodes if [t.node.name] == names), None)

    def floats(self, type_: str) -> set[str]:
        """Return the params that are floats, or lists with floats, in a layer of this type."""
        params = [pair for t in self.source.nodes if t.node.type == type_ for pair in _params(t).items()]
        return {name for name, x in params if any(isinstance(v, float) for v in np.atleast_1d(x).tolist())}

    def head(self) -> str:
        """Return the beginning of a callback."""
        if self.two_arguments:
            base = "  uint8_t *io_ptr = current_io_ptr();\n"
            return f"void custom_callback_{CALLBACK}(fpga_layer &layer, void *param) {{\n{base}"
        return f"void custom_callback_{CALLBACK}(fpga_layer &layer, void *param, uint8_t *io_ptr) {{\n"


def _kernel(
    source: Opened, layer: DvLayer, traced: TracedNode | None, struct: Struct, head: str, two_arguments: bool
) -> tuple[str, set[str]]:
    """Return the callback of a layer that computes its outputs by loops, and the params that it reads. Add a
    member for several inputs to the struct.
    """
    graph = source.graph
    need(
        len(graph.inputs) == len(layer.inputs) or not graph.ops,
        "one of its inputs is a constant; give the constant as a param",
    )
    for v in (*graph.inputs, *graph.outputs):
        need(
            v.dtype == np.float32,
            f"layers on the CPU read and write float32, this one has {v.dtype}; convert it in the layer",
        )
    code = to_cpp(lower(source), f"compute_{CALLBACK}", line_comment)
    params = {p: _argument(p, _params(traced)[p.name], struct, source) for p in code.params}
    _add_inputs(struct, layer)
    tables = [table_text(f"{CALLBACK}_{t}", a.dtype, a) for t, a in code.tables]
    body = _body(layer, code, list(params.values()), two_arguments)
    read = {p.name for p, text in params.items() if text.startswith("params.")}
    return "\n".join([*tables, code.text, head + body]), read


def _argument(param: ParamNumber, value: object, struct: Struct, source: Opened) -> str:
    """Return the C++ expression of a param's number: a member of the struct, or the number itself where it is used
    in another precision than float32, and the member does not hold it exactly.
    """
    several = isinstance(value, (list, tuple))
    exact = float(np.asarray(value, np.float64).reshape(-1)[param.at])
    used = [v for v, elements in source.parameters.items() if isinstance(elements, list) and param in elements]
    single = all(v.dtype == np.float32 for v in used)
    if not single and float(np.float32(exact)) != exact:
        return number(exact, np.dtype(np.float64))
    return f"params.{struct.names[param.name]}" + f"[{param.at}]" * several


def _with_params(graph: Graph, traced: TracedNode) -> Opened | None:
    """Return a layer's trace in which scalar params are parameters of the function, or None where the layer on the
    CPU computes something else than the trace, for example a part of it.
    """
    if traced.bound is None or traced.bound.definition.native_only or not graph.ops:
        return None
    try:
        opened = at_fixed_sizes(traced.bound, free_params=True)
        plain = opened if not opened.parameters else at_fixed_sizes(traced.bound)
        same = [to_cpp(lower(g), "same", line_comment).text for g in (graph, plain)]
    except AnyLayerError:
        return None
    return opened if same[0] == same[1] else None


def _params(traced: TracedNode | None) -> Mapping[str, Any]:
    return {} if traced is None else opencv_params(traced.node.params, traced.node.defaults)


def _add_inputs(struct: Struct, layer: DvLayer) -> None:
    """Add the offsets of the inputs to a struct if a layer has several: the hardware's layer has room for one."""
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


def _body(layer: DvLayer, code: CppFunction, params: Sequence[str], two_arguments: bool) -> str:
    """Return the statements of a callback with loops, and its closing brace."""
    several = len(layer.inputs) > 1
    struct = f"custom_param_{CALLBACK}"
    reads = bool(params) or (several and bool(code.inputs))
    cast = f"const {struct}& params = *static_cast<const {struct}*>(param);"
    lines = [cast if reads else "(void)param;"]
    used = layer.inputs if code.inputs else []
    for i, view in enumerate(used):
        is_single = "!layer.is_input_hw_layout" if view.buffer.is_map else str(not view.buffer.half).lower()
        read = (
            f"read_input({f'params.{INPUTS}[{i}]' if several else f'place_of_input(layer, {is_single})'}, io_ptr)"
        )
        if view.buffer.is_map and not view.last:
            c, h, w = view.buffer.shape
            read = f"to_planes({read}, {w * h}, {c})"
        lines.append(f"const std::vector<float> input{i} = {read};")
    total = sum(b.count for b in layer.outputs)
    lines.append(f"std::vector<float> output({total});")
    arguments, at_ = [f"input{i}.data()" for i in range(len(used))], 0
    for buffer in layer.outputs:
        arguments.append(f"output.data() + {at_}" if at_ else "output.data()")
        at_ += buffer.count
    arguments += [*(f"{CALLBACK}_{table}" for table, _ in code.tables), *params, "Sequential()"]
    lines.append(f"compute_{CALLBACK}({', '.join(arguments)});")
    if len(layer.outputs) == 1 and layer.output.is_map:
        c, h, w = layer.output.shape
        lines.append(f"output = to_planes(output, {c}, {w * h});")
    lines.append(_put(two_arguments))
    return "".join(f"  {line}\n" for line in lines) + "}\n"


def _put(two_arguments: bool) -> str:
    """Return the statement that writes the output of a callback, in the hardware's layout if hardware reads it."""
    return f"put_layer_output(layer, output, {'' if two_arguments else 'io_ptr, '}!layer.is_f32_output);"


# ---- params as members of structs


@dataclass(slots=True)
class Struct:
    """A struct in C++: `members` are the declarations of its members, `values` the values of one instance.
    `names` maps the params of the layer to the names of their members."""

    members: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


def struct_of(params: Mapping[str, object], floats: Container[str] = ()) -> Struct:
    """Return a C++ struct with a member for each param of a layer, in the order of the network's file.

    floats: the params that are floats in another layer of the type, so that `add: 2` and `add: 0.5` have one
    struct. A list that contains a float becomes an array of floats. Raises LayerError for a param that is neither
    numbers, booleans nor text.
    """
    found, members = Struct(), names([INPUTS, CALLBACK])
    for name, value in params.items():
        several = isinstance(value, (list, tuple, np.ndarray))
        items = value.reshape(-1) if isinstance(value, np.ndarray) else value
        values = list(items) if isinstance(items, (list, tuple, np.ndarray)) else [value]
        if not values or values[0] is None:
            continue
        kind = _kind(name, values)
        kind = "float" if kind == "int" and name in floats else kind
        size = f"[{len(values)}]" if several else ""
        member = f"param_{name}" if name.isupper() and len(name) > 1 else name  # it may be a macro
        found.names[name] = members.new(member, "param")
        found.members.append(f"{kind:5} {found.names[name]}{size};".replace("char* ", "char *"))
        texts = [_text(v, kind) for v in values]
        found.values.append("{ " + "".join(f"{t}, " for t in texts) + " }" if several else texts[0])
    return found


def _kind(name: str, values: Sequence[object]) -> str:
    """Return the C++ type that can hold all these values of a param."""
    if all(isinstance(v, (bool, Flag, np.bool_)) for v in values):
        return "bool"
    if all(isinstance(v, (int, np.integer)) for v in values):
        return "int"
    if all(isinstance(v, (int, float, np.number)) for v in values):
        return "float"
    need(all(isinstance(v, str) for v in values), f"parameter '{name}' is neither numbers nor text")
    return "const char*"


def _text(value: Any, kind: str) -> str:
    """Return a value as a C++ literal of the type `kind`."""
    if kind == "bool":
        return "true" if value else "false"
    if kind == "const char*":
        return string(str(value))
    if kind == "int":
        need(-(2**31) <= int(value) < 2**31, f"{value} is not a 32-bit integer")
        return str(int(value))
    if isinstance(value, int) or not np.isfinite(value):
        return str(int(value)) if isinstance(value, int) else number(value, np.dtype(np.float32))
    return repr(float(value))


# ---- SSD's prior boxes as a loop over params. A layer is recognized by the names of its params; the boxes of the
# loop are then compared with those of the layer.

_FIELDS = ("img_size", "min_size", "max_size", "aspect_ratios", "variances", "clip")
_NEAR = 1e-5


@dataclass(frozen=True, slots=True)
class PriorLayer:
    """A layer of prior boxes. `params` are those of its struct, `read` those that the boxes depend on. `rows` says
    that each row holds a box and its variances; otherwise all variances follow all boxes.
    """

    params: Mapping[str, object]
    read: set[str]
    rows: bool

    def code(self, name: str, put: str) -> str:
        """Return the statements of the callback of this name, and its closing brace. `put` writes the output."""
        place = (
            "std::memcpy(&output[count * 8], &box, sizeof(box));"
            if self.rows
            else "std::memcpy(&output[count * 4], &box, 16);\n"
            "        std::memcpy(&output[output.size() / 2 + count * 4], &box.xv, 16);"
        )
        steps = [f"{size} / layer.input_dim[{i}]" for i, size in enumerate(("width", "height"))]
        if "step" in self.read:
            steps = ["box_param->step[0]", "box_param->step[1]"]
        return fill(
            template(__file__, "priors.cpp"),
            type=f"custom_param_{name}",
            place=place,
            put=put,
            step_x=steps[0],
            step_y=steps[1],
            offset="box_param->offset" if "offset" in self.read else "0.5f",
        )


def priors_of(value: Array, traced: TracedNode | None) -> PriorLayer | None:
    """Return the loop that computes a constant from its layer's params, or None for another constant."""
    if traced is None or value.dtype != np.float32:
        return None
    params = opencv_params(traced.node.params, traced.node.defaults)
    kinds = [t for t in traced.inputs if t is not None]
    if not kinds or len(kinds[0].shape) != 4:
        return None
    has_fields = all(name in params for name in _FIELDS)
    fields = dict(params) if has_fields else _of_caffe(params, kinds)
    if fields is None:
        return None
    read = set(_FIELDS if has_fields else fields)
    last = traced.node.layout == "NHWC"
    rows, columns = kinds[0].shape[1:3] if last else kinds[0].shape[2:]
    boxes = _boxes({name: fields[name] for name in read}, int(rows), int(columns))
    if boxes is None or boxes.size != value.size:
        return None
    planes = np.stack([boxes[:, :4].reshape(-1), boxes[:, 4:].reshape(-1)])
    for is_rows, array in ((True, boxes), (False, planes)):
        if array.shape == value.shape[-2:] and np.allclose(array, value.reshape(array.shape), 0, _NEAR):
            return PriorLayer({name: fields[name] for name in fields if is_rows or name in read}, read, is_rows)
    return None


def _of_caffe(params: Mapping[str, Any], kinds: Sequence[Any]) -> dict[str, Any] | None:
    """Return the params of Caffe's PriorBox under the names of DMP's tool, or None for a layer without them.

    Two params are Caffe's only: `step`, the distance of two centers (x, y) in pixels, and `offset`, the place of a
    center in its cell. Without them, the cells divide the image, and each center is in the middle of its cell.
    """
    low, high = (_numbers(params.get(name)) for name in ("min_size", "max_size"))
    if not low or len(high) not in (0, len(low)) or len(kinds) != 2 or len(kinds[1].shape) != 4:
        return None
    size = _numbers(params.get("img_size")) or _numbers(params.get("img_w")) + _numbers(params.get("img_h"))
    ratios = [1.0, *([1.0] if high else [])]
    for ratio in _numbers(params.get("aspect_ratio")):
        if all(abs(ratio - known) > 1e-6 for known in ratios):
            ratios += [ratio, 1 / ratio] if params.get("flip", True) else [ratio]
    step = _numbers(params.get("step")) or _numbers(params.get("step_w")) + _numbers(params.get("step_h"))
    high = high or [0.0] * len(low)
    return {
        "img_size": [int(s) for s in (size * 2)[:2]] if size else [int(d) for d in kinds[1].shape[:1:-1]],
        "min_size": low if low[1:] else low[0],
        "max_size": high if low[1:] else high[0],
        "aspect_ratios": ratios,
        "variances": _numbers(params.get("variance")) or [0.1],
        "clip": bool(params.get("clip", False)),
        **({"step": (step * 2)[:2]} if any(step) else {}),
        **({"offset": float(params["offset"])} if params.get("offset", 0.5) != 0.5 else {}),
    }


def _numbers(value: Any) -> list[float]:
    return [] if value is None else [float(v) for v in np.atleast_1d(value)]


def _boxes(fields: Mapping[str, Any], rows: int, columns: int) -> Array | None:
    """Return the boxes (count, 8) that the C++ code computes, in the same order and precision."""
    width, height = (float(v) for v in fields["img_size"])
    variances, lows, highs = (_numbers(fields[name]) for name in ("variances", "min_size", "max_size"))
    if len(variances) not in (1, 4) or len(lows) != len(highs):
        return None
    if min(width, height, *map(float, fields["aspect_ratios"])) <= 0:
        return None
    halves: list[tuple[float, float]] = []
    for low, high in zip(lows, highs):
        for i, ratio in enumerate(map(float, fields["aspect_ratios"])):
            side = math.sqrt(low * high) if i else low
            both = (0.5 * side, 0.5 * side)
            halves.append(both if ratio == 1 else (0.5 * low * math.sqrt(ratio), 0.5 * low / math.sqrt(ratio)))
    half, offset = np.array(halves), fields.get("offset", 0.5)
    across, down = fields.get("step", (width / columns, height / rows))
    y, x = np.meshgrid((np.arange(rows) + offset) * down, (np.arange(columns) + offset) * across, indexing="ij")
    centre = np.stack([x, y], axis=-1)[:, :, None]
    boxes = np.concatenate([centre - half, centre + half], axis=-1) / [width, height, width, height]
    boxes = (np.clip(boxes, 0, 1) if fields["clip"] else boxes).reshape(-1, 4)
    return np.concatenate([boxes, np.broadcast_to(np.resize(variances, 4), boxes.shape)], axis=1).astype(
        np.float32
    )
