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
    if out.dtype != np.float32 or new.old.outputs[0] not in new.before_steps:
        return None
    inputs = [_unfused(new, o, v) for v in o.inputs]
    outputs = new.emit(o, o.op, inputs, **o.attrs)
    if o.op == "Div":
        new.divisions.append(outputs[0])
    return outputs


def _unfused(new: Corrector, o: Op, value: Value | None) -> Value | None:
    before = new.producer(value)
    if value is None or before is None or before.op not in _ARITHMETIC:
        return value
    return new.unfused(o, value)
