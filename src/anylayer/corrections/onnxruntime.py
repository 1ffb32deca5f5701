"""What ONNX Runtime (1.31) computes wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.corrections._machinery import Corrector, correction, spelled
from anylayer.graph import Op, Value
from anylayer.tracing import record


@correction("onnxruntime", "Div", "Mod")
def _by_minus_one(new: Corrector, o: Op) -> list[Value] | None:
    """Give -x for x / -1, and 0 for its remainder: ONNX Runtime dies (SIGFPE) where x is the least integer."""
    divisor, dtype = o.inputs[1], o.outputs[0].dtype
    if divisor is None or dtype.kind != "i":
        return None
    if divisor.const is not None and not (divisor.const == -1).any():
        return None

    def divided(x: Any, y: Any) -> Any:
        minus = y == -1
        safe = np.where(minus, dtype.type(1), y)
        result = record(o.op, [x, safe], o.outputs[0].shape, dtype, **o.attrs)
        return result if o.op == "Mod" and not o.attrs.get("fmod") else np.where(minus, other(x), result)

    def other(x: Any) -> Any:
        return np.zeros_like(x) if o.op == "Mod" else -x

    return spelled(new, o, divided)


@correction("onnxruntime", "Resize")
def _resize(new: Corrector, o: Op) -> list[Value] | None:
    """Drop attributes that change nothing, but that ONNX Runtime refuses.

    These are `exclude_outside`, except in mode "cubic" or with antialias, and `antialias` in mode "nearest".
    """
    mode = o.attrs.get("mode", "nearest")
    idle = ["antialias", "exclude_outside"] if mode == "nearest" else []
    if mode == "linear" and not o.attrs.get("antialias"):
        idle = ["exclude_outside"]
    kept = {name: value for name, value in o.attrs.items() if name not in idle}
    return new.emit(o, "Resize", o.inputs, **kept) if len(kept) < len(o.attrs) else None
