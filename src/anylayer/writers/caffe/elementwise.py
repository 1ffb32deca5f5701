"""Operators that treat each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anylayer.graph import Op
from anylayer.writers.caffe.affine import channel_wise, eltwise, number, on_blob, power, relu
from anylayer.writers.caffe.builder import Builder, Form
from anylayer.writers.caffe.views import View


def unary(type_: str, params: Callable[[Op], Mapping[str, Any]] | None = None) -> Form:
    """The form of an operator that one layer of the same shape is."""

    def form(b: Builder, op: Op) -> None:
        given = params(op) if params is not None else {}
        b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), lambda x: b.add(type_, [x], x.base, given)))

    return form


def _lrn(b: Builder, op: Op) -> None:
    x = b.settled(op.inputs[0])
    alpha, beta, k = number(op, "alpha", 1e-4), number(op, "beta", 0.75), number(op, "bias", 1.0)
    size = int(op.attrs["size"])
    b.need(size % 2, f"no LRN over {size} channels, only over odd numbers of them")
    params: dict[str, Any] = {"local_size": size, "alpha": alpha, "beta": beta}
    if b.dialect.name == "opencv" and k != 1:  # OpenCV passes k over: k goes out of the power
        params["alpha"] = alpha / k
        y = b.add("LRN", [x], x.base, {"lrn_param": params})
        b.give(op.outputs[0], power(b, y, scale=k**-beta, suffix="k"))
        return
    params |= {"k": k} if k != 1 else {}
    b.give(op.outputs[0], b.add("LRN", [x], x.base, {"lrn_param": params}))


def _powers(scale: float = 1.0, exponent: float = 1.0) -> Form:
    def form(b: Builder, op: Op) -> None:
        view = b.view(op.inputs[0])
        b.give(op.outputs[0], on_blob(b, view, lambda x: power(b, x, scale=scale, exponent=exponent)))

    return form


def clip(b: Builder, x: View, low: float, high: float) -> View:
    """Limit to low..high: Clip, ReLU6, or steps of ReLU and Power that are the same."""
    if not math.isfinite(high) or high >= 3e38:
        if low == 0:
            return relu(b, x)
        if not math.isfinite(low) or low <= -3e38:
            return x
        return power(b, relu(b, power(b, x, shift=-low, suffix="shifted"), suffix="relu"), shift=low)
    if b.dialect.has("Clip"):
        low = max(low, float(np.finfo(np.float32).min))
        return b.add("Clip", [x], x.base, {"clip_param": {"min": low, "max": high}})
    if low == 0 and high == 6 and b.dialect.has("ReLU6"):
        return b.add("ReLU6", [x], x.base)
    if math.isfinite(low) and low > -3e38:
        x = relu(b, x if low == 0 else power(b, x, shift=-low, suffix="shifted"), suffix="relu")
        x = power(b, x, scale=-1, shift=high - low, suffix="flipped")
    else:
        x = power(b, x, scale=-1, shift=high, suffix="flipped")
        low = 0
    return power(b, relu(b, x, suffix="limited"), scale=-1, shift=high)


def _clip(b: Builder, op: Op) -> None:
    bounds = [-math.inf, math.inf]
    for i, value in enumerate(op.inputs[1:3]):
        if value is not None:
            bound = b.const(value)
            b.need(bound is not None, "no limits that are computed")
            bounds[i] = float(np.asarray(bound).reshape(-1)[0])
    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), lambda x: clip(b, x, *bounds)))


def _hard_sigmoid(b: Builder, op: Op) -> None:
    scale, shift = number(op, "alpha", 0.2), number(op, "beta", 0.5)

    def make(x: View) -> View:
        return clip(b, power(b, x, scale=scale, shift=shift, suffix="line"), 0.0, 1.0)

    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), make))


def _hard_swish(b: Builder, op: Op) -> None:
    def make(x: View) -> View:
        gate = clip(b, power(b, x, scale=1 / 6, shift=0.5, suffix="line"), 0.0, 1.0)
        return eltwise(b, [x, gate], "PROD")

    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), make))


def _swish(b: Builder, op: Op) -> None:
    def make(x: View) -> View:
        if b.dialect.has("Swish"):
            return b.add("Swish", [x], x.base)
        return eltwise(b, [x, b.add("Sigmoid", [x], x.base, suffix="gate")], "PROD")

    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), make))


def _selu(b: Builder, op: Op) -> None:
    alpha, gamma = number(op, "alpha", 1.6732632), number(op, "gamma", 1.0507010)

    def make(x: View) -> View:
        return power(b, b.add("ELU", [x], x.base, {"elu_param": {"alpha": alpha}}, suffix="elu"), scale=gamma)

    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), make))


def _prelu(b: Builder, op: Op) -> None:
    slope = b.const(op.inputs[1])
    b.need(slope is not None, "no PReLU whose slope is computed")
    view = b.view(op.inputs[0])
    lies = None if slope is None else b.spread(view, slope)
    if lies is None:
        view = b.settled(view)
        lies = b.spread(view, np.asarray(slope))
    if lies is None:
        return
    varies = [i for i, n in enumerate(lies.shape) if n > 1]
    rest = lies

    def make(x: View) -> View:
        if not varies:
            return relu(b, x, float(rest.reshape(-1)[0]))
        if varies == [1]:
            return b.add("PReLU", [x], x.base, {}, [rest.reshape(-1)])
        below = relu(b, power(b, x, scale=-1, suffix="flipped"), suffix="below")
        scaled = channel_wise(b, below, rest, None, suffix="slope")
        return eltwise(b, [relu(b, x, suffix="above"), scaled], "SUM", [1.0, -1.0])

    b.give(op.outputs[0], on_blob(b, view, make))


def _pow(b: Builder, op: Op) -> None:
    exponent = b.const(op.inputs[1])
    if exponent is not None and exponent.size == 1:
        number = float(exponent.reshape(-1)[0])
        b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), lambda x: power(b, x, exponent=number)))
        return
    base = b.const(op.inputs[0])
    b.need(base is not None and base.size == 1 and base.min() > 0, "no power of two computed values")
    number = float(np.asarray(base).reshape(-1)[0])
    b.give(
        op.outputs[0],
        on_blob(b, b.view(op.inputs[1]), lambda x: b.add("Exp", [x], x.base, {"exp_param": {"base": number}})),
    )


# ---- truth, as 0 and 1


def _compared(flipped: bool) -> Form:
    """x > number (or x < number): Threshold."""

    def form(b: Builder, op: Op) -> None:
        for value, other, turned in (
            (op.inputs[0], op.inputs[1], flipped),
            (op.inputs[1], op.inputs[0], not flipped),
        ):
            bound = b.const(other)
            if bound is not None and bound.size == 1:
                number = float(bound.reshape(-1)[0])
                view = b.view(value)
                b.give(op.outputs[0], on_blob(b, view, _threshold(b, number, turned)))
                return
        b.need(False, "no comparison but with a number")

    return form


def _threshold(b: Builder, number: float, below: bool) -> Callable[[View], View]:
    def make(x: View) -> View:
        if below:
            x = power(b, x, scale=-1, suffix="flipped")
        at = -number if below else number
        return b.add("Threshold", [x], x.base, {"threshold_param": {"threshold": at} if at else {}})

    return make


def _not(b: Builder, op: Op) -> None:
    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), lambda x: power(b, x, scale=-1, shift=1)))


ELEMENTWISE: dict[str, Form] = {
    "Relu": unary("ReLU"),
    "LeakyRelu": unary("ReLU", lambda op: {"relu_param": {"negative_slope": number(op, "alpha", 0.01)}}),
    "Elu": unary("ELU", lambda op: {"elu_param": {"alpha": a} if (a := number(op, "alpha", 1.0)) != 1 else {}}),
    "Sigmoid": unary("Sigmoid"),
    "Tanh": unary("TanH"),
    "Softplus": unary("BNLL"),
    "Abs": unary("AbsVal"),
    "Exp": unary("Exp"),
    "Log": unary("Log"),
    "LRN": _lrn,
    "Sqrt": _powers(exponent=0.5),
    "Reciprocal": _powers(exponent=-1.0),
    "Neg": _powers(scale=-1.0),
    "Clip": _clip,
    "PRelu": _prelu,
    "Selu": _selu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Swish": _swish,
    "Pow": _pow,
    "Greater": _compared(False),
    "Less": _compared(True),
    "Not": _not,
}
