"""Pieces around exp and tanh become single operators, where the engine computes those at once."""

from __future__ import annotations

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.optimize.rewrites.matching import (
    is_number,
    made,
    number,
    orders,
    plain,
    plus,
    step,
    times,
    with_number,
)
from anylayer.optimize.simplify import Rewriter, rule

_ORT = ("onnxruntime",)


def _logistic_of(new: Rewriter, value: Value | None) -> Value | None:
    """x where a value is 1 + exp(-x)."""
    more = with_number(new, value, "Add")
    power = made(new, more[0], "Exp") if more is not None and more[1] == 1 else None
    if power is None:
        return None
    negated = made(new, power[0], "Neg")
    if negated is None:
        scaled = with_number(new, power[0], "Mul")
        return scaled[0] if scaled is not None and scaled[1] == -1 else None
    return negated[0]


@rule(
    "Div",
    engines=_ORT,
    inexact=True,
    figure="x 96x55x55, us: 1 / (1 + exp(-x)) 181 -> 72, x / (1 + exp(-x)) 121 -> 61; "
    "OpenVINO 151 -> 194: not there",
)
def _sigmoid(new: Rewriter, o: Op) -> list[Value] | None:
    """y / (1 + exp(-x)) is y * Sigmoid(x)."""
    x = _logistic_of(new, o.inputs[1]) if plain(o) else None
    if x is None or x.shape != o.outputs[0].shape:
        return None
    if is_number(o.inputs[0], 1):
        return new.emit(o, "Sigmoid", [x])
    return new.emit(o, "Mul", [o.inputs[0], step(new, o, "Sigmoid", [x])])


@rule("Div", engines=_ORT, inexact=True, figure="x 96x55x55, us: exp(x) / (1 + exp(x)) 181 -> 72")
def _sigmoid_of_powers(new: Rewriter, o: Op) -> list[Value] | None:
    """exp(x) / (1 + exp(x)) is Sigmoid(x)."""
    power = made(new, o.inputs[0], "Exp") if plain(o) else None
    more = with_number(new, o.inputs[1], "Add")
    if power is None or more is None or more[1] != 1 or more[0] is not o.inputs[0]:
        return None
    return new.emit(o, "Sigmoid", [power[0]])


@rule("Mul", engines=_ORT, inexact=True, figure="x 96x55x55, us: 99 -> 60")
def _sigmoid_of_tanh(new: Rewriter, o: Op) -> list[Value] | None:
    """(tanh(x / 2) + 1) / 2 is Sigmoid(x)."""
    if not plain(o):
        return None
    for value, half in (o.inputs, o.inputs[::-1]):
        more = with_number(new, value, "Add") if is_number(half, 0.5) else None
        wave = made(new, more[0], "Tanh") if more is not None and more[1] == 1 else None
        inner = times(new, wave[0]) if wave is not None else None
        if inner is not None and inner[1] == 0.5 and inner[0].shape == o.outputs[0].shape:
            return new.emit(o, "Sigmoid", [inner[0]])
    return None


@rule("Div", engines=_ORT, inexact=True, figure="x 96x55x55, us: 184 -> 93")
def _tanh(new: Rewriter, o: Op) -> list[Value] | None:
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x)) is Tanh(x)."""
    above = made(new, o.inputs[0], "Sub") if plain(o) else None
    if above is None:
        return None
    power, other = made(new, above[0], "Exp"), made(new, above[1], "Exp")
    negated = made(new, other[0], "Neg") if other is not None else None
    if power is None or negated is None or negated[0] is not power[0]:
        return None
    below = [(a, b) for a, b in orders(new, o.inputs[1], "Add") if a is above[0] and b is above[1]]
    return new.emit(o, "Tanh", [power[0]]) if below else None


def _hard(new: Rewriter, value: Value | None, scale: float) -> tuple[Value, float] | None:
    """(x, b) where scale * value is min(max(scale * x + b, 0), 1)."""
    limits = made(new, value, "Clip")
    if limits is None or len(limits) != 3 or number(limits[1]) != 0:
        return None
    high = number(limits[2])
    if high is None or abs(high * scale - 1) > 1e-6:
        return None
    moved = plus(new, limits[0])
    return (moved[0], moved[1] * scale) if moved is not None else None


@rule("Div", "Mul", engines=_ORT, inexact=True, figure="x 96x55x55, us: x * clip(x + 3, 0, 6) / 6 175 -> 101")
def _hard_sigmoid(new: Rewriter, o: Op) -> list[Value] | None:
    """clip(x + 3, 0, 6) / 6 is HardSigmoid, also with a factor before the division."""
    if not plain(o):
        return None
    scaled = times(new, o)
    if scaled is None:
        return None
    value, scale = scaled
    found = _hard(new, value, scale)
    if found is not None:
        return new.emit(o, "HardSigmoid", [found[0]], alpha=scale, beta=found[1])
    for factor, limited in orders(new, value, "Mul"):
        found = _hard(new, limited, scale)
        if found is not None and limited.shape == value.shape:
            gate = step(new, o, "HardSigmoid", [found[0]], alpha=scale, beta=found[1])
            return new.emit(o, "Mul", [factor, gate])
    return None


@rule(
    "Tanh",
    engines=("onnxruntime", "openvino"),
    inexact=True,
    figure="x * tanh(log(1 + exp(x))), x 96x55x55, us: ONNX Runtime 433 -> 305, OpenVINO 510 -> 174",
)
def _mish(new: Rewriter, o: Op) -> list[Value] | None:
    """tanh(log(1 + e)) with e = exp(x) is n / (n + 2) with n = e (e + 2); from x = 20 on it is 1."""
    x = _softplus_of(new, o.inputs[0]) if plain(o) else None
    if x is None or x.shape != o.outputs[0].shape:
        return None

    def constant(value: float) -> Value:
        return new.constant(np.array(value, np.float32))

    power = step(new, o, "Exp", [step(new, o, "Min", [x, constant(20)])])
    over = step(new, o, "Mul", [power, step(new, o, "Add", [power, constant(2)])])
    return new.emit(o, "Div", [over, step(new, o, "Add", [over, constant(2)])])


def _softplus_of(new: Rewriter, value: Value | None) -> Value | None:
    """x where a value is log(1 + exp(x)), in one of its spellings."""
    for finder in (_log_of_sum, _log1p_of_power, _stable):
        x = finder(new, value)
        if x is not None:
            return x
    return None


def _log_of_sum(new: Rewriter, value: Value | None) -> Value | None:
    """log(1 + exp(x))."""
    inner = made(new, value, "Log")
    more = with_number(new, inner[0], "Add") if inner is not None else None
    power = made(new, more[0], "Exp") if more is not None and more[1] == 1 else None
    return power[0] if power is not None else None


def _log1p_of_power(new: Rewriter, value: Value | None) -> Value | None:
    """log1p(exp(x)) as the tracer records it: where(d == 0, e, log(u) * where(d == e, 1, e / d)), u = 1 + e,
    d = u - 1."""
    chosen = made(new, value, "Where")
    if chosen is None:
        return None
    mask, e, product = chosen
    power, equal = made(new, e, "Exp"), made(new, mask, "Equal")
    if power is None or equal is None or not is_number(equal[1], 0):
        return None
    back = plus(new, equal[0])
    total = plus(new, back[0]) if back is not None and back[1] == -1 else None
    if total is None or back is None or total[1] != 1 or total[0] is not e:
        return None
    for log, share in orders(new, product, "Mul"):
        inner, ratio = made(new, log, "Log"), made(new, share, "Where")
        if inner is None or ratio is None or inner[0] is not back[0] or not is_number(ratio[1], 1):
            continue
        quotient, exact = made(new, ratio[2], "Div"), made(new, ratio[0], "Equal")
        if quotient is not None and exact is not None and [*quotient[:2]] == [e, equal[0]]:
            return power[0] if exact[0] is equal[0] and exact[1] is e else None
    return None


def _stable(new: Rewriter, value: Value | None) -> Value | None:
    """max(x, 0) + log(1 + exp(-|x|))."""
    for a, b in orders(new, value, "Add"):
        positive, inner = made(new, a, "Relu"), _log_of_sum(new, b)
        negated = made(new, inner, "Neg")
        size = made(new, negated[0], "Abs") if negated is not None else None
        if positive is not None and size is not None and size[0] is positive[0]:
            return size[0]
    return None
