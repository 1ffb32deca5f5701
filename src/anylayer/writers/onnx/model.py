"""A graph as an ONNX model: this folder is the only place that makes protobuf of graphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from anylayer.graph import OPSET, Dim, Graph, Op, Value
from anylayer.libraries.onnx import TensorProto, helper, least_version, numpy_helper, onnx

_IR_VERSION = 9
_RENAMED = {"GridSample": {"bilinear": "linear", "bicubic": "cubic"}}  # from opset 20 on
External = Callable[[str, Value], "tuple[str, int] | None"]
"""(name, constant) -> the file (beside the model) and offset where its data lies, or None to hold it inside."""
Lift = Callable[[str, Value], bool]


@dataclass(frozen=True, slots=True)
class Public:
    """The names that a model for people has: those of its `outputs`, and the `values` that keep their own.
    Operators are named after the network's nodes, other values after operators that make or first read them."""

    outputs: Sequence[str]
    values: Collection[str]


def to_onnx(
    graph: Graph,
    name: str = "anylayer",
    external: External | None = None,
    lift: Lift | None = None,
    public: Public | None = None,
) -> onnx.ModelProto:
    """The graph as an ONNX model (IR 9, opset 18, or the one that an operator came with where that is newer).

    `lift(name, value)` and `external(name, value)` are asked for every constant. Where one answers the model
    holds no data for it, and the caller has to provide it: lift makes a further graph input of that name,
    external an initializer in a file beside the model.

    With `public` the model is one for people, its names those of the network: see Public. A call is one of a
    model-local function, unless it is kept.
    """
    return _Model(graph, external, lift, public).made(name)


class _Nodes:
    """Operators as protobuf, every value with a name of its own."""

    def __init__(self, opset: int, functions: _Functions) -> None:
        self.opset = opset
        self.functions = functions
        self.taken: set[str] = set()
        self.names: dict[Value, str] = {}
        self.nodes: list[onnx.NodeProto] = []

    def free(self, name: str) -> str:
        """The name, or the first of name_2, name_3, ... that is free; it is taken then."""
        found, count = name, 1
        while found in self.taken:
            count += 1
            found = f"{name}_{count}"
        self.taken.add(found)
        return found

    def wish(self, value: Value) -> str:
        """What a value is to be called."""
        return value.name

    def constant(self, name: str, value: Value) -> None:
        """Enter the data of a constant."""
        raise NotImplementedError

    def shared(self, weight: Value) -> Value:
        """A constant of a function's body, one for all equal ones."""
        return weight

    def named(self, value: Value) -> str:
        """The value's name; a constant is entered."""
        known = self.names.get(value)
        if known is None:
            known = self.names[value] = self.free(self.wish(value))
            if value.const is not None:
                self.constant(known, value)
        return known

    def add(self, o: Op, name: str, doc: str = "") -> None:
        """An operator, or a call."""
        op, inputs = o.op, list(o.inputs)
        attributes = _attributes(o, self.opset)
        if o.body is not None and not o.kept:
            op, weights = self.functions.of(o, o.body)
            inputs += map(self.shared, weights)
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

    def alias(self, value: Value, name: str) -> None:
        """A further name of a value."""
        self.nodes.append(helper.make_node("Identity", [self.named(value)], [name], name=name))


class _Model(_Nodes):
    """A model that is being made."""

    def __init__(self, graph: Graph, external: External | None, lift: Lift | None, public: Public | None) -> None:
        super().__init__(_opset(graph), _Functions(_opset(graph)))
        self.graph, self.external, self.lift, self.public = graph, external, lift, public
        self.initializers: list[TensorProto] = []
        self.lifted: list[onnx.ValueInfoProto] = []
        self.titles = _titles(graph) if public is not None else []
        self.roles = {**_roles(graph), **self.made_by()} if public is not None else {}

    def shared(self, weight: Value) -> Value:
        return self.graph.constant(weight.const, trusted=True)

    def wish(self, value: Value) -> str:
        return self.roles.get(value, value.name)

    def constant(self, name: str, value: Value) -> None:
        if self.lift is not None and self.lift(name, value):
            self.lifted.append(_info(name, value))
        else:
            self.initializers.append(_initializer(name, value, self.external))

    def made(self, name: str) -> onnx.ModelProto:
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
        outputs = [_info(alias, value) for alias, value in aliases.items()]
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
            ir_version=_IR_VERSION,
            producer_name="anylayer",
            functions=self.functions.protos(),
        )

    def made_by(self) -> dict[Value, str]:
        """What values without a name of their own are called: after the operators that make them."""
        own = self.public.values if self.public is not None else ()
        pairs = [(v, title) for o, title in zip(self.graph.ops, self.titles) for v in o.outputs]
        return {v: f"{title}/out" for v, title in pairs if v.name not in own}

    def outputs(self) -> Iterator[tuple[str, Value]]:
        """Each output's name and value. Where the value is an input, a constant or another output, too, it gets
        that name by an Identity."""
        seen = set(self.graph.inputs)
        for i, value in enumerate(self.graph.outputs):
            shared = value in seen or value.const is not None
            seen.add(value)
            if self.public is not None:
                name = self.public.outputs[i]
                if not shared:
                    self.names[value] = name
            else:
                name = self.free(f"{value.name}_out_{i}") if shared else self.named(value)
            yield name, value


# ------------------------------------------------------------------- functions


class _Functions:
    """The model-local functions that calls need: one for all calls of a type with equal bodies."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self._known: dict[tuple[str, str, bytes], onnx.FunctionProto] = {}
        self._taken: set[tuple[str, str]] = set()

    def of(self, o: Op, body: Graph) -> tuple[str, list[Value]]:
        """The name of the function that a call means, and the weights it takes behind the call's inputs."""
        made = _Body(self.opset, self, body)
        proto = made.function(o.domain)
        key = (o.domain, o.op, proto.SerializeToString(deterministic=True))
        found = self._known.get(key)
        if found is None:
            proto.name, count = o.op, 1
            while (o.domain, proto.name) in self._taken:
                count += 1
                proto.name = f"{o.op}_{count}"
            self._taken.add((o.domain, proto.name))
            found = self._known[key] = proto
        return found.name, made.weights

    def protos(self) -> list[onnx.FunctionProto]:
        return list(self._known.values())


_INSIDE = 16
"""Values of a constant up to which a function holds it itself; a larger one is a further input of it."""


class _Body(_Nodes):
    """A function that is being made of a call's body, with names that tell nothing of the call."""

    def __init__(self, opset: int, functions: _Functions, graph: Graph) -> None:
        super().__init__(opset, functions)
        self.graph = graph
        self.weights: list[Value] = []
        self.kinds: dict[Value, str] = dict.fromkeys(graph.outputs, "y")
        self.kinds.update(dict.fromkeys(graph.inputs, "x"))

    def wish(self, value: Value) -> str:
        found = self.kinds.get(value)
        if value.const is not None:
            return "weight" if value.const.size > _INSIDE else "constant"
        return found or "v"

    def constant(self, name: str, value: Value) -> None:
        if value.const is not None and value.const.size > _INSIDE:
            self.weights.append(value)
            return
        tensor = _initializer(name, value, None)
        tensor.name = ""
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))

    def function(self, domain: str) -> onnx.FunctionProto:
        """The function, without a name."""
        inputs = [self.named(v) for v in self.graph.inputs]
        for o in self.graph.ops:
            self.add(o, "", PurePath(o.place).name)
        outputs: list[str] = []
        for value in self.graph.outputs:
            name = self.named(value)
            if name in outputs or name in inputs or value.const is not None:
                self.alias(value, name := self.free("y"))
            outputs.append(name)
        weights = [self.named(v) for v in self.weights]
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_function(domain, "", [*inputs, *weights], outputs, self.nodes, opsets)


# ----------------------------------------------------------------------- parts


def _opset(graph: Graph) -> int:
    """The newest opset that an operator of the graph, or of what it calls, came with."""
    own = [_came_with(o) for o in graph.ops if not o.domain]
    called = [_opset(o.body) for o in graph.ops if o.body is not None]
    return max([OPSET, *own, *called])


def _came_with(o: Op) -> int:
    """The opset that an operator came with, in the form it has: its attributes, its inputs' dtypes."""
    dtypes = tuple(None if v is None else v.dtype for v in o.inputs)
    return least_version(o.op, OPSET, tuple(sorted(o.attrs)), dtypes) or OPSET


def _attributes(o: Op, opset: int) -> list[onnx.AttributeProto]:
    renamed = _RENAMED.get(o.op, {}) if opset >= 20 and not o.domain else {}
    made = []
    for key, value in o.attrs.items():
        if key == "mode" and renamed:
            value = renamed.get(value, value)
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        made.append(helper.make_attribute(key, value))
    return made


def _roles(graph: Graph) -> dict[Value, str]:
    """What constants are called: after the first operator that reads them, and what they are to it."""
    roles: dict[Value, str] = {}
    for o in graph.ops:
        schema = _inputs_of(o)
        for i, value in enumerate(o.inputs):
            if value is not None and value.const is not None and value not in roles:
                roles[value] = f"{o.scope}/{schema[min(i, len(schema) - 1)]}" if o.scope else value.name
    return roles


def _inputs_of(o: Op) -> list[str]:
    """The names of an operator's inputs in ONNX."""
    if o.domain or not onnx.defs.has(o.op):
        return ["weight"]
    return [i.name for i in onnx.defs.get_schema(o.op).inputs] or ["constant"]


def _titles(graph: Graph) -> list[str]:
    """The operators' names: those of the network's nodes they are of; the second and later of one node are told by
    operator."""
    used: set[str] = set()
    titles = []
    for o in graph.ops:
        name = found = o.scope or o.op
        count = 1
        while found in used:
            found = f"{name}/{o.op}" if count == 1 else f"{name}/{o.op}_{count}"
            count += 1
        used.add(found)
        titles.append(found)
    return titles


def _initializer(name: str, value: Value, external: External | None) -> TensorProto:
    array = np.asarray(value.const)
    found = external(name, value) if external is not None else None
    if found is None:
        return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
    tensor = TensorProto(name=name, data_type=_elem(array.dtype), dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", found[0]), ("offset", str(found[1])), ("length", str(array.nbytes))):
        tensor.external_data.add(key=key, value=text)
    return tensor


def _info(name: str, value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _elem(value.dtype), _dims(value.shape))


def _elem(dtype: np.dtype[Any]) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _dims(shape: tuple[Any, ...]) -> list[Any]:
    return [d if isinstance(d, str) else d.name if isinstance(d, Dim) else int(d) for d in shape]
