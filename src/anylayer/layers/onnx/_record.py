"""Record an operator as itself: its outputs' shapes and dtypes are what its own shape inference says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import LayerError, TraceError
from anylayer.layers.onnx._call import Call
from anylayer.libraries.onnx import helper, inferred, numpy_helper, schema
from anylayer.tracing import OPSET, Dim, is_traced, record_many

_FEW = 4096
_MOST = 2**31 - 1
_SELECTING = ("NonZero", "Compress", "Unique", "Slice", "NonMaxSuppression", "TopK", "Split")
_KEPT = ("axis",)
_fresh = itertools.count()


def recorded(call: Call) -> list[Any]:
    """The operator's outputs, traced.

    A size that its inference does not tell becomes a Dim. Raises TraceError where it tells not even how many axes
    there are, and LayerError where it refuses the inputs.
    """
    given = call.inputs
    known: dict[str, Dim] = {}
    try:
        types = inferred(
            call.op,
            call.version,
            [None if x is None else (x.dtype, _sizes(x.shape, known)) for x in given],
            {i: x for i, x in enumerate(given) if x is not None and not is_traced(x) and x.size <= _FEW},
            attributes(call),
            call.outputs,
        )
    except ValueError as error:
        raise LayerError(str(error)) from error
    results: list[tuple[Any, Any]] = []
    for i, found in enumerate(types):
        if found is None:
            raise TraceError(f"how many axes output {i} of {call.op} has is known only when the network runs")
        dtype, sizes = found
        if dtype.kind not in "biuf":
            raise TraceError(f"{call.op} gives {dtype.name}, which no engine is given")
        most = _most(given) if call.op in _SELECTING else _MOST
        results.append(([_size(d, known, call.op, most) for d in sizes], dtype))
    return list(record_many(call.op, given, results, **attributes(call)))


def attributes(call: Call) -> dict[str, Any]:
    """The attributes to write: those that say something else than their default does."""
    found = schema(call.op, call.version)
    written = {}
    for name, value in call.attrs.items():
        declared = found.attributes[name].default_value
        if value is None or (isinstance(value, (list, tuple)) and not value):
            continue
        if (
            name not in _KEPT
            and declared.type
            and not isinstance(value, np.ndarray)
            and value == _default(declared)
        ):
            continue
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        written[name] = list(value) if isinstance(value, tuple) else value
    return written


def _default(proto: Any) -> Any:
    value = helper.get_attribute_value(proto)
    return value.decode() if isinstance(value, bytes) else value


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
