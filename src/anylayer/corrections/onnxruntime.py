"""Operators that ONNX Runtime (1.31) computes wrongly, or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.corrections._machinery import Corrector, correction, respelled
from anylayer.graph import Op, Value
from anylayer.network import Array
from anylayer.tracing import record


@correction("onnxruntime", "Div", "Mod")
def _by_minus_one(new: Corrector, o: Op) -> list[Value] | None:
    """Compute x / -1 as -x and its remainder as 0: ONNX Runtime crashes (SIGFPE) if x is the least integer."""
    divisor, dtype = o.inputs[1], o.outputs[0].dtype
    if divisor is None or dtype.kind != "i":
        return None
    if divisor.const is not None and not (divisor.const == -1).any():
        return None

    def divide(x: Array, y: Array) -> Any:
        is_minus_one = y == -1
        safe = np.where(is_minus_one, dtype.type(1), y)
        result = record(o.op, [x, safe], o.outputs[0].shape, dtype, **o.attrs)
        return (
            result
            if o.op == "Mod" and not o.attrs.get("fmod")
            else np.where(is_minus_one, by_minus_one(x), result)
        )

    def by_minus_one(x: Array) -> Any:
        return np.zeros_like(x) if o.op == "Mod" else -x

    return respelled(new, o, divide)


@correction("onnxruntime", "Resize")
def _resize(new: Corrector, o: Op) -> list[Value] | None:
    """Remove attributes without effect that ONNX Runtime refuses.

    These are `exclude_outside`, except in mode "cubic" or with antialias, and `antialias` in mode "nearest".
    """
    mode = o.attrs.get("mode", "nearest")
    without_effect = ["antialias", "exclude_outside"] if mode == "nearest" else []
    if mode == "linear" and not o.attrs.get("antialias"):
        without_effect = ["exclude_outside"]
    kept = {name: value for name, value in o.attrs.items() if name not in without_effect}
    return new.emit(o, "Resize", o.inputs, **kept) if len(kept) < len(o.attrs) else None
