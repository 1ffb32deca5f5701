"""Operators with one input that compute each element separately."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anylayer.graph import Op
from anylayer.writers.caffe.affine import apply_to_blob, eltwise, power, relu, scale_and_shift
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.views import BlobView


def unary(type_: str, params: Callable[[Op], Mapping[str, Any]] | None = None) -> CaffeLowering:
    """Return the lowering of an operator to one layer of type `type_`. `params` computes its parameters."""

    def lower(b: CaffeBuilder, op: Op) -> None:
        given = params(op) if params is not None else {}
        b.set_view(
            op.outputs[0], apply_to_blob(b, b.view(op.inputs[0]), lambda x: b.add(type_, [x], x.base, given))
        )

    return lower


def _power_of(scale: float = 1.0, exponent: float = 1.0) -> CaffeLowering:
    """Return the lowering of an operator that computes (scale * x) ** exponent."""

    def lower(b: CaffeBuilder, op: Op) -> None:
        view = b.view(op.inputs[0])
        b.set_view(op.outputs[0], apply_to_blob(b, view, lambda x: power(b, x, scale=scale, exponent=exponent)))

    return lower


def clip(b: CaffeBuilder, x: BlobView, low: float, high: float) -> BlobView:
    """Limit x to low..high (either may be infinite): by Clip, ReLU6, or ReLU and Power."""
    if not math.isfinite(high) or high >= 3e38:
        if low == 0:
            return relu(b, x)
        if not math.isfinite(low) or low <= -3e38:
            return x
        return power(b, relu(b, power(b, x, shift=-low, suffix="shifted"), suffix="relu"), shift=low)
    if b.dialect.has("Clip"):
        low = min(max(low, float(np.finfo(np.float32).min)), high)  # Caffe returns min where it is above max
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


def _clip(b: CaffeBuilder, op: Op) -> None:
    bounds = [-math.inf, math.inf]
    for i, value in enumerate(op.inputs[1:3]):
        if value is not None:
            bound = b.given(b.const_array(value), "no Clip with computed limits")
            bounds[i] = float(bound.reshape(-1)[0])
    b.set_view(op.outputs[0], apply_to_blob(b, b.view(op.inputs[0]), lambda x: clip(b, x, *bounds)))


def _hard_sigmoid(b: CaffeBuilder, op: Op) -> None:
    scale, shift = float(op["alpha"]), float(op["beta"])

    def make(x: BlobView) -> BlobView:
        return clip(b, power(b, x, scale=scale, shift=shift, suffix="line"), 0.0, 1.0)

    b.set_view(op.outputs[0], apply_to_blob(b, b.view(op.inputs[0]), make))


def _hard_swish(b: CaffeBuilder, op: Op) -> None:
    def make(x: BlobView) -> BlobView:
        gate = clip(b, power(b, x, scale=1 / 6, shift=0.5, suffix="line"), 0.0, 1.0)
        return eltwise(b, [x, gate], "PROD")

    b.set_view(op.outputs[0], apply_to_blob(b, b.view(op.inputs[0]), make))


def _swish(b: CaffeBuilder, op: Op) -> None:
    def make(x: BlobView) -> BlobView:
        if b.dialect.has("Swish"):
            return b.add("Swish", [x], x.base)
        return eltwise(b, [x, b.add("Sigmoid", [x], x.base, suffix="gate")], "PROD")

    b.set_view(op.outputs[0], apply_to_blob(b, b.view(op.inputs[0]), make))


def _selu(b: CaffeBuilder, op: Op) -> None:
    alpha, gamma = float(op["alpha"]), float(op["gamma"])

    def make(x: BlobView) -> BlobView:
        return power(b, b.add("ELU", [x], x.base, {"elu_param": {"alpha": alpha}}, suffix="elu"), scale=gamma)

    b.set_view(op.outputs[0], apply_to_blob(b, b.view(op.inputs[0]), make))


def _prelu(b: CaffeBuilder, op: Op) -> None:
    """Add a ReLU for one slope, a PReLU for one slope per channel, else max(x, 0) - slope * max(-x, 0)."""
    slope = b.given(b.const_array(op.inputs[1]), "no PReLU with a computed slope")
    view = b.view(op.inputs[0])
    if not view.is_rearrangement:
        view = b.materialized(view)
    slopes = b.constant_on_blob(view, slope)
    if slopes is None:
        return
    varies = [i for i, n in enumerate(slopes.shape) if n > 1]

    def make(x: BlobView) -> BlobView:
        if not varies:
            return relu(b, x, float(slopes.reshape(-1)[0]))
        if varies == [1]:
            return b.add("PReLU", [x], x.base, {}, [slopes.reshape(-1)])
        below = relu(b, power(b, x, scale=-1, suffix="flipped"), suffix="below")
        scaled = scale_and_shift(b, below, slopes, None, suffix="slope")
        return eltwise(b, [relu(b, x, suffix="above"), scaled], "SUM", [1.0, -1.0])

    b.set_view(op.outputs[0], apply_to_blob(b, view, make))


def _pow(b: CaffeBuilder, op: Op) -> None:
    exponent = b.const_array(op.inputs[1])
    if exponent is not None and exponent.size == 1:
        number = float(exponent.reshape(-1)[0])
        b.set_view(op.outputs[0], apply_to_blob(b, b.view(op.inputs[0]), lambda x: power(b, x, exponent=number)))
        return
    refused = "no power whose base and exponent are both computed"
    base = b.given(b.const_array(op.inputs[0]), refused)
    b.need(base.size == 1 and base.min() > 0, refused)
    number = float(base.reshape(-1)[0])
    b.set_view(
        op.outputs[0],
        apply_to_blob(
            b, b.view(op.inputs[1]), lambda x: b.add("Exp", [x], x.base, {"exp_param": {"base": number}})
        ),
    )


# ---- truth values, as 0 and 1


def _comparison(less: bool) -> CaffeLowering:
    """Return the lowering of x < number, or of x > number: a Threshold. Either operand may be the number."""

    def lower(b: CaffeBuilder, op: Op) -> None:
        for value, other, below in (
            (op.inputs[0], op.inputs[1], less),
            (op.inputs[1], op.inputs[0], not less),
        ):
            bound = b.const_array(other)
            if bound is not None and bound.size == 1:
                number = float(bound.reshape(-1)[0])
                view = b.view(value)
                b.set_view(op.outputs[0], apply_to_blob(b, view, _threshold(b, number, below)))
                return
        b.need(False, "no comparison other than with a number")

    return lower


def _threshold(b: CaffeBuilder, number: float, below: bool) -> Callable[[BlobView], BlobView]:
    """Return a function that adds the layers for x > number, or for x < number if `below`."""

    def make(x: BlobView) -> BlobView:
        if below:
            x = power(b, x, scale=-1, suffix="flipped")
        limit = -number if below else number
        return b.add("Threshold", [x], x.base, {"threshold_param": {"threshold": limit} if limit else {}})

    return make


def _not(b: CaffeBuilder, op: Op) -> None:
    b.set_view(op.outputs[0], apply_to_blob(b, b.view(op.inputs[0]), lambda x: power(b, x, scale=-1, shift=1)))


ELEMENTWISE: dict[str, CaffeLowering] = {
    "Relu": unary("ReLU"),
    "LeakyRelu": unary("ReLU", lambda op: {"relu_param": {"negative_slope": float(op["alpha"])}}),
    "Elu": unary("ELU", lambda op: {"elu_param": {"alpha": a} if (a := float(op["alpha"])) != 1 else {}}),
    "Sigmoid": unary("Sigmoid"),
    "Tanh": unary("TanH"),
    "Softplus": unary("BNLL"),
    "Abs": unary("AbsVal"),
    "Exp": unary("Exp"),
    "Log": unary("Log"),
    "Sqrt": _power_of(exponent=0.5),
    "Reciprocal": _power_of(exponent=-1.0),
    "Neg": _power_of(scale=-1.0),
    "Clip": _clip,
    "PRelu": _prelu,
    "Selu": _selu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Swish": _swish,
    "Pow": _pow,
    "Greater": _comparison(False),
    "Less": _comparison(True),
    "Not": _not,
}
