"""Arithmetic before a floor, a comparison or a cast to integers, where OpenVINO (2026.4) changes last bits.

OpenVINO computes x * y + z with one rounding instead of two, combines the constants of two operators, and computes
x / y as x * (1 / y), so that 21 / 7 can be less than 3. Sums are hardly affected, but a bin, an index or a mask
that depends on such a bit changes.
"""

from __future__ import annotations

import numpy as np

from anylayer.corrections._machinery import Corrector, correction
from anylayer.graph import Op, Value

_ARITHMETIC = ("Add", "Sub", "Mul", "Div")


@correction("openvino", *_ARITHMETIC)
def _rounded(new: Corrector, o: Op) -> list[Value] | None:
    """Round after each operator, and compute Div by division.

    A maximum with minus infinity prevents that an operator is fused with the one before it.
    """
    out = o.outputs[0]
    if out.dtype != np.float32 or not (new.old.outputs[0] in new.before_steps or _overflows(new, o)):
        return None
    inputs = [_unfused(new, o, v) for v in o.inputs]
    outputs = new.emit(o, o.op, inputs, **o.attrs)
    if o.op == "Div":
        new.divisions.append(outputs[0])
    return outputs


def _overflows(new: Corrector, o: Op) -> bool:
    """Return whether the product of two factors that OpenVINO combines is infinite or 0."""
    before = [v for v in map(new.producer, o.inputs) if v is not None and v.op == "Mul"]
    factors = [v.const for v in o.inputs if v is not None and v.const is not None]
    earlier = [v.const for p in before for v in p.inputs if v is not None and v.const is not None]
    if o.op != "Mul" or not (factors and earlier):
        return False
    sizes = [np.abs(c[c != 0].astype(np.float64)) for c in (factors[0], earlier[0])]
    if not all(s.size for s in sizes):
        return False
    limits, (a, b) = np.finfo(np.float32), sizes
    return bool(a.max() * b.max() > limits.max or a.min() * b.min() < limits.tiny)


def _unfused(new: Corrector, o: Op, value: Value | None) -> Value | None:
    before = new.producer(value)
    if value is None or before is None or before.op not in _ARITHMETIC:
        return value
    return new.unfused(o, value)
