"""Which values decide a floor, a comparison or a cast to integers, where a last bit makes a whole step."""

from __future__ import annotations

from anylayer.graph import Graph, Value

_STEPS = frozenset(
    (
        *("Floor", "Ceil", "Round", "Sign", "Mod"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    )
)
_POINTWISE = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Max", "Min", "Clip", "Where", "Sqrt", "Cast", "Relu", "Pow"),
        *(
            "Reshape",
            "Transpose",
            "Slice",
            "Split",
            "Squeeze",
            "Unsqueeze",
            "Expand",
            "Concat",
            "Gather",
            "Identity",
        ),
    )
)
"""Operators behind which a last bit of an element is still one of a single element."""


def before_steps(graph: Graph) -> set[Value]:
    """Return the values, by id, on which a step depends through operators that keep each element apart."""
    found: set[Value] = set()
    for o in reversed(graph.ops):
        is_step = o.op in _STEPS or (o.op == "Cast" and o.outputs[0].dtype.kind in "iu")
        if not o.domain and (is_step or (o.op in _POINTWISE and any(v in found for v in o.outputs))):
            found.update(v for v in o.inputs if v is not None and v.dtype.kind == "f")
    return found
