"""Put the operators of a network into a function, a branch or a loop of it, which keeps its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import onnx
from onnx import helper

from tests.readers.tensorflow import files

from .mutations import fields

_NAME = "nested"


def nested(name: str, source: bytes, random: Random) -> bytes:
    """Return the file of a network whose operators are one to three levels deeper, or the file as it is where that
    is not possible.
    """
    wrap = {"m.onnx": _onnx, "m.pb": _tensorflow}.get(name)
    for level in range(random.choice((1, 1, 2, 3)) if wrap else 0):
        source = wrap(source, f"{_NAME}{level}", random)
    return source


# ------------------------------------------------------------------------ ONNX


def _onnx(source: bytes, name: str, random: Random) -> bytes:
    model = onnx.ModelProto.FromString(source)
    graph = model.graph
    produced = {output for one in graph.node for output in one.output if output}
    tensors = all(v.type.WhichOneof("value") == "tensor_type" for v in graph.output)
    newest = next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 0)
    if not (tensors and {v.name for v in graph.output} <= produced and newest >= 13) or graph.sparse_initializer:
        return source
    random.choice((_as_function, _as_if, _as_loop))(model, name, random)
    model.ir_version = max(model.ir_version, 8)
    return model.SerializeToString()


def _as_function(model: onnx.ModelProto, name: str, random: Random) -> None:
    graph = model.graph
    given = dict.fromkeys([v.name for v in graph.input] + [v.name for v in graph.initializer])
    returned = [v.name for v in graph.output]
    imported = list(model.opset_import)
    model.functions.append(helper.make_function(name, name, list(given), returned, list(graph.node), imported))
    model.opset_import.append(helper.make_opsetid(name, 1))
    del graph.node[:], graph.value_info[:]
    graph.node.append(helper.make_node(name, list(given), returned, domain=name))


def _as_if(model: onnx.ModelProto, name: str, random: Random) -> None:
    graph = model.graph
    body = _body(graph, name)
    taken = random.random() < 0.5
    condition = helper.make_tensor(f"{name}/condition", onnx.TensorProto.BOOL, [], [taken])
    outputs = [v.name for v in graph.output]
    one = helper.make_node("If", [condition.name], outputs, name, then_branch=body, else_branch=body)
    _replace(graph, [one], condition)


def _as_loop(model: onnx.ModelProto, name: str, random: Random) -> None:
    """Put the operators into a loop of one step, whose outputs have an axis for the steps."""
    graph = model.graph
    body = _body(graph, name)
    count = helper.make_tensor(f"{name}/count", onnx.TensorProto.INT64, [], [1])
    axes = helper.make_tensor(f"{name}/axes", onnx.TensorProto.INT64, [1], [0])
    step = helper.make_tensor_value_info(f"{name}/step", onnx.TensorProto.INT64, [])
    goes_on = helper.make_tensor_value_info(f"{name}/on", onnx.TensorProto.BOOL, [])
    still = helper.make_tensor_value_info(f"{name}/still", onnx.TensorProto.BOOL, [])
    body.input.extend([step, goes_on])
    body.node.append(helper.make_node("Identity", [goes_on.name], [still.name]))
    body.output.insert(0, still)
    stacked = {v.name: f"{v.name}/{name}/steps" for v in graph.output}
    loop = helper.make_node("Loop", [count.name, ""], list(stacked.values()), name, body=body)
    one_step = [
        helper.make_node("Squeeze", [held, axes.name], [output], f"{name}/{output}")
        for output, held in stacked.items()
    ]
    _replace(graph, [loop, *one_step], count, axes)


def _body(graph: onnx.GraphProto, name: str) -> onnx.GraphProto:
    """Return the operators as the graph of an attribute. Its names are others than those outside of it."""
    produced = {output: f"{name}/{output}" for one in graph.node for output in one.output if output}
    body = onnx.GraphProto(name=name)
    for one in graph.node:
        body.node.append(one)
        _rename(body.node[-1], produced)
    for value in graph.output:
        body.output.append(value)
        body.output[-1].name = produced[value.name]
    return body


def _rename(one: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Give values other names in an operator and in the graphs of its attributes."""
    one.input[:] = [names.get(value, value) for value in one.input]
    one.output[:] = [names.get(value, value) for value in one.output]
    for attribute in one.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for inner in graph.node:
                _rename(inner, names)
            for value in graph.output:
                value.name = names.get(value.name, value.name)


def _replace(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto], *constants: onnx.TensorProto) -> None:
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)


# ------------------------------------------------------------------ TensorFlow

_OUTSIDE = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg")


def _tensorflow(source: bytes, name: str, random: Random) -> bytes:
    graph = list(fields(source))
    nodes = [_Node(one.held) for one in graph if one.number == 1]
    functions = [f.whole for one in graph if one.number == 2 for f in fields(one.held) if f.number == 1]
    outside = [one for one in nodes if one.op in _OUTSIDE]
    inside = {one.name: one for one in nodes if one.op not in _OUTSIDE}
    read = {_producer(i)[0] for one in nodes for i in one.inputs}
    outputs = [one for one in inside if one not in read]
    arguments = {i: f"argument{k}" for k, i in enumerate(sorted(_free(inside)))}
    if not outputs or any(one.has_order for one in nodes):
        return source
    body = [one.with_inputs([_inside(i, arguments) for i in one.inputs]) for one in inside.values()]
    results = {f"result{k}": f"{one}:0" for k, one in enumerate(outputs)}
    functions.append(files.field(1, files.function(name, list(arguments.values()), results, *body)))
    if random.random() < 0.5:
        call = files.node(f"{name}/call", "PartitionedCall", *arguments, f=files.calls(name))
    else:
        call = files.node(f"{name}/call", name, *arguments)
    kept = [files.node(one, "Identity", f"{name}/call:{k}") for k, one in enumerate(outputs)]
    return files.graph(*(one.held for one in outside), call, *kept, library=b"".join(functions))


class _Node:
    """An operation of a graph. `has_order`: it must run before or after another one."""

    def __init__(self, held: bytes) -> None:
        self.held = held
        texts = [(one.number, one.held.decode()) for one in fields(held) if one.number in (1, 2, 3)]
        self.name, self.op = (next(text for number, text in texts if number == which) for which in (1, 2))
        self.inputs = [text for number, text in texts if number == 3]
        self.has_order = any(text.startswith("^") for text in self.inputs)

    def with_inputs(self, inputs: Sequence[str]) -> bytes:
        """Return the operation with other inputs."""
        parts = [one.whole for one in fields(self.held) if one.number != 3]
        return b"".join([*parts, *(files.field(3, text) for text in inputs)])


def _producer(text: str) -> tuple[str, str]:
    name, _, index = text.partition(":")
    return name, index or "0"


def _free(inside: Mapping[str, _Node]) -> set[str]:
    """Return the values that the operations read and do not compute."""
    return {i for one in inside.values() for i in one.inputs if _producer(i)[0] not in inside}


def _inside(text: str, arguments: Mapping[str, str]) -> str:
    return arguments.get(text) or ":".join(_producer(text))
