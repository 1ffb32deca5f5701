"""Convert a graph to an ONNX model (protobuf)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType

import numpy as np

from anylayer.errors import EngineError
from anylayer.graph import OPSET, Dim, Graph, Op, Value
from anylayer.libraries.onnx import TensorProto, elem_type, helper, least_version, numpy_helper, onnx
from anylayer.network import Array
from anylayer.source import Source, other_outputs, unused_name

_IR_VERSION = 9
_IR_VERSION_OF_4_BITS = 10
"""The version of ONNX's file format that has the types int4 and uint4, and opset 21."""
_RENAMED = {"GridSample": {"bilinear": "linear", "bicubic": "cubic"}}  # since opset 20
EXACT_PRODUCTS = ("session.qdq_matmulnbits_accuracy_level", "1")
"""The option of a session with which ONNX Runtime (1.32) multiplies real numbers by quantized weights as the file
states. By default it rounds the real numbers to 8 bits, and is off by about 0.5 % of the largest value."""

External = Callable[[str, Value], "tuple[str, int] | None"]
"""(name, constant) -> the file next to the model and the offset of the data in it; None to store it inside."""

Lift = Callable[[str, Value], bool]
"""(name, constant) -> whether the constant becomes an input of the model."""


class Lifted(dict[str, Array]):
    """The float32 constants of at least `least` bytes by name, collected when `to_onnx` calls it as its `lift`."""

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, name: str, value: Value) -> bool:
        if value.const is None or value.const.nbytes < self.least or value.dtype != np.float32:
            return False
        self[name] = value.const
        return True


@dataclass(frozen=True, slots=True)
class Public:
    """The names in a model that is written to a file.

    `outputs` are the names of its outputs, `values` the values that keep their names. Operators are named after
    the network's nodes, other values after their producer or first consumer.
    """

    outputs: Sequence[str]
    values: Collection[str]

    @staticmethod
    def of(source: Source, more: Sequence[str] = ()) -> Public:
        """Return the names of a source. `more` are the names of further outputs."""
        renamed = other_outputs(source)
        values = {name for node in source.network.nodes for name in node.outputs}
        return Public([*(renamed.get(name, name) for name in source.outputs), *more], values)


def to_onnx(
    graph: Graph,
    name: str = "anylayer",
    external: External | None = None,
    lift: Lift | None = None,
    public: Public | None = None,
) -> onnx.ModelProto:
    """Return the graph as an ONNX model (IR 9, opset 18 or the newest opset that an operator requires).

    `lift(name, value)` and `external(name, value)` are called for every constant. If `lift` returns True, the
    constant becomes an input of the model. If `external` returns a file and offset, the constant is an initializer
    there. In both cases the caller provides the data.

    With `public`, names are those of the network; see Public. A call of a body becomes a call of a model-local
    function, unless the operator is kept.
    """
    return _ModelBuilder(graph, external, lift, public).build(name)


class _NodeBuilder:
    """A converter of operators to protobuf nodes. Every value gets a unique name."""

    def __init__(self, opset: int, functions: _Functions) -> None:
        self.opset = opset
        self.functions = functions
        self.taken: set[str] = set()
        self.names: dict[Value, str] = {}
        self.nodes: list[onnx.NodeProto] = []

    def preferred_name(self, value: Value) -> str:
        """Return the name that a value gets if it is unused."""
        return value.name

    def constant(self, name: str, value: Value) -> None:
        """Store the data of a constant in the model under a name."""
        raise NotImplementedError

    def deduplicated(self, weight: Value) -> Value:
        """Return the value that stands for all constants in bodies of functions that are equal to `weight`."""
        return weight

    def named(self, value: Value) -> str:
        """Return the unique name of a value. Add the data of a constant the first time."""
        name = self.names.get(value)
        if name is None:
            name = self.names[value] = unused_name(self.preferred_name(value), self.taken)
            if value.const is not None:
                self.constant(name, value)
        return name

    def add(self, o: Op, name: str, doc: str = "") -> None:
        """Append the node of an operator, or of a call of a function, with its name and doc string."""
        op, inputs = o.op, list(o.inputs)
        if o.op == "Loop" and o.body is not None and not o.domain:
            inputs, attributes = self.loop(o, o.body)
        else:
            attributes = _attributes(o, self.opset)
        if o.body is not None and not o.kept and o.domain:
            op, weights = self.functions.of(o, o.body)
            inputs += map(self.deduplicated, weights)
            attributes = []
        node = helper.make_node(
            op,
            ["" if v is None else self.named(v) for v in inputs],
            [self.named(v) for v in o.outputs],
            name=name,
            doc_string=doc,
            domain=o.domain,
        )
        node.attribute.extend(attributes)
        self.nodes.append(node)

    def loop(self, o: Op, body: Graph) -> tuple[list[Value | None], list[onnx.AttributeProto]]:
        """Return the inputs and the attribute of a loop. Its body reads further inputs by their outer names."""
        count = 2 + o["states"]
        self.names.update(
            {v: self.named(w) for v, w in zip(body.inputs[count:], o.inputs[count:]) if w is not None}
        )
        before, self.nodes = self.nodes, []
        inputs = [_info(self.named(v), v) for v in body.inputs[:count]]
        for inner in body.ops:
            self.add(inner, "", PurePath(inner.place).name)
        outputs = []
        for value in body.outputs:
            name = unused_name(f"{value.name}_next", self.taken)
            self.alias(value, name)
            outputs.append(_info(name, value))
        graph = helper.make_graph(self.nodes, "body", inputs, outputs)
        self.nodes = before
        return o.inputs[:count], [helper.make_attribute("body", graph)]

    def alias(self, value: Value, name: str) -> None:
        """Add an Identity that gives a value another name."""
        self.nodes.append(helper.make_node("Identity", [self.named(value)], [name], name=name))


class _ModelBuilder(_NodeBuilder):
    """A builder of an ONNX model from a graph."""

    def __init__(self, graph: Graph, external: External | None, lift: Lift | None, public: Public | None) -> None:
        super().__init__(_opset(graph), _Functions(_opset(graph)))
        self.graph, self.external, self.lift, self.public = graph, external, lift, public
        self.initializers: list[TensorProto] = []
        self.lifted: list[onnx.ValueInfoProto] = []
        self.titles = titles(graph) if public is not None else []
        self.preferred = {**_constant_names(graph), **self.result_names()} if public is not None else {}

    def deduplicated(self, weight: Value) -> Value:
        return self.graph.constant(weight.const, trusted=True)

    def preferred_name(self, value: Value) -> str:
        return self.preferred.get(value, value.name)

    def constant(self, name: str, value: Value) -> None:
        if self.lift is not None and self.lift(name, value):
            self.lifted.append(_info(name, value))
        else:
            self.initializers.append(_initializer(name, value, self.external))

    def build(self, name: str) -> onnx.ModelProto:
        """Return the model. `name` is the name of its graph."""
        graph = self.graph
        self.taken.update(self.public.outputs if self.public is not None else ())
        inputs = []
        for value in graph.inputs:
            self.names[value] = value.name
            self.taken.add(value.name)
            inputs.append(_info(value.name, value))
        aliases = dict(self.outputs())
        for i, o in enumerate(graph.ops):
            if self.public is not None:
                self.add(o, self.titles[i], PurePath(o.place.rpartition(": ")[2]).name)
            else:
                self.add(o, o.outputs[0].name, o.place)
        sizes = _size_names(aliases)
        outputs = [_info(alias, value, sizes) for alias, value in aliases.items()]
        for alias, value in aliases.items():
            if self.named(value) != alias:
                self.alias(value, alias)
        calls = [_info(self.named(v), v) for o in graph.ops if o.domain for v in o.outputs]
        proto = helper.make_graph(
            self.nodes,
            name,
            [*inputs, *self.lifted],
            outputs,
            self.initializers,
            value_info=[i for i in calls if i.name not in aliases],
        )
        domains = dict.fromkeys(["", *(o.domain for o in graph.ops)])
        return helper.make_model(
            proto,
            opset_imports=[helper.make_opsetid(d, 1 if d else self.opset) for d in domains],
            ir_version=_IR_VERSION if self.opset < 21 else _IR_VERSION_OF_4_BITS,
            producer_name="anylayer",
            functions=self.functions.protos(),
        )

    def result_names(self) -> dict[Value, str]:
        """Return names for values that the network does not name, derived from their producers."""
        public_names = self.public.values if self.public is not None else ()
        pairs = [(v, title) for o, title in zip(self.graph.ops, self.titles) for v in o.outputs]
        return {v: f"{title}/out" for v, title in pairs if v.name not in public_names}

    def outputs(self) -> Iterator[tuple[str, Value]]:
        """Yield each output's name and value.

        A value that is also an input, a constant or another output keeps its own name: it needs an Identity.
        """
        seen = set(self.graph.inputs)
        for i, value in enumerate(self.graph.outputs):
            shared = value in seen or value.const is not None
            seen.add(value)
            if self.public is not None:
                name = self.public.outputs[i]
                if not shared:
                    self.names[value] = name
            else:
                name = unused_name(f"{value.name}_out_{i}", self.taken) if shared else self.named(value)
            yield name, value


# ---- functions


class _Functions:
    """The model-local functions of a model. Calls of a type with equal bodies share one function."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self._known: dict[tuple[str, str, bytes], onnx.FunctionProto] = {}
        self._taken: dict[str, set[str]] = {}

    def of(self, o: Op, body: Graph) -> tuple[str, list[Value]]:
        """Return the name of the function that a call runs, and the weights that are its further inputs."""
        builder = _FunctionBuilder(self.opset, self, body)
        proto = builder.build(o.domain)
        key = (o.domain, o.op, proto.SerializeToString(deterministic=True))
        function = self._known.get(key)
        if function is None:
            proto.name = unused_name(o.op, self._taken.setdefault(o.domain, set()))
            function = self._known[key] = proto
        return function.name, builder.weights

    def protos(self) -> list[onnx.FunctionProto]:
        """Return all functions."""
        return list(self._known.values())


_MAX_INLINE_VALUES = 16
"""The number of elements of the largest constant that a function contains. A larger constant becomes an additional
input of the function."""


class _FunctionBuilder(_NodeBuilder):
    """A builder of a function from the body of a call. Equal bodies give equal functions: names do not differ."""

    def __init__(self, opset: int, functions: _Functions, graph: Graph) -> None:
        super().__init__(opset, functions)
        self.graph = graph
        self.weights: list[Value] = []
        self.stems: dict[Value, str] = {**dict.fromkeys(graph.outputs, "y"), **dict.fromkeys(graph.inputs, "x")}

    def preferred_name(self, value: Value) -> str:
        if value.const is not None:
            return "weight" if value.const.size > _MAX_INLINE_VALUES else "constant"
        return self.stems.get(value, "v")

    def constant(self, name: str, value: Value) -> None:
        if value.const is not None and value.const.size > _MAX_INLINE_VALUES:
            self.weights.append(value)
            return
        tensor = _initializer(name, value, None)
        tensor.name = ""
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))

    def build(self, domain: str) -> onnx.FunctionProto:
        """Return the function, without a name."""
        inputs = [self.named(v) for v in self.graph.inputs]
        for o in self.graph.ops:
            self.add(o, "", PurePath(o.place).name)
        outputs: list[str] = []
        for value in self.graph.outputs:
            name = self.named(value)
            if name in outputs or name in inputs or value.const is not None:
                self.alias(value, name := unused_name("y", self.taken))
            outputs.append(name)
        weights = [self.named(v) for v in self.weights]
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_function(domain, "", [*inputs, *weights], outputs, self.nodes, opsets)


# ---- helpers


def _opset(graph: Graph) -> int:
    """Return the opset that the operators of the graph and of its calls require."""
    opsets = [_required_opset(o) for o in graph.ops if not o.domain]
    called = [_opset(o.body) for o in graph.ops if o.body is not None]
    return max([OPSET, *opsets, *called])


def _required_opset(o: Op) -> int:
    """Return the opset that introduced an operator with these attributes and input dtypes; at least OPSET."""
    dtypes = tuple(None if v is None else v.dtype for v in o.inputs)
    return least_version(o.op, OPSET, tuple(sorted(o.attrs)), dtypes) or OPSET


def _attributes(o: Op, opset: int) -> list[onnx.AttributeProto]:
    renamed = _RENAMED.get(o.op, {}) if opset >= 20 and not o.domain else {}
    attributes = []
    for key, value in o.attrs.items():
        if key == "mode" and renamed:
            value = renamed.get(value, value)
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        for number in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                text = f"{key}={number} of operator '{o.op}' needs more than the 64 bits that ONNX has"
                raise EngineError(text)
        attributes.append(helper.make_attribute(key, value))
    return attributes


def _constant_names(graph: Graph) -> dict[Value, str]:
    """Return names for constants: the scope of the first consumer and the input's name there, "conv1/W"."""
    names: dict[Value, str] = {}
    for o in graph.ops:
        schema = _input_names(o)
        for i, value in enumerate(o.inputs):
            if value is not None and value.const is not None and value not in names:
                names[value] = f"{o.scope}/{schema[min(i, len(schema) - 1)]}" if o.scope else value.name
    return names


def _input_names(o: Op) -> list[str]:
    """Return the names of an operator's inputs in ONNX's schema; ["weight"] for other operators."""
    if o.domain or not onnx.defs.has(o.op):
        return ["weight"]
    return [i.name for i in onnx.defs.get_schema(o.op).inputs] or ["constant"]


def titles(graph: Graph) -> list[str]:
    """Return unique names for operators: the node's name, and "node/operator" for its further operators."""
    used: set[str] = set()
    names = []
    for o in graph.ops:
        name = title = o.scope or o.op
        count = 1
        while title in used:
            title = f"{name}/{o.op}" if count == 1 else f"{name}/{o.op}_{count}"
            count += 1
        used.add(title)
        names.append(title)
    return names


def _initializer(name: str, value: Value, external: External | None) -> TensorProto:
    """Return a constant as a tensor, without its data where `external` stores it in a file."""
    array = np.asarray(value.const)
    location = external(name, value) if external is not None else None
    if location is None:
        return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
    tensor = TensorProto(name=name, data_type=elem_type(array.dtype), dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location[0]), ("offset", str(location[1])), ("length", str(array.nbytes))):
        tensor.external_data.add(key=key, value=text)
    return tensor


def _size_names(outputs: Mapping[str, Value]) -> dict[Dim, str]:
    """Return names for the dynamic sizes of outputs: "boxes_size2" for axis 2 of the first output that has it."""
    names: dict[Dim, str] = {}
    for output, value in outputs.items():
        for axis, size in enumerate(value.shape):
            if isinstance(size, Dim) and "/" in size.name:
                names.setdefault(size, f"{output}_size{axis}")
    return names


def _info(name: str, value: Value, sizes: Mapping[Dim, str] = MappingProxyType({})) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem_type(value.dtype), _dims(value.shape, sizes))


def _dims(shape: Sequence[int | str | Dim], sizes: Mapping[Dim, str] = MappingProxyType({})) -> list[int | str]:
    return [d if isinstance(d, str) else sizes.get(d, d.name) if isinstance(d, Dim) else int(d) for d in shape]
