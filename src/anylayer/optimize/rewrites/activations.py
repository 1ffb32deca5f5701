"""Rectifiers in pieces become the operators that engines put into the convolution before them."""

from __future__ import annotations

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.optimize.rewrites.matching import is_number, made, number, orders, plain, step, with_number
from anylayer.optimize.simplify import Rewriter, rule

_ABOVE = {"Greater": True, "GreaterOrEqual": True, "Less": False, "LessOrEqual": False}


def _sign(new: Rewriter, mask: Value | None) -> tuple[Value, bool] | None:
    """(x, positive): a mask of where x is positive, or where it is negative; zero counts for either."""
    for op, above in _ABOVE.items():
        parts = made(new, mask, op)
        if parts is not None and is_number(parts[1], 0) and parts[0].const is None:
            return parts[0], above
        if parts is not None and is_number(parts[0], 0) and parts[1].const is None:
            return parts[1], not above
    return None


def _positive(new: Rewriter, value: Value | None) -> Value | None:
    """x where a value is its positive part."""
    parts = made(new, value, "Relu")
    return parts[0] if parts is not None else None


def _negative(new: Rewriter, value: Value | None) -> Value | None:
    """x where a value is its negative part, min(x, 0)."""
    found = with_number(new, value, "Min")
    return found[0] if found is not None and found[1] == 0 else None


def _leaky(new: Rewriter, o: Op, x: Value, slope: float) -> list[Value]:
    return new.emit(o, "LeakyRelu", [x], alpha=slope)


@rule("Max", figure="x 96x55x55, us: ONNX Runtime 59 -> 43, OpenVINO 85 -> 86; joins the convolution before it")
def _max(new: Rewriter, o: Op) -> list[Value] | None:
    """max(x, 0) is Relu, max(x, c x) with c <= 1 LeakyRelu."""
    if not plain(o) or len(o.inputs) != 2:
        return None
    for x, other in (o.inputs, o.inputs[::-1]):
        if x is None or x.const is not None or x.shape != o.outputs[0].shape:
            continue
        if is_number(other, 0):
            return new.emit(o, "Relu", [x])
        scaled = with_number(new, other, "Mul")
        if scaled is not None and scaled[0] is x and scaled[1] <= 1:
            return _leaky(new, o, x, scaled[1])
    return None


@rule(
    "Where",
    figure="x 96x55x55, us: ONNX Runtime 150 -> 40, OpenVINO 86 -> 77; one slope a channel 182 -> 128, 111 -> 99",
)
def _where(new: Rewriter, o: Op) -> list[Value] | None:
    """where(x > 0, x, y) with y = 0, c x, or x times a slope a channel."""
    sign = _sign(new, o.inputs[0])
    if sign is None or sign[0].dtype != o.outputs[0].dtype or not plain_but_mask(o):
        return None
    x, above = sign
    kept, other = (o.inputs[1], o.inputs[2]) if above else (o.inputs[2], o.inputs[1])
    if kept is not x or x.shape != o.outputs[0].shape:
        return None
    if is_number(other, 0):
        return new.emit(o, "Relu", [x])
    scaled = with_number(new, other, "Mul")
    if scaled is not None and scaled[0] is x:
        return _leaky(new, o, x, scaled[1])
    slope = next((s for y, s in orders(new, other, "Mul") if y is x and s.const is not None), None)
    if slope is None or other is None or other.shape != x.shape:
        return None
    positive = step(new, o, "Relu", [x])
    negative = step(new, o, "Sub", [x, positive])
    return new.emit(o, "Add", [positive, step(new, o, "Mul", [negative, slope])])


def plain_but_mask(o: Op) -> bool:
    """`plain`, but for a mask as the first input."""
    return plain(Op(o.op, o.inputs[1:], o.outputs))


@rule("Mul", figure="x 96x55x55, us: ONNX Runtime 111 -> 43, OpenVINO 93 -> 86")
def _masked(new: Rewriter, o: Op) -> list[Value] | None:
    """x * (x > 0) is Relu."""
    if not plain(o):
        return None
    for x, other in (o.inputs, o.inputs[::-1]):
        mask = made(new, other, "Cast")
        sign = _sign(new, mask[0]) if mask is not None else None
        if x is not None and sign == (x, True) and x.shape == o.outputs[0].shape:
            return new.emit(o, "Relu", [x])
    return None


@rule("Add", figure="x 96x55x55, us: ONNX Runtime 142 -> 40, OpenVINO 78 -> 77")
def _two_sides(new: Rewriter, o: Op) -> list[Value] | None:
    """max(x, 0) + c min(x, 0) is LeakyRelu."""
    if not plain(o):
        return None
    for a, b in (o.inputs, o.inputs[::-1]):
        x = _positive(new, a)
        scaled = with_number(new, b, "Mul")
        if x is not None and scaled is not None and _negative(new, scaled[0]) is x:
            return _leaky(new, o, x, scaled[1])
    return None


@rule("Sub", figure="x 96x55x55, us: ONNX Runtime 142 -> 40")
def _two_reliefs(new: Rewriter, o: Op) -> list[Value] | None:
    """max(x, 0) - c max(-x, 0) is LeakyRelu."""
    if not plain(o):
        return None
    x, scaled = _positive(new, o.inputs[0]), with_number(new, o.inputs[1], "Mul")
    below = made(new, _positive(new, scaled[0]), "Neg") if scaled is not None else None
    if x is None or scaled is None or below is None or below[0] is not x:
        return None
    return _leaky(new, o, x, scaled[1])


@rule("Min", figure="x 96x55x55, us: ONNX Runtime 85 -> 32, OpenVINO 77 -> 81")
def _between(new: Rewriter, o: Op) -> list[Value] | None:
    """min(max(x, a), b) with a <= b is Clip."""
    return _clip(new, o, "Max", above=False)


@rule("Max", figure="x 96x55x55, us: ONNX Runtime 85 -> 32, OpenVINO 77 -> 81")
def _between_too(new: Rewriter, o: Op) -> list[Value] | None:
    """max(min(x, b), a) with a <= b is Clip."""
    return _clip(new, o, "Min", above=True)


def _clip(new: Rewriter, o: Op, inner: str, *, above: bool) -> list[Value] | None:
    if not plain(o) or len(o.inputs) != 2:
        return None
    for value, limit in (o.inputs, o.inputs[::-1]):
        outer = number(limit)
        found = with_number(new, value, inner)
        positive = _positive(new, value) if inner == "Max" else None
        if positive is not None:
            found = positive, 0.0
        if outer is None or found is None or found[0].shape != o.outputs[0].shape:
            continue
        x, bound = found
        low, high = (outer, bound) if above else (bound, outer)
        if low <= high:
            return new.emit(o, "Clip", [x, *(new.constant(np.array(v, np.float32)) for v in (low, high))])
    return None
