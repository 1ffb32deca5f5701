"""Recording: `record` appends an ONNX operator from inside an operator's form; `trace` runs a whole function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.errors import TraceError
from anylayer.network import TensorType
from anylayer.tracing.array import Traced
from anylayer.tracing.graph import Graph, Value


def record_many(op: str, inputs: Sequence[Any], types: Sequence[tuple[Any, Any]], /, **attrs: Any) -> list[Traced]:
    """Append operator `op` with several outputs of the given (shape, dtype); inputs are traced arrays, NumPy
    arrays (which become constants) or None (absent). At least one must be traced."""
    graph = next((x._graph for x in inputs if isinstance(x, Traced)), None)
    if graph is None:
        raise TraceError(f"{op} is recorded without a traced input")
    values: list[Value | None] = []
    for x in inputs:
        values.append(None if x is None else x._value if isinstance(x, Traced) else graph.constant(np.asarray(x)))
    return [Traced(graph, v) for v in graph.emit(op, values, types, attrs)]


def record(op: str, inputs: Sequence[Any], shape: Sequence[Any], dtype: Any, /, **attrs: Any) -> Traced:
    """Append an operator with one output: see record_many."""
    return record_many(op, inputs, [(shape, dtype)], **attrs)[0]


def trace(
    function: Callable[[list[Any]], Sequence[Any]], types: Sequence[TensorType], *, prefix: str = ""
) -> Graph:
    """The graph of what `function`, called with a list of arrays of these types, does to get its outputs."""
    graph = Graph(prefix)
    inputs = [Traced(graph, graph.input(f"{prefix}input_{i}", t.shape, t.dtype)) for i, t in enumerate(types)]
    outputs = function(list(inputs))
    graph.outputs = [o._value if isinstance(o, Traced) else graph.constant(o) for o in outputs]
    return graph
