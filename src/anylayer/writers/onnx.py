"""ONNX: a graph as an ONNX model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.libraries.onnx import TensorProto, helper, numpy_helper, onnx
from anylayer.tracing import OPSET, Graph, Op, Value

_IR_VERSION = 9
_NEWER = {"Gelu": 20}
_RENAMED = {"GridSample": {"bilinear": "linear", "bicubic": "cubic"}}  # from opset 20 on
External = Callable[[str, Value], "tuple[str, int] | None"]
"""(name, constant) -> the file (beside the model) and offset where its data lies, or None to hold it inside."""
Lift = Callable[[str, Value], bool]


def to_onnx(
    graph: Graph, name: str = "anylayer", external: External | None = None, lift: Lift | None = None
) -> onnx.ModelProto:
    """The graph as an ONNX model (IR 9, opset 18, or 20 where an operator came with it).

    `lift(name, value)` and `external(name, value)` are asked for every constant. Where one answers the model
    holds no data for it, and the caller has to provide it: lift makes a further graph input of that name,
    external an initializer in a file beside the model.
    """
    taken: set[str] = set()
    names: dict[int, str] = {}
    initializers: list[TensorProto] = []
    lifted: list[onnx.ValueInfoProto] = []

    def named(value: Value) -> str:
        known = names.get(id(value))
        if known is None:
            known = names[id(value)] = value.name if value.name not in taken else f"{value.name}_{len(taken)}"
            taken.add(known)
            if value.const is not None and lift is not None and lift(known, value):
                lifted.append(helper.make_tensor_value_info(known, _elem(value.dtype), _dims(value.shape)))
            elif value.const is not None:
                initializers.append(_initializer(known, value, external))
        return known

    inputs = [helper.make_tensor_value_info(named(v), _elem(v.dtype), _dims(v.shape)) for v in graph.inputs]
    opset = max([OPSET, *(_NEWER.get(o.op, 0) for o in graph.ops)])
    nodes = [
        helper.make_node(
            o.op,
            ["" if v is None else named(v) for v in o.inputs],
            [named(v) for v in o.outputs],
            name=o.outputs[0].name,
            doc_string=o.place,
            **_attributes(o, opset),
        )
        for o in graph.ops
    ]
    outputs: list[onnx.ValueInfoProto] = []
    seen = {id(v) for v in graph.inputs}
    for value in graph.outputs:
        out = named(value)
        if id(value) in seen or value.const is not None:  # an input, a constant, or the same value once more
            alias = f"{out}_out_{len(outputs)}"
            nodes.append(helper.make_node("Identity", [out], [alias]))
            out = alias
        seen.add(id(value))
        outputs.append(helper.make_tensor_value_info(out, _elem(value.dtype), _dims(value.shape)))
    proto = helper.make_graph(nodes, name, [*inputs, *lifted], outputs, initializers)
    return helper.make_model(
        proto,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=_IR_VERSION,
        producer_name="anylayer",
    )


def _attributes(o: Op, opset: int) -> dict[str, Any]:
    renamed = _RENAMED.get(o.op, {}) if opset >= 20 else {}
    return {key: renamed.get(value, value) if key == "mode" else value for key, value in o.attrs.items()}


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


def _elem(dtype: np.dtype[Any]) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _dims(shape: tuple[Any, ...]) -> list[Any]:
    return [d if isinstance(d, int) else str(d) for d in shape]
