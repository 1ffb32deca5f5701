"""Pieces around exp and tanh become single operators, where the engine computes those at once."""

from __future__ import annotations

import numpy as np

from anylayer.tracing.graph import Op, Value
from anylayer.tracing.rewrites.matching import (
    float32,
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
from anylayer.tracing.simplify import Rewriter, rule

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
    figure="x 96x55x55, us: 1 / (1 + exp(-x)) 181 -> 72, x / (1 + exp(-x)) 121 -> 61; OpenVINO 151 -> 194: not there",
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
    scaled = times(new, _as_value(new, o))
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
