"""Integers beyond 2**24 in operators that OpenVINO (2026.4) computes in float32.

Where the intervals allow such integers, comparisons and limits are computed by operators on 32 bits. For the other
operators a check raises an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.corrections._openvino import magnitude
from anylayer.corrections.corrector import Corrector
from anylayer.graph import Op, Value
from anylayer.graph.intervals import Interval, inside
from anylayer.graph.operators import REDUCTIONS
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.rules import rule
from anylayer.tracing import record

_EXACT: Interval = (-(2**24), 2**24)
_ELEMENTS = frozenset(("Div", "Mod", "ReduceMax", "ReduceMin", "Resize", "ReverseSequence"))
"""Operators that OpenVINO computes exactly if each number that they read is small."""
_SUMS = frozenset(("ReduceMean", "ReduceSum", "ReduceL1", "ReduceSumSquare", "MatMul", "Einsum", "Pow"))
"""Operators that OpenVINO computes exactly if the result for the absolute values, or for ReduceMean their sum, is
small."""
_TEXT = "an integer is beyond 2**24, and OpenVINO computes this operator in float32"


def _wide(value: Value | None) -> bool:
    return value is not None and value.dtype in (np.int32, np.int64)


def _numbers(o: Op) -> list[int]:
    """Return which inputs are numbers, not axes or sizes."""
    every = o not in REDUCTIONS and o.op != "Resize"
    return [i for i in range(len(o.inputs) if every else 1) if _wide(o.inputs[i])]


@rule(*sorted(_ELEMENTS | _SUMS), kind="must", targets=("openvino",), stage="check")
def _check(new: Corrector, o: Op) -> None:
    """Check the integers of an operator that is computed in float32."""
    if not new.checking or not _wide(o.outputs[0]):
        return
    numbers = _numbers(o)
    intervals = [new.interval(i) for i in numbers]
    if o.op in _ELEMENTS:
        for i, interval in zip(numbers, intervals):
            value = o.inputs[i]
            if value is not None and not inside(interval, _EXACT):
                _need_small(new, o, magnitude(new, o, new.as_float32(o, value)))
    elif o.op == "ReduceMean" or not (
        inside(new.old_intervals.before(o.outputs[0]), _EXACT) and all(i[0] >= 0 for i in intervals)
    ):
        inputs = list(o.inputs)
        for i in numbers:
            value = inputs[i]
            if value is not None:
                inputs[i] = magnitude(new, o, new.as_float32(o, value))
        total = "ReduceSum" if o.op == "ReduceMean" else o.op
        if o.op == "Pow":
            inputs[1] = o.inputs[1]
        _need_small(new, o, new.step(o, total, inputs, o.outputs[0].shape, np.float32, **o.attrs))


def _need_small(new: Corrector, o: Op, size: Value) -> None:
    limit = new.constant(np.float32(_EXACT[1]))
    new.check(o, new.step(o, "Greater", [size, limit], size.shape, bool), _TEXT)


def _is_exact(new: Corrector, o: Op) -> bool:
    """Return whether an operator reads only floats, integers of at most 16 bits, or small integers."""
    return not _wide(o.inputs[0]) or all(inside(new.interval(i), _EXACT) for i in range(len(o.inputs)))


def _is_zero(x: Array) -> Array:
    return record("Equal", [x, np.array(0, x.dtype)], x.shape, bool)


_COMPARED: dict[str, Callable[[Array, Array], Any]] = {
    "Equal": lambda x, y: _is_zero(x - y),
    "Less": lambda x, y: ~_is_zero(np.maximum(x, y) - x),
    "LessOrEqual": lambda x, y: _is_zero(np.maximum(x, y) - y),
    "Greater": lambda x, y: ~_is_zero(np.maximum(x, y) - y),
    "GreaterOrEqual": lambda x, y: _is_zero(np.maximum(x, y) - x),
}
"""Comparisons by a difference. It is 0 only for equal numbers, even if it does not fit the dtype."""


@rule(*_COMPARED, kind="must", targets=("openvino",))
def _comparison(new: Corrector, o: Op) -> list[Value] | None:
    """Compare integers beyond 2**24 by their difference: OpenVINO compares them in float32."""
    return None if _is_exact(new, o) else new.compute(o, _COMPARED[o.op])


@rule("Clip", "Relu", kind="must", targets=("openvino",))
def _limit(new: Corrector, o: Op) -> list[Value] | None:
    """Limit integers beyond 2**24 by Max and Min: OpenVINO's Clip and Relu compute in float32."""
    if _is_exact(new, o):
        return None

    def limited(x: Array, low: Array | None = None, high: Array | None = None) -> Array:
        low = np.array(0, x.dtype) if o.op == "Relu" else low
        x = x if low is None else np.maximum(x, low)
        return x if high is None else ~np.maximum(~x, ~high)  # OpenVINO fuses Max and Min into a Clip

    return new.compute(o, limited)


@rule("Where", kind="must", targets=("openvino",))
def where(new: Corrector, o: Op) -> list[Value] | None:
    """Select integers beyond 2**24 by a product with the condition: OpenVINO fuses a comparison of floats with the
    selection, and then selects in float32. It does so in bodies and for open sizes.
    """
    parts = [new.interval(1), new.interval(2)]
    computed = o.first.const is None and o.first in new.graph.producers
    fixed = not new.is_body and all(v is None or is_static(v.shape) for v in [*o.inputs, *o.outputs])
    if not computed or fixed or not _wide(o.outputs[0]) or all(inside(p, _EXACT) for p in parts):
        return None
    return new.compute(o, lambda c, x, y: y + (x - y) * c.astype(y.dtype))
