"""Where OpenVINO (2026.4) changes a last bit and that makes a whole step: before a floor, a comparison, a cast.

It computes x * y + z with one rounding in place of two, combines the constants of two operators, and computes
x / y as x * (1 / y), so that 21 / 7 may be less than 3. None of that matters to a sum, but a bin, an index or a
mask that depends on it comes out as another one.
"""

from __future__ import annotations

import numpy as np

from anylayer.corrections._machinery import Corrector, correction, step
from anylayer.graph import Op, Value

_ARITHMETIC = ("Add", "Sub", "Mul", "Div")


@correction("openvino", *_ARITHMETIC)
def _rounded(new: Corrector, o: Op) -> list[Value] | None:
    """Round after each operator, and divide where a division is asked for.

    A maximum with minus infinity keeps an operator apart from the one before.
    """
    out = o.outputs[0]
    if out.dtype != np.float32 or new.old.outputs[0] not in new.before_steps:
        return None
    inputs = [_apart(new, o, v) for v in o.inputs]
    made = new.emit(o, o.op, inputs, **o.attrs)
    if o.op == "Div":
        new.divisions.append(made[0])
    return made


def _apart(new: Corrector, o: Op, value: Value | None) -> Value | None:
    before = new.maker(value)
    if value is None or before is None or before.op not in _ARITHMETIC:
        return value
    least = new.constant(np.array(-np.inf, np.float32))
    return step(new, o, "Max", [least, value], value.shape, np.float32)  # so: OpenVINO gives the second for NaN
