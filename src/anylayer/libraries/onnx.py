"""The onnx package: protobuf classes, schemas of operators, shape inference and reference implementation.

This is the only file that imports onnx.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, checker, defs, helper, numpy_helper, shape_inference

from anylayer.libraries.protobuf import DecodeError
from anylayer.network import Array, DType

__all__ = [
    "DecodeError", "TensorProto", "checker", "defs", "elem_type", "function", "helper", "histories",
    "inferred", "latest", "least_version", "numpy_helper", "onnx", "reference", "schema",
]  # fmt: skip

_WORDS = {"float32": "float", "float64": "double"}
Dims = Sequence["int | str | None"]
"""A shape: each size is a number, the name of an unknown size, or None."""


def latest() -> int:
    """Return the newest version of the standard operator set that the installed package has."""
    return int(defs.onnx_opset_version())


@lru_cache(None)
def schema(op: str, version: int, domain: str = "") -> Any:
    """Return an operator's schema in a version of its operator set, or None where there is no such operator."""
    try:
        return defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None


@lru_cache(None)
def least_version(op: str, least: int, attrs: tuple[str, ...], dtypes: tuple[DType | None, ...]) -> int | None:
    """Return the oldest version of the operator set, not older than `least`, whose operator has these attributes
    and takes inputs of these dtypes (None: absent). None where there is none."""
    for version in range(least, latest() + 1):
        declared = schema(op, version)
        if declared is None or declared.deprecated or len(dtypes) > declared.max_input:
            continue
        formals = list(declared.inputs)
        kinds = [formals[min(i, len(formals) - 1)].types for i in range(len(dtypes))]
        fits = (dtype is None or f"tensor({_word(dtype)})" in k for dtype, k in zip(dtypes, kinds))
        if set(attrs) <= set(declared.attributes) and all(fits):
            return version
    return None


def _word(dtype: DType) -> str:
    """Return the name of a dtype in the types of schemas."""
    return _WORDS.get(dtype.name, dtype.name.replace("float8_", "float8"))


@lru_cache(None)
def histories(domain: str = "") -> dict[str, list[Any]]:
    """Return the schemas of each operator of a domain, the oldest first."""
    by_name: dict[str, list[Any]] = {}
    for one in defs.get_all_schemas_with_history():
        if one.domain == domain:
            by_name.setdefault(one.name, []).append(one)
    return {name: sorted(all_, key=lambda s: int(s.since_version)) for name, all_ in sorted(by_name.items())}


def elem_type(dtype: DType) -> int:
    """Return ONNX's number for a dtype."""
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def function(op: str, version: int, node: Any, types: Sequence[Any]) -> Any:
    """Return the function of other operators that defines an operator, for a node and the types of its inputs.

    None where the operator is not defined by a function.
    """
    declared = schema(op, version)
    if declared is None:
        return None
    for versions, get in (
        (declared.function_opset_versions, declared.get_function_with_opset_version),
        (
            declared.context_dependent_function_opset_versions,
            lambda v: declared.get_context_dependent_function_with_opset_version(
                v, node.SerializeToString(), [t.SerializeToString() for t in types]
            ),
        ),
    ):
        if versions:
            fitting = [v for v in versions if v <= version] or list(versions)
            return onnx.FunctionProto.FromString(get(max(fitting)))
    return None


def inferred(
    op: str,
    version: int,
    inputs: Sequence[tuple[DType, Dims] | None],
    data: Mapping[int, Array],
    attrs: Mapping[str, Any],
    outputs: int,
) -> list[tuple[DType, list[int | str | None]] | None]:
    """Return the dtype and shape of each output by ONNX's shape inference; None where it does not give the rank.

    inputs: dtypes and shapes, None where an input is absent. data: the values of constant inputs, by index. Raises
    ValueError where the operator refuses the inputs.
    """
    names = ["" if t is None else f"i{i}" for i, t in enumerate(inputs)]
    node = helper.make_node(op, names, [f"o{i}" for i in range(outputs)], **attrs)
    types = {
        names[i]: helper.make_tensor_type_proto(elem_type(t[0]), list(t[1])) for i, t in enumerate(inputs) if t
    }
    values = {names[i]: numpy_helper.from_array(np.asarray(a, order="C")) for i, a in data.items()}
    try:
        types_of_outputs = shape_inference.infer_node_outputs(
            schema(op, version), node, types, values, opset_imports=[helper.make_opsetid("", version)]
        )
    except (shape_inference.InferenceError, checker.ValidationError, RuntimeError) as error:
        raise ValueError(_reason(error)) from error
    return [_type(types_of_outputs.get(name)) for name in node.output]


def _type(proto: Any) -> tuple[DType, list[int | str | None]] | None:
    if proto is None or not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
        return None
    dims = [
        int(d.dim_value) if d.HasField("dim_value") else d.dim_param or None for d in proto.tensor_type.shape.dim
    ]
    return np.dtype(helper.tensor_dtype_to_np_dtype(proto.tensor_type.elem_type)), dims


def _reason(error: Exception) -> str:
    """Return the last line of a message that is not blank, without the place in onnx's source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[-1] if lines else type(error).__name__
    for mark in ("[ShapeInferenceError] ", "[TypeInferenceError] "):
        line = line.rpartition(mark)[2]
    return line.rstrip(".")


def reference(
    op: str, version: int, given: Sequence[bool], attrs: Mapping[str, Any], outputs: int, domain: str = ""
) -> Any:
    """Return onnx's implementation of an operator in NumPy, as a function of the inputs that returns a list.

    given: whether each input is present; an absent one is None. Raises LookupError where there is no
    implementation.
    """
    from onnx.reference import ReferenceEvaluator

    names = [f"i{i}" if here else "" for i, here in enumerate(given)]
    node = helper.make_node(op, names, [f"o{i}" for i in range(outputs)], domain=domain, **attrs)
    infos = [onnx.ValueInfoProto(name=n) for n in names if n]
    graph = helper.make_graph([node], "one", infos, [onnx.ValueInfoProto(name=n) for n in node.output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, version)])
    try:
        evaluator = ReferenceEvaluator(model)
    except (RuntimeError, NotImplementedError) as error:
        raise LookupError(f"onnx has no implementation of {op}") from error

    def run(*inputs: Any) -> list[Any]:
        feed = {name: x for name, x in zip(names, inputs) if name}
        return list(evaluator.run(None, feed))

    return run


def byte_product() -> tuple[Any, Array, float]:
    """Return an ONNX model of one quantized matrix product, its input `x` and the exact output.

    A runtime that adds products of unsigned and signed bytes in pairs, in 16 bits, returns another output: 32
    products of 255 and 127 become 16 times 32767. On x86 processors without VNNI instructions, runtimes do so
    (the instruction VPMADDUBSW).
    """
    scale, weight, step = np.float32(1 / 255), np.full((32, 1), 127, np.int8), np.float32(32 * 127 / 200)
    unsigned, signed = np.uint8(0), np.int8(0)
    held = {"scale": scale, "zero": unsigned, "w": weight, "one": np.float32(1), "none": signed, "step": step}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "one", "none"], ["b"]),
        helper.make_node("MatMul", ["a", "b"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "step", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["d", "one", "zero"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k]) for n, k in (("x", 32), ("y", 1))]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "probe", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return model, np.ones((1, 32), np.float32), 200.0


def split_after(model: Any, nodes: Collection[str]) -> tuple[Any, Any]:
    """Split an ONNX model, and return two models: the nodes of these names with all that they depend on, and the
    rest. The first one has the inputs of the model, and the values that the second one reads as outputs."""
    graph = shape_inference.infer_shapes(model).graph
    infos = {v.name: v for v in (*graph.value_info, *graph.input, *graph.output)}
    needed: set[str] = set()
    first, rest = [], []
    for node in reversed(model.graph.node):
        if node.name in nodes or needed.intersection(node.output):
            first.append(node)
            needed.update(node.input)
        else:
            rest.append(node)
    computed = {name for node in first for name in node.output}
    read = {name for node in rest for name in node.input} | {v.name for v in model.graph.output}
    halves = []
    for part in (first, rest):
        half = onnx.ModelProto()
        half.CopyFrom(model)
        del half.graph.node[:], half.graph.initializer[:], half.graph.value_info[:]
        half.graph.node.extend(reversed(part))
        used = {name for node in part for name in node.input}
        half.graph.initializer.extend(t for t in model.graph.initializer if t.name in used)
        halves.append(half)
    del halves[0].graph.output[:]
    halves[0].graph.output.extend(infos[name] for name in sorted(computed & read))
    return halves[0], halves[1]


def joined(first: Any, rest: Any) -> Any:
    """Return the model whose parts `split_after` gives. The first part may have changed inside."""
    whole = onnx.ModelProto()
    whole.CopyFrom(first)
    whole.graph.node.extend(rest.graph.node)
    have = {t.name for t in first.graph.initializer}
    whole.graph.initializer.extend(t for t in rest.graph.initializer if t.name not in have)
    del whole.graph.output[:]
    whole.graph.output.extend(rest.graph.output)
    return whole


def with_outputs(path: Path, values: Collection[str]) -> bytes:
    """Return an ONNX file as bytes, in which those of `values` that its operators give are outputs, too."""
    model = onnx.load(path)
    outputs = {o.name for o in model.graph.output}
    inner = {name for node in model.graph.node for name in node.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in values if name in inner - outputs)
    return bytes(model.SerializeToString())
