"""Operators that ONNX Runtime (1.32) computes wrongly, or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.corrections.corrector import Corrector
from anylayer.graph import Op, Value
from anylayer.network import Array
from anylayer.optimize.rewrites.resizing import computed_by_cells, is_portable
from anylayer.optimize.rules import rule
from anylayer.tracing import record


@rule("Div", "Mod", kind="must", targets=("onnxruntime",))
def _by_minus_one(new: Corrector, o: Op) -> list[Value] | None:
    """Compute x / -1 as -x and its remainder as 0: ONNX Runtime crashes (SIGFPE) if x is the least integer."""
    divisor, dtype = o.inputs[1], o.outputs[0].dtype
    if divisor is None or dtype.kind != "i":
        return None
    if divisor.const is not None and not (divisor.const == -1).any():
        return None

    def divide(x: Array, y: Array) -> Array:
        is_minus_one = y == -1
        safe = np.where(is_minus_one, dtype.type(1), y)
        result = record(o.op, [x, safe], o.outputs[0].shape, dtype, **o.attrs)
        return result if o.op == "Mod" and not o["fmod"] else np.where(is_minus_one, by_minus_one(x), result)

    def by_minus_one(x: Array) -> Array:
        return np.zeros_like(x) if o.op == "Mod" else -x

    return new.compute(o, divide)


@rule("Resize", kind="must", targets=("onnxruntime",))
def _resize(new: Corrector, o: Op) -> list[Value] | None:
    """Compute by cells and weights what ONNX Runtime rounds differently or refuses. Of other Resizes, remove
    attributes without effect that it refuses.

    These are `exclude_outside`, except in mode "cubic" or with antialias, and `antialias` in mode "nearest".
    """
    if not is_portable(o):
        return computed_by_cells(new, o)
    mode = o["mode"]
    without_effect = ["antialias", "exclude_outside"] if mode == "nearest" else []
    if mode == "linear" and not o["antialias"]:
        without_effect = ["exclude_outside"]
    attributes = {name: value for name, value in o.attrs.items() if name not in without_effect}
    return new.emit(o, "Resize", o.inputs, **attributes) if len(attributes) < len(o.attrs) else None


@rule("Add", kind="must", targets=("onnxruntime", "openvino"))
def _zero_added(new: Corrector, o: Op) -> list[Value] | None:
    """Turn -0 into 0 by Where where x + 0 does so before a division: the engine removes the addition."""
    if o.outputs[0] not in new.before_divisors:
        return None
    for x, zeros in (o.inputs, o.inputs[::-1]):
        if x is None or zeros is None or zeros.const is None or zeros.const.any() or zeros.const.size == 0:
            continue
        if x.shape == o.outputs[0].shape:
            zero = new.constant(np.zeros((), x.dtype))
            is_zero = new.step(o, "Equal", [x, zero], x.shape, bool)
            return new.emit(o, "Where", [is_zero, zero, x])
    return None


@rule("Where", kind="must", targets=("onnxruntime",))
def _zeros_of_where(new: Corrector, o: Op) -> list[Value] | None:
    """Keep the sign of zeros that Where selects from its first branch: ONNX Runtime returns 0 for -0 there.

    The zeros of the second branch keep their sign, so the branches are exchanged if one has no -0.
    """
    _, first, second = o.inputs
    if o.outputs[0] not in new.before_divisors or not _has_negative_zero(new, first):
        return None

    def exchange(condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition ^ True, y, x)  # ONNX Runtime exchanges the branches back if it finds Not

    def mark(condition: Array, x: Array, y: Array) -> Any:
        selected = np.where(condition, x, y)
        is_negative = np.where(condition, np.signbit(x), np.signbit(y))
        return np.where((selected != 0) | ~is_negative, selected, selected.dtype.type(-0.0))

    return new.compute(o, mark if _has_negative_zero(new, second) else exchange)


def _has_negative_zero(new: Corrector, value: Value | None) -> bool:
    """Return whether a value can contain -0."""
    if value is None:
        return False
    if value.const is not None:
        return bool((np.signbit(value.const) & (value.const == 0)).any())
    before = new.producer(value)
    return before is None or before.op not in ("Abs", "Exp")
