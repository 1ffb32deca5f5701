"""Facts about operators, for rewrite rules, corrections and writers: each is worked out here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from anylayer.graph.ir import Op, Value

Producers = Mapping[Value, Op]
"""The operator that produces each value: `Graph.producers`, or a table of several graphs."""


def producer(producers: Producers, value: Value | None, op: str = "") -> Op | None:
    """Return the ONNX operator that produces a value.

    op: the operator that is wanted; "" takes any.
    Returns None for a constant, an input, an absent value, a call, and where another operator produces the value.
    """
    found = None if value is None else producers.get(value)
    return found if found is not None and not found.domain and op in ("", found.op) else None
