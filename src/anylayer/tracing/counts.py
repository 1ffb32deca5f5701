"""Selections whose size depends on data: x[mask] and the positions of the true elements of a mask.

They are recorded as ONNX's Compress and NonZero. Their size is a symbol: see anylayer.graph.guards.SymbolicTrace.
A node is traced with such symbols in a second attempt, because only some layers select.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import TraceError
from anylayer.graph.expressions import symbol
from anylayer.graph.guards import current_trace
from anylayer.graph.ir import Value
from anylayer.graph.operators import SELECTS, SIZED_BY_DATA
from anylayer.graph.place import refusal
from anylayer.graph.sizes import size_of
from anylayer.graph.symbolic import is_symbolic, new_size
from anylayer.network import Array
from anylayer.tracing.array import TracedArray
from anylayer.tracing.dtypes import BOOL, I8
from anylayer.tracing.primitives import cast, is_constant, reshape
from anylayer.tracing.record import record, running_graph


class SizeDependsOnData(TraceError):
    """A size depends on data, and the trace has no symbols for such sizes."""


def count_of(values: Any, most: Any) -> Any:
    """Return the number of elements that depends on `values`, from 0 to `most`, as a size.

    Each value of the graph has one such size: what one mask selects from several arrays has the same size. Raises
    SizeDependsOnData outside a trace with symbolic sizes.
    """
    trace = current_trace.get()
    if trace is None or trace.turn is None:
        raise refusal(
            "the number of elements that a mask selects is known only when the network runs, which cannot be "
            "recorded here; use np.where(mask, a, b)",
            kind=SizeDependsOnData,
        )
    if not is_symbolic(most) and most == 1:
        raise refusal("a selection from a single element cannot be recorded; use np.where(mask, a, b)")
    counts = running_graph().counts
    key = values._value
    if key not in counts:
        name = f"{running_graph().prefix}count{len(counts) + 1}"
        value = trace.count(name, most)
        counts[key] = 0 if value is None else new_size(value, symbol(name))
    return counts[key]


def compressed(x: Array, mask: Array, axis: int) -> Array:
    """Return the elements of `x` where `mask` is true. The mask has the sizes of x from `axis` on."""
    axes = range(axis, axis + mask.ndim)
    size = size_of(mask.shape)
    n = count_of(mask, size)
    shape = (*x.shape[:axis], n, *x.shape[axes.stop :])
    if type(n) is int:
        return np.zeros(shape, x.dtype)
    merged = reshape(x, (*x.shape[:axis], size, *x.shape[axes.stop :]))
    flat = reshape(mask, (size,))
    return _selection(record("Compress", [merged, flat], shape, x.dtype, axis=axis))


def _selection(found: TracedArray) -> TracedArray:
    """Enter an array as one from whose shape a size that depends on data can be computed."""
    found._graph.selections.append(found._value)
    return found


def positions(x: Array) -> tuple[Array, ...]:
    """Return np.nonzero(x): for each axis the positions of the elements that are not 0."""
    if is_constant(x):
        return x.nonzero()
    mask = cast(x, BOOL)
    if not mask.ndim:
        raise refusal("np.nonzero of a scalar cannot be recorded; use np.where(mask, a, b)")
    n = count_of(mask, size_of(mask.shape))
    if type(n) is int:
        return tuple(np.zeros(0, np.int64) for _ in range(mask.ndim))
    found = _selection(record("NonZero", [mask], (mask.ndim, n), I8))
    return tuple(reshape(row, (n,)) for row in (found[i : i + 1] for i in range(mask.ndim)))


def mask_of_positions(items: Sequence[Any]) -> TracedArray | None:
    """Return the mask whose positions along all of its axes are the first items of a key, or None."""
    if type(items[0]) is not TracedArray:
        return None
    graph = items[0]._graph
    value: Value | None = items[0]._value
    while value is not None and value.const is None:
        producer = graph.producers.get(value)
        if producer is None or (producer not in SELECTS and producer not in SIZED_BY_DATA):
            return None
        value = producer.inputs[0]
        if producer.op == "NonZero" and value is not None:
            mask = TracedArray(graph, value)
            rows = [x._value if type(x) is TracedArray else None for x in items[: mask.ndim]]
            own = [x._value if type(x) is TracedArray else None for x in positions(mask)]
            return mask if rows == own else None
    return None
