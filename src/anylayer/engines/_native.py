"""Native layers as operators of an engine's graphs: see compile.plan.with_native_operators."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from anylayer.compile.plan import NATIVE_DOMAIN
from anylayer.graph import Graph


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
