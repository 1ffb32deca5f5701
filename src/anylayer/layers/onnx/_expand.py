"""Operators that are newer than the graph's operator set and defined as functions of older ones.

Traced, they are recorded as those older operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import TraceError
from anylayer.graph import OPSET
from anylayer.layer import Registry
from anylayer.layers.onnx._call import OpCall
from anylayer.layers.onnx._record import attributes
from anylayer.libraries.onnx import elem_type, function, helper, histories, numpy_helper, onnx, schema
from anylayer.network import Array, Node
from anylayer.tracing.dispatch import resolved

_RECORDED = ("Gelu",)
"""Newer operators that engines support, and compute faster than their definition."""


def _newer() -> frozenset[str]:
    names = {"GroupNormalization"}  # its meaning changed in operator set 21
    for name, versions in histories().items():
        last = versions[-1]
        has = last.has_function or last.has_context_dependent_function
        if versions[0].since_version > OPSET and has and name not in _RECORDED:
            names.add(name)
    return frozenset(names)


EXPANDED = _newer()


def expand(call: OpCall) -> list[Array]:
    """Return the outputs of a call, recorded as the operators that define it."""
    written = attributes(call)
    for name, declared in schema(call.op, call.version).attributes.items():
        if name not in written and declared.default_value.type:
            written[name] = helper.get_attribute_value(declared.default_value)
    names = ["" if x is None else f"i{i}" for i, x in enumerate(call.inputs)]
    node = helper.make_node(call.op, names, [f"o{i}" for i in range(call.outputs)], **written)
    types = [
        onnx.TypeProto() if x is None else helper.make_tensor_type_proto(elem_type(x.dtype), _sizes(x.shape))
        for x in call.inputs
    ]
    body = function(call.op, call.version, node, types)
    if body is None:
        raise TraceError(f"{call.op} is not supported by engines, and no other operators define it")
    values: dict[str, Any] = {"": None, **dict.fromkeys(body.input), **dict(zip(body.input, call.inputs))}
    stated = {a.name: a for a in node.attribute}
    versions = {o.domain: int(o.version) for o in body.opset_import}
    for inner in body.node:
        results = _run(inner, stated, values, versions.get("", call.version))
        values.update(zip(inner.output, resolved(results)))  # sizes stay numbers
    return [values[name] for name in body.output[: call.outputs]]


def _sizes(shape: Any) -> list[Any]:
    return [d if isinstance(d, int) else None for d in shape]


def _run(proto: Any, attributes: dict[str, Any], values: dict[str, Any], version: int) -> list[Array]:
    """Return the outputs of one node of a function."""
    attrs: dict[str, Any] = {}
    for one in proto.attribute:
        if one.ref_attr_name and one.ref_attr_name not in attributes:
            continue
        source = attributes[one.ref_attr_name] if one.ref_attr_name else one
        attrs[one.name] = _value(source)
    if proto.op_type == "Constant":
        ((name, value),) = attrs.items()
        kind = np.float32 if "float" in name else np.int64
        return [value if isinstance(value, np.ndarray) else np.array(value, kind)]
    cls: Any = Registry.of("onnx").find(proto.op_type)[0].cls
    layer = cls.__new__(cls)
    node = Node(proto.name or proto.op_type, proto.op_type, list(proto.input), list(proto.output))
    node.params, node.version = {"attribute": attrs}, version
    layer.prepare(node, None)
    result = layer.forward(*(values[n] for n in proto.input))
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _value(proto: Any) -> Any:
    value = helper.get_attribute_value(proto)
    if isinstance(value, onnx.GraphProto):
        raise TraceError("it is defined by a graph inside a node, which is not supported")
    if isinstance(value, onnx.TensorProto):
        return np.asarray(numpy_helper.to_array(value))
    if isinstance(value, bytes):
        return value.decode()
    return [v.decode() if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value
