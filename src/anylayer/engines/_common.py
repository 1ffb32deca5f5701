"""What several engines share: native layers as operators of their graphs (see compile.plan.with_native_operators),
numbers of devices, and the check of the shapes of outputs. A difference there is a fault of the engine."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from anylayer.compile.plan import NATIVE_DOMAIN
from anylayer.errors import EngineError
from anylayer.graph import Dim, Graph, Value
from anylayer.network import Array


def native_layers(graph: Graph) -> list[Any]:
    """Return the native layers that are operators of a graph, in its order."""
    return [o["kernel"] for o in graph.ops if o.domain == NATIVE_DOMAIN]


def with_calls(graph: Graph, numbers: Sequence[int], operator: str = "NativeLayer") -> Graph:
    """Return the graph with a number for each native layer, as the attribute `call` of its `operator`."""
    changed = copy.copy(graph)
    left: Iterator[int] = iter(numbers)
    changed.ops = [
        replace(o, op=operator, attrs={"call": next(left)}) if o.domain == NATIVE_DOMAIN else o for o in graph.ops
    ]
    return changed


def device_number(engine: str, device: str, kind: str) -> int:
    """Return the number of a device of this kind, 0 if the name has none. Raises EngineError for another kind."""
    match = re.fullmatch(rf"(?:{kind}|gpu)(?::(\d{{1,3}}))?", device)
    if match is None:
        raise EngineError(f"engine '{engine}' has no device '{device}'; its devices: cpu, {kind}, {kind}:1, ...")
    return int(match[1] or 0)


OutputShapes = list[tuple[object, ...]]


def output_shapes(outputs: Sequence[Value]) -> OutputShapes:
    """Return the shapes of a graph's outputs, as need_shapes takes them."""
    return [tuple(v.shape) for v in outputs]


def need_shapes(engine: str, results: Sequence[Array], expected: OutputShapes) -> None:
    """Raise EngineError where an output has another shape than expected. A Dim stands for any size up to its
    maximum.

    It is called for each run, and takes 0.1 us per output.
    """
    for i, shape in enumerate(expected):
        if results[i].shape != shape and not _fits(results[i].shape, shape):
            raise EngineError(
                f"engine '{engine}' returned output {i} with shape {results[i].shape}, expected {shape}. This is "
                "a fault of the engine; use another one"
            )


def _fits(actual: tuple[int, ...], shape: tuple[object, ...]) -> bool:
    if len(actual) != len(shape):
        return False
    return all(n <= d.maximum if isinstance(d, Dim) else n == d for n, d in zip(actual, shape))
