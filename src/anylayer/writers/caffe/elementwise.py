"""Operators that compute each element separately: of one input, and of several inputs that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import number
from anylayer.network import Array
from anylayer.writers.caffe.affine import apply_to_blob, eltwise, power, relu, scale_and_shift, tile_to_shape
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.materialize import axis_field
from anylayer.writers.caffe.views import BlobView


def on_blob(make: Callable[[CaffeBuilder, Op, BlobView], BlobView]) -> CaffeLowering:
    """Return the lowering of an operator on the elements of its first input. `make` adds its layers to a blob."""
    return lambda b, op: apply_to_blob(b, b.view(op.inputs[0]), lambda x: make(b, op, x))


def unary(type_: str, params: Callable[[Op], Mapping[str, Any]] = lambda op: {}) -> CaffeLowering:
    """Return the lowering of an operator to one layer of type `type_`. `params` computes its parameters."""
    return on_blob(lambda b, op, x: b.add(type_, [x], x.base, params(op)))


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


def _clip(b: CaffeBuilder, op: Op, x: BlobView) -> BlobView:
    bounds = [-math.inf, math.inf]
    for i in (1, 2):
        if op.input(i) is not None:
            bounds[i - 1] = float(b.given(op.constant(i), "no Clip with computed limits").reshape(-1)[0])
    return clip(b, x, *bounds)


def _hard_sigmoid(b: CaffeBuilder, op: Op, x: BlobView) -> BlobView:
    return clip(b, power(b, x, scale=float(op["alpha"]), shift=float(op["beta"]), suffix="line"), 0.0, 1.0)


def _hard_swish(b: CaffeBuilder, op: Op, x: BlobView) -> BlobView:
    gate = clip(b, power(b, x, scale=1 / 6, shift=0.5, suffix="line"), 0.0, 1.0)
    return eltwise(b, [x, gate], "PROD")


def _swish(b: CaffeBuilder, op: Op, x: BlobView) -> BlobView:
    if b.dialect.has("Swish"):
        return b.add("Swish", [x], x.base)
    return eltwise(b, [x, b.add("Sigmoid", [x], x.base, suffix="gate")], "PROD")


def _selu(b: CaffeBuilder, op: Op, x: BlobView) -> BlobView:
    elu = b.add("ELU", [x], x.base, {"elu_param": {"alpha": float(op["alpha"])}}, suffix="elu")
    return power(b, elu, scale=float(op["gamma"]))


def _prelu(b: CaffeBuilder, op: Op) -> BlobView:
    """Add a ReLU for one slope, a PReLU for one slope per channel, else max(x, 0) - slope * max(-x, 0)."""
    slope = b.given(op.constant(1), "no PReLU with a computed slope")
    view = b.rearrangement(b.view(op.inputs[0]))
    slopes = b.constant_on_blob(view, slope)
    varies = [i for i, n in enumerate(slopes.shape) if n > 1]

    def make(x: BlobView) -> BlobView:
        if not varies:
            return relu(b, x, float(slopes.reshape(-1)[0]))
        if varies == [1]:
            return b.add("PReLU", [x], x.base, {}, [slopes.reshape(-1)])
        below = relu(b, power(b, x, scale=-1, suffix="flipped"), suffix="below")
        scaled = scale_and_shift(b, below, slopes, None, suffix="slope")
        return eltwise(b, [relu(b, x, suffix="above"), scaled], "SUM", [1.0, -1.0])

    return apply_to_blob(b, view, make)


def _pow(b: CaffeBuilder, op: Op) -> BlobView:
    exponent = number(op.inputs[1])
    if exponent is not None:
        return apply_to_blob(b, b.view(op.inputs[0]), lambda x: power(b, x, exponent=exponent))
    base = number(op.inputs[0])
    if base is None or base <= 0:
        raise b.refusal("no power whose base and exponent are both computed")
    params = {"exp_param": {"base": base}}
    return apply_to_blob(b, b.view(op.inputs[1]), lambda x: b.add("Exp", [x], x.base, params))


# ---- truth values, as 0 and 1


def _comparison(less: bool) -> CaffeLowering:
    """Return the lowering of x < number, or of x > number: a Threshold. Either operand may be the number."""

    def lower(b: CaffeBuilder, op: Op) -> BlobView:
        for value, other, below in ((op.inputs[0], op.inputs[1], less), (op.inputs[1], op.inputs[0], not less)):
            bound = number(other)
            if bound is not None:
                return _threshold(b, b.view(value), bound, below)
        raise b.refusal("no comparison other than with a number")

    return lower


def _threshold(b: CaffeBuilder, view: BlobView, bound: float, below: bool) -> BlobView:
    """Add the layers for x > bound, or for x < bound if `below`."""
    limit = -bound if below else bound
    params = {"threshold_param": {"threshold": limit} if limit else {}}

    def make(x: BlobView) -> BlobView:
        x = power(b, x, scale=-1, suffix="flipped") if below else x
        return b.add("Threshold", [x], x.base, params)

    return apply_to_blob(b, view, make)


# ---- several inputs


_Terms = list[tuple[Value, float]]
"""Values of one shape and their factors in a sum."""


def _own_terms(op: Op | None) -> _Terms:
    """Return the terms of an operator that adds computed float32 values of one shape, or multiplies one by a
    number; [] for any other operator."""
    if op is None or op.domain or op.outputs[0].dtype != np.float32:
        return []
    values, ones = list(op.inputs), [1.0] * len(op.inputs)
    factors = {"Add": ones, "Sum": ones, "Sub": [1.0, -1.0], "Neg": [-1.0]}.get(op.op, [])
    if op.op == "Mul" and len(factor := [c for v in values if (c := number(v)) is not None]) == 1:
        values, factors = [v for v in values if number(v) is None], factor
    terms = [(v, c) for v, c in zip(values, factors) if v is not None and v.const is None]
    same = all(v.shape == op.outputs[0].shape for v, _ in terms)
    return terms if same and len(terms) == len(values) else []


def _parts(b: CaffeBuilder) -> set[Op]:
    """Return the sums and multiples that only one sum reads, directly or as its multiple."""
    if b.parts is None:
        b.parts = set()
        for op in reversed(b.producers.values()):
            reader = b.consumers.only(op.outputs[0])
            if (reader in b.parts or len(_own_terms(reader)) > 1) and _own_terms(op):
                b.parts.add(op)
    return b.parts


def _terms(b: CaffeBuilder, op: Op) -> _Terms:
    """Return the terms of a sum, with those of the sums and multiples that are its terms."""
    terms: _Terms = []
    left = _own_terms(op)[::-1]
    while left:
        value, factor = left.pop()
        inner = b.producers.get(value)
        if inner in _parts(b):
            left += [(v, c * factor) for v, c in _own_terms(inner)[::-1]]
        else:
            terms.append((value, factor))
    return terms


def _summing(lower: CaffeLowering) -> CaffeLowering:
    """Return the lowering of an operator that may be a sum or a multiple: nothing where it is a term of another
    sum, one Eltwise for all terms of a sum, and else what `lower` adds."""

    def lower_sum(b: CaffeBuilder, op: Op) -> BlobView | None:
        if op in _parts(b):
            return None
        if len(_own_terms(op)) < 2:
            return lower(b, op)
        terms = _terms(b, op)
        return eltwise_of_views(b, op, [b.view(v) for v, _ in terms], "SUM", [c for _, c in terms])

    return lower_sum


def _sum_or_difference(b: CaffeBuilder, op: Op, sign: float) -> BlobView:
    """Add the layers for left + sign * right, one of which is a constant or is repeated."""
    left, right = op.inputs[0], op.inputs[1]
    constant = op.constant(1)
    if constant is not None:
        return _with_constant(b, op, left, None, np.asarray(constant, np.float32) * np.float32(sign))
    constant = op.constant(0)
    if constant is not None:
        minus = None if sign > 0 else np.asarray(-1, np.float32)
        return _with_constant(b, op, right, minus, np.asarray(constant, np.float32))
    return eltwise_of_views(b, op, [b.view(left), b.view(right)], "SUM", [1.0, sign])


def _with_constant(
    b: CaffeBuilder, op: Op, value: Value | None, scale: Array | None, shift: Array | None
) -> BlobView:
    """Add the layer for value * scale + shift, which broadcast to the operator's output."""
    view = b.view(value)
    shape = tuple(op.outputs[0].shape)
    if view.shape != shape:
        view = tile_to_shape(b, view, shape)
    view = b.rearrangement(view)
    parts = [None if p is None else b.constant_on_blob(view, p) for p in (scale, shift)]
    b.mergeable = {view.name} if b.has_one_consumer(value) and b.use_count(view.name) == 0 else set()
    result = apply_to_blob(b, view, lambda x: scale_and_shift(b, x, parts[0], parts[1]))
    b.mergeable = set()
    return result


def _mul(b: CaffeBuilder, op: Op) -> BlobView:
    left, right = op.inputs[0], op.inputs[1]
    for value, i in ((left, 1), (right, 0)):
        constant = op.constant(i)
        if constant is not None:
            return _with_constant(b, op, value, np.asarray(constant, np.float32), None)
    if left is right:
        return apply_to_blob(b, b.view(left), lambda x: power(b, x, exponent=2.0))
    return eltwise_of_views(b, op, [b.view(left), b.view(right)], "PROD")


def _div(b: CaffeBuilder, op: Op) -> BlobView:
    """Add the layers of a division: by a constant a Scale or Power, else a product with the reciprocal."""
    left, right = op.inputs[0], op.inputs[1]
    constant = op.constant(1)
    if constant is not None:
        with np.errstate(divide="ignore"):
            return _with_constant(b, op, left, np.float32(1) / np.asarray(constant, np.float32), None)
    constant, dividend = op.constant(0), number(left)
    if dividend and right is not None and op.outputs[0].shape == right.shape:
        return apply_to_blob(b, b.view(right), lambda x: power(b, x, scale=1 / dividend, exponent=-1.0))
    inverse = apply_to_blob(b, b.view(right), lambda x: power(b, x, exponent=-1.0, suffix="inverse"))
    if constant is not None and right is not None:
        b.views[op.outputs[0]] = inverse
        return _with_constant(b, op, op.outputs[0], np.asarray(constant, np.float32), None)
    return eltwise_of_views(b, op, [b.view(left), inverse], "PROD")


def eltwise_of_views(
    b: CaffeBuilder, op: Op, views: list[BlobView], operation: str, coeff: Sequence[float] = ()
) -> BlobView:
    """Add the layers for an elementwise operation on views that broadcast.

    If all views have the same rearrangement, it is applied once, to the result.
    """
    shape = tuple(int(n) for n in op.outputs[0].shape)
    same = all(v.shape == shape for v in views)
    first = views[0]
    if same and all(v.steps == first.steps and v.base == first.base and v.is_rearrangement for v in views):
        y = eltwise(b, [BlobView(v.name, v.base) for v in views], operation, coeff)
        return BlobView(y.name, y.base, first.steps)
    result = None if same or len(views) != 2 else _broadcast(b, views, shape, operation, coeff)
    return result or eltwise(b, [tile_to_shape(b, v, shape) for v in views], operation, coeff)


def _broadcast(
    b: CaffeBuilder, views: list[BlobView], shape: Sequence[int], operation: str, coeff: Sequence[float]
) -> BlobView | None:
    """Multiply (or add) a value that has some consecutive axes of the other: Scale (or Bias) with two bottoms.

    Return None where that is not possible.
    """
    type_ = {"PROD": "Scale", "SUM": "Bias"}.get(operation, "")
    if not type_ or not b.dialect.has(type_) or any(c != 1 for c in coeff):
        return None
    for full, small in (views, views[::-1]):
        dims = (1,) * (len(shape) - len(small.shape)) + small.shape
        varies = [i for i, n in enumerate(dims) if n != 1]
        if full.shape != tuple(shape) or not varies:
            continue
        first, end = varies[0], varies[-1] + 1
        if dims[1] == shape[1] and shape[0] == 1 and first == 1:
            first = 0  # one number per sample and channel, as in squeeze-and-excitation
        if dims[first:end] != tuple(shape[first:end]):
            continue
        factor = b.materialized(small.reshaped(tuple(dims[first:end])))
        x = b.materialized(full)
        return b.add(type_, [x, factor], x.base, {f"{type_.lower()}_param": axis_field(first)})
    return None


def _extreme(b: CaffeBuilder, op: Op, sign: float) -> BlobView:
    """Add the layers for the maximum (sign 1), or the minimum (sign -1): -max(-x, -y)."""
    constants = {v: c for v in op.inputs if (c := number(v)) is not None}
    values = [v for v in op.inputs if v not in constants]
    if len(values) == 1 and constants:
        bound = max(c * sign for c in constants.values()) * sign
        low, high = (bound, math.inf) if sign > 0 else (-math.inf, bound)
        return apply_to_blob(b, b.view(values[0]), lambda x: clip(b, x, low, high))
    b.need(not constants, "no maximum of several values and a number")
    if sign > 0:
        return eltwise_of_views(b, op, [b.view(v) for v in values], "MAX")
    flipped = [apply_to_blob(b, b.view(v), lambda x: power(b, x, scale=-1, suffix="flipped")) for v in values]
    largest = eltwise_of_views(b, op, flipped, "MAX")
    return apply_to_blob(b, largest, lambda x: power(b, x, scale=-1))


def _sum(b: CaffeBuilder, op: Op) -> BlobView:
    if len(op.inputs) == 2:
        return _sum_or_difference(b, op, 1.0)
    views = [b.view(v) for v in op.inputs]
    return views[0] if len(views) == 1 else eltwise_of_views(b, op, views, "SUM")


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
    "Sqrt": on_blob(lambda b, op, x: power(b, x, exponent=0.5)),
    "Reciprocal": on_blob(lambda b, op, x: power(b, x, exponent=-1.0)),
    "Neg": _summing(on_blob(lambda b, op, x: power(b, x, scale=-1.0))),
    "Not": on_blob(lambda b, op, x: power(b, x, scale=-1, shift=1)),
    "Clip": on_blob(_clip),
    "PRelu": _prelu,
    "Selu": on_blob(_selu),
    "HardSigmoid": on_blob(_hard_sigmoid),
    "HardSwish": on_blob(_hard_swish),
    "Swish": on_blob(_swish),
    "Pow": _pow,
    "Greater": _comparison(False),
    "Less": _comparison(True),
    "Add": _summing(lambda b, op: _sum_or_difference(b, op, 1.0)),
    "Sub": _summing(lambda b, op: _sum_or_difference(b, op, -1.0)),
    "Mul": _summing(_mul),
    "Div": _div,
    "Max": lambda b, op: _extreme(b, op, 1.0),
    "Min": lambda b, op: _extreme(b, op, -1.0),
    "Sum": _summing(_sum),
}
