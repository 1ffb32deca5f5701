"""Compute an operator for arrays, or record it: as the operators of its NumPy meaning, as itself with the shapes
of ONNX's own inference, or as the older operators that define it.

Of the files of this folder, only this one knows whether arrays are traced.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.errors import LayerError, ShapeError, TraceError, need
from anylayer.graph import OPSET, Dim
from anylayer.graph.operators import RANDOM, RANK_KEEPING, REDUCTIONS, SHORTENS, SIZED_BY_DATA
from anylayer.graph.place import refusal
from anylayer.graph.sized import elements_of
from anylayer.graph.symbolic import is_symbolic, symbolic_shape
from anylayer.layer import Registry
from anylayer.layers.onnx._call import (
    ANY_SIZE,
    ARRAYS_ONLY,
    MEANINGS,
    RECORDED,
    REPLACED,
    SHAPES,
    SPELLED_OUT,
    NoMeaning,
    OpCall,
    is_plain,
)
from anylayer.libraries.onnx import (
    elem_type,
    function,
    helper,
    histories,
    inferred,
    least_version,
    numpy_helper,
    onnx,
    schema,
)
from anylayer.network import MAX_VALUES, Array, DType, Node, as_written
from anylayer.tracing import constant_of, is_traced, record_many, size_list, substituted
from anylayer.tracing.dispatch import resolved

_MAX_CONSTANT_SIZE = 4096  # elements
_NEWEST = 21
"""The newest operator set that engines support."""
_fresh = itertools.count()


def spell_out(call: OpCall) -> None:
    """Make the attributes of a call explicit, in place."""
    function = SPELLED_OUT.get(call.op)
    if function is not None and (call.op in ANY_SIZE or all(map(is_static, call.inputs))):
        substituted(function)(call)


def results(call: OpCall, compute: Callable[[OpCall], Any]) -> Any:
    """Return the outputs of an operator.

    compute: the function that returns them for arrays.
    """
    if not any(map(is_traced, call.inputs)):
        return compute(call)
    need(call.op not in RANDOM.names, f"{call.op} draws random numbers, which cannot be recorded", TraceError)
    if call.op in MEANINGS and call.op not in ARRAYS_ONLY and _records_meaning(call):
        try:
            return substituted(MEANINGS[call.op])(call, *call.inputs)
        except NoMeaning:
            return recorded(call)
    return expand(call) if call.op in EXPANDED else recorded(call)


def _records_meaning(call: OpCall) -> bool:
    """Return whether the NumPy meaning is recorded in place of the operator: symbolic sizes need it, too."""
    if call.op in RECORDED or has_symbolic_size(call.inputs) or _takes_sizes(call):
        return True
    replaces = REPLACED.get(call.op)
    return replaces is not None and all(map(is_static, call.inputs)) and replaces(call)


def _takes_sizes(call: OpCall) -> bool:
    """Return whether symbolic sizes determine the shape of the output."""
    first = 0 if call.op in ("ConstantOfShape", "Range") else 1
    return any(size_list(x) is not None for x in call.inputs[first:])


def recorded(call: OpCall) -> list[Array]:
    """Return the outputs of an operator, traced.

    A size that its inference does not determine becomes a Dim. Raise TraceError when even the rank of an output is
    unknown, or a size that depends on symbolic ones, and LayerError when the inference refuses the inputs:
    ShapeError for their shapes.
    """
    inputs = call.inputs
    dims: dict[str, Any] = {}
    written = attributes(call)
    need_known(call, written)
    _need_axes(call)
    try:
        types = inferred(
            call.op,
            call.version,
            [None if x is None else (x.dtype, _sizes(x.shape, dims)) for x in inputs],
            {
                i: array
                for i, x in enumerate(inputs)
                if x is not None
                and (array := constant_of(x)) is not None
                and array.size <= _MAX_CONSTANT_SIZE
                and elements_of(array) is None
            },
            written,
            call.outputs,
        )
    except ValueError as error:
        shapes = ", ".join("none" if x is None else str(tuple(x.shape)) for x in inputs)
        kind = ShapeError if "[ShapeInferenceError]" in str(error.__cause__) else LayerError
        raise kind(f"does not take inputs of shape {shapes}: {error}") from error
    types_of_outputs: list[tuple[Any, Any]] = []
    for i, inferred_type in enumerate(types):
        inferred_type = inferred_type or _type_by_rank(call)
        if inferred_type is None:
            raise TraceError(f"the number of axes of output {i} of {call.op} is known only when the network runs")
        dtype, sizes = inferred_type
        if not is_plain(dtype):
            raise TraceError(f"{call.op} returns {dtype.name}, which no engine supports")
        is_negative = any(isinstance(d, int) and d < 0 for d in sizes)
        rule = f"output {i} would have shape {list(sizes)}: a window must fit the padded input"
        need(not is_negative, rule, ShapeError)
        unknown = any(d is None or (isinstance(d, str) and d not in dims) for d in sizes)
        if unknown and call.op in SHAPES and has_symbolic_size(inputs):
            types_of_outputs.append((substituted(SHAPES[call.op])(call), dtype))
            continue
        if unknown and has_symbolic_size(inputs) and call.op not in SIZED_BY_DATA.names:
            raise refusal(
                f"{call.op} does not take open sizes with these attributes: ONNX's shape inference does not tell "
                "the shape of its output"
            )
        maximum_size = _maximum_size(inputs) if call.op in SHORTENS.names else MAX_VALUES
        types_of_outputs.append(([_size(d, dims, call.op, maximum_size) for d in sizes], dtype))
    return list(record_many(call.op, inputs, types_of_outputs, **written))


def _need_axes(call: OpCall) -> None:
    """Refuse an axis that the first input does not have. ONNX's own inference may crash for it."""
    if call.op in ("QuantizeLinear", "DequantizeLinear") or not call.inputs or call.inputs[0] is None:
        return  # numbers for the whole array ignore the axis
    rank = len(call.inputs[0].shape) + (call.op == "OneHot")
    high = rank if call.op == "Flatten" else rank - 1
    axes = [call["axis"], *(call["axes"] or ())] if "axis" in call.attrs else call["axes"] or ()
    for axis in axes:
        rule = f"axis must lie in {-rank}..{high}, got {axis}"
        need(axis is None or -rank <= axis <= high, rule, ShapeError)


_SMALL = frozenset(("bool", "int8", "uint8"))
"""The dtypes of maxima and minima that engines compute as int32."""


def reduce_over_unknown_axes(call: OpCall) -> Array:
    """Record a reduction over axes that are known only when the network runs."""
    x, axes = call.inputs
    if x.dtype.name not in _SMALL:
        return recorded(call)[0]
    (wide,) = recorded(OpCall(call.op, call.version, [x.astype(np.int32), axes], call.attrs))
    low, high = (0, 1) if x.dtype.kind == "b" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    return np.clip(wide, low, high).astype(x.dtype)  # the extremum of no elements is that of int32


def need_known(call: OpCall, written: Mapping[str, Any]) -> None:
    """Raise TraceError for an operator that engines do not support."""
    dtypes = tuple(None if x is None else x.dtype for x in call.inputs)
    least = least_version(call.op, OPSET, tuple(sorted(written)), dtypes)
    cubes = call.op == "GridSample" and len(call.inputs[0].shape) != 4
    holds_any = call.op == "DequantizeLinear"  # as constants; engines take no such inputs
    plain = all(x is None or is_plain(x.dtype) or (holds_any and constant_of(x) is not None) for x in call.inputs)
    if least is None or least > _NEWEST or cubes or not plain:
        kinds = ", ".join("none" if d is None else d.name for d in dtypes)
        raise TraceError(
            f"{call.op} of {kinds} (operator set {least or call.version}) is not supported by engines"
        )


def _type_by_rank(call: OpCall) -> tuple[DType, list[int | str | None]] | None:
    """Return the dtype and the unknown sizes of an output whose rank follows from the inputs."""
    x = call.inputs[0]
    dtype, rank, count = x.dtype, len(x.shape), _count(call)
    if call.op in RANK_KEEPING.names or (call.op in REDUCTIONS.names and call["keepdims"]):
        output_rank: int | None = rank
    elif call.op.endswith("Window"):
        output_rank, dtype = 1, np.dtype(helper.tensor_dtype_to_np_dtype(call["output_datatype"]))
    elif call.op == "ConstantOfShape":
        value = call["value"]
        output_rank, dtype = count, np.dtype("f4") if value is None else value.dtype
    elif count is None:
        return None
    elif call.op in ("Reshape", "MaxUnpool"):
        output_rank = count
    elif call.op == "Expand":
        output_rank = max(count, rank)
    elif call.op == "Unsqueeze":
        output_rank = rank + count
    elif call.op == "Squeeze" or call.op.startswith("Reduce"):
        output_rank = rank - count if count else 0
    else:
        output_rank = None
    return None if output_rank is None else (dtype, [None] * output_rank)


def _count(call: OpCall) -> int | None:
    """Return the length of the last input, which states sizes or axes, or None when it is unknown."""
    size = call.inputs[-1].shape[0] if call.inputs[-1].shape else None
    return size if isinstance(size, int) else None


def attributes(call: OpCall) -> dict[str, Any]:
    """Return the attributes to write.

    Numbers that the graph's operator set has are always written, other attributes where they differ from their
    default.
    """
    found, older = schema(call.op, call.version), schema(call.op, OPSET)
    written = {}
    for name, value in call.attrs.items():
        declared = found.attributes[name].default_value
        if value is None or (isinstance(value, (list, tuple)) and not value):
            continue
        plain = not isinstance(value, (np.ndarray, str)) and call.op != "Resize"
        stays = plain and older is not None and name in older.attributes
        if not stays and declared.type and not isinstance(value, np.ndarray) and value == default_value(declared):
            continue
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        written[name] = list(value) if isinstance(value, tuple) else value
    return written


def default_value(proto: Any) -> Any:
    """Return the default of a schema as a plain value, or None when it has none."""
    if not proto.type:
        return None
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return as_written(value)
    return [v.decode() if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value


def _sizes(shape: Sequence[Any], dims: dict[str, Any]) -> list[Any]:
    """Return a shape for the inference, in which a name stands for each size that is not a plain number."""
    sizes: list[Any] = []
    for d in shape:
        if isinstance(d, Dim) or is_symbolic(d):
            name = f"d{id(d)}" if isinstance(d, Dim) else str(d.expression)
            dims[name] = d
            sizes.append(name)
        else:
            sizes.append(int(d))
    return sizes


def _size(size: Any, dims: dict[str, Any], op: str, maximum_size: int) -> Any:
    if isinstance(size, int):
        return size
    if size in dims:
        return dims[size]
    return Dim(f"{op.lower()}{next(_fresh)}", maximum_size)


def _maximum_size(inputs: Sequence[Any]) -> int:
    sizes = [math.prod(d.maximum if isinstance(d, Dim) else d for d in x.shape) for x in inputs if x is not None]
    return min(MAX_VALUES, max(sizes, default=1))


def at_least(version: int) -> int:
    """Return the version in which an operator is recorded: that of the graph, or its own newer one."""
    return max(OPSET, version)


def has_symbolic_size(inputs: Sequence[Any]) -> bool:
    """Return whether a size of one of the arrays is symbolic."""
    return any(x is not None and symbolic_shape(x.shape) for x in inputs)


def is_static(x: Array | None) -> bool:
    """Return whether every size of `x` is static."""
    return x is None or not any(isinstance(d, Dim) for d in x.shape)


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
    types = [_type_of(x) for x in call.inputs]
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


def _type_of(x: Array | None) -> Any:
    if x is None:
        return onnx.TypeProto()
    shape = [d if isinstance(d, int) and not is_symbolic(d) else None for d in x.shape]
    return helper.make_tensor_type_proto(elem_type(x.dtype), shape)


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
    return run(proto.op_type, version, [values[n] for n in proto.input], attrs, len(proto.output))


def run(op: str, version: int, inputs: Sequence[Any], attrs: dict[str, Any], outputs: int = 1) -> list[Array]:
    """Return the outputs of an operator, which its layer computes or records."""
    cls: Any = Registry.of("onnx").find(op)[0].cls
    layer = cls.__new__(cls)
    node = Node(op, op, ["" if x is None else f"i{i}" for i, x in enumerate(inputs)], ["o"] * outputs)
    node.params, node.version = {"attribute": attrs}, version
    layer.prepare(node, None)
    result = layer.forward(*inputs)
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
