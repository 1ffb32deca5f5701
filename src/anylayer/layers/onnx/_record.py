"""Record an operator as itself: its outputs' shapes and dtypes are what its own shape inference says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.errors import LayerError, TraceError, need
from anylayer.graph import OPSET, Dim
from anylayer.layers.onnx._call import Call, is_plain
from anylayer.libraries.onnx import helper, inferred, least_version, numpy_helper, schema
from anylayer.network import as_written
from anylayer.tracing import is_traced, record_many

_FEW = 4096
_MOST = 2**31 - 1
_SELECTING = ("NonZero", "Compress", "Unique", "Slice", "NonMaxSuppression", "TopK", "Split")
_NEWEST = 21
"""The newest operator set that engines are given."""
_SAME_RANK = frozenset(("Split", "Pad", "Tile", "CenterCropPad", "Resize", "Slice"))
"""Operators whose results have as many axes as their first input."""
_fresh = itertools.count()


def recorded(call: Call) -> list[Any]:
    """The operator's outputs, traced.

    A size that its inference does not tell becomes a Dim. Raises TraceError where it tells not even how many axes
    there are, and LayerError where it refuses the inputs.
    """
    given = call.inputs
    known: dict[str, Dim] = {}
    written = attributes(call)
    need_known(call, written)
    try:
        types = inferred(
            call.op,
            call.version,
            [None if x is None else (x.dtype, _sizes(x.shape, known)) for x in given],
            {i: x for i, x in enumerate(given) if x is not None and not is_traced(x) and x.size <= _FEW},
            written,
            call.outputs,
        )
    except ValueError as error:
        shapes = ", ".join("none" if x is None else str(tuple(x.shape)) for x in given)
        raise LayerError(f"does not take inputs of shape {shapes}: {error}") from error
    results: list[tuple[Any, Any]] = []
    for i, found in enumerate(types):
        found = found or _ranked(call)
        if found is None:
            raise TraceError(f"how many axes output {i} of {call.op} has is known only when the network runs")
        dtype, sizes = found
        if not is_plain(dtype):
            raise TraceError(f"{call.op} gives {dtype.name}, which no engine is given")
        most = _most(given) if call.op in _SELECTING else _MOST
        results.append(([_size(d, known, call.op, most) for d in sizes], dtype))
    if call.op == "Reshape":
        _need_equal_counts(given[0].shape, results[0][0])
    return list(record_many(call.op, given, results, **written))


def _need_equal_counts(given: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Refuse a shape of another number of values, which ONNX's own inference lets pass."""
    if all(isinstance(d, int) for d in (*given, *wanted)):
        counts = math.prod(given), math.prod(wanted)
        need(
            counts[0] == counts[1],
            f"its input {list(given)} has {counts[0]} values, the shape {list(wanted)} has {counts[1]}",
        )


def need_known(call: Call, written: Mapping[str, Any]) -> None:
    """Refuse to record what engines do not know: TraceError."""
    dtypes = tuple(None if x is None else x.dtype for x in call.inputs)
    least = least_version(call.op, OPSET, tuple(sorted(written)), dtypes)
    cubes = call.op == "GridSample" and len(call.inputs[0].shape) != 4
    plain = all(d is None or is_plain(d) for d in dtypes)
    if least is None or least > _NEWEST or cubes or not plain:
        kinds = ", ".join("none" if d is None else d.name for d in dtypes)
        raise TraceError(f"engines are given no {call.op} of {kinds} (operator set {least or call.version})")


def _ranked(call: Call) -> tuple[np.dtype[Any], list[int | str | None]] | None:
    """dtype and unknown sizes of a result whose number of axes follows from those of the inputs."""
    x = call.inputs[0]
    dtype, rank, count = x.dtype, len(x.shape), _count(call)
    if call.op in _SAME_RANK or (call.op.startswith("Reduce") and call["keepdims"]):
        found: int | None = rank
    elif call.op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        found, dtype = 1, np.dtype(helper.tensor_dtype_to_np_dtype(call["output_datatype"]))
    elif call.op == "ConstantOfShape":
        value = call["value"]
        found, dtype = count, np.dtype("f4") if value is None else value.dtype
    elif count is None:
        return None
    elif call.op in ("Reshape", "MaxUnpool"):
        found = count
    elif call.op == "Expand":
        found = max(count, rank)
    elif call.op == "Unsqueeze":
        found = rank + count
    elif call.op == "Squeeze" or call.op.startswith("Reduce"):
        found = rank - count if count else 0
    else:
        found = None
    return None if found is None else (dtype, [None] * found)


def _count(call: Call) -> int | None:
    """How many numbers the input has that tells sizes or axes: the last; None where that is not known."""
    size = call.inputs[-1].shape[0] if call.inputs[-1].shape else None
    return size if isinstance(size, int) else None


def attributes(call: Call) -> dict[str, Any]:
    """The attributes to write: numbers all, those that are new or words where they say something else than their
    default does."""
    found, older = schema(call.op, call.version), schema(call.op, OPSET)
    written = {}
    for name, value in call.attrs.items():
        declared = found.attributes[name].default_value
        if value is None or (isinstance(value, (list, tuple)) and not value):
            continue
        plain = not isinstance(value, (np.ndarray, str)) and call.op != "Resize"
        kept = plain and older is not None and name in older.attributes
        if not kept and declared.type and not isinstance(value, np.ndarray) and value == default_value(declared):
            continue
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        written[name] = list(value) if isinstance(value, tuple) else value
    return written


def default_value(proto: Any) -> Any:
    """A schema's default as a plain value; None where it has none."""
    if not proto.type:
        return None
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return as_written(value)
    return [v.decode() if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value


def _sizes(shape: Sequence[Any], known: dict[str, Dim]) -> list[Any]:
    sizes: list[Any] = []
    for d in shape:
        if isinstance(d, Dim):
            name = f"d{id(d)}"
            known[name] = d
            sizes.append(name)
        else:
            sizes.append(int(d))
    return sizes


def _size(found: Any, known: dict[str, Dim], op: str, most: int) -> Any:
    if isinstance(found, int):
        return found
    if found in known:
        return known[found]
    return Dim(f"{op.lower()}{next(_fresh)}", most)


def _most(inputs: Sequence[Any]) -> int:
    sizes = [math.prod(d.maximum if isinstance(d, Dim) else d for d in x.shape) for x in inputs if x is not None]
    return min(_MOST, max(sizes, default=1))


def at_least(version: int) -> int:
    """The version an operator is recorded in: the graph's, or its own newer one."""
    return max(OPSET, version)


def is_static(x: Any) -> bool:
    """Whether every size is a number."""
    return x is None or not any(isinstance(d, Dim) for d in x.shape)
