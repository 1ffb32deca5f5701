"""Elementwise operators with several inputs that broadcast: Add, Sub, Mul, Div, Max, Min, Sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anylayer.graph import Op, Value
from anylayer.network import Array
from anylayer.writers.caffe.affine import (
    apply_to_blob,
    eltwise,
    power,
    scale_and_shift,
    tile_to_shape,
)
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.elementwise import clip
from anylayer.writers.caffe.views import BlobView


def _add(b: CaffeBuilder, op: Op) -> None:
    _sum_or_difference(b, op, 1.0)


def _sub(b: CaffeBuilder, op: Op) -> None:
    _sum_or_difference(b, op, -1.0)


def _sum_or_difference(b: CaffeBuilder, op: Op, sign: float) -> None:
    """Add the layers for left + sign * right."""
    left, right = op.inputs[0], op.inputs[1]
    constant = b.const_array(right)
    if constant is not None:
        _with_constant(b, op, left, None, np.asarray(constant, np.float32) * np.float32(sign))
        return
    constant = b.const_array(left)
    if constant is not None:
        minus = None if sign > 0 else np.asarray(-1, np.float32)
        _with_constant(b, op, right, minus, np.asarray(constant, np.float32))
        return
    _eltwise_of_values(b, op, "SUM", [1.0, sign])


def _with_constant(b: CaffeBuilder, op: Op, value: Value | None, scale: Array | None, shift: Array | None) -> None:
    """Add the layer for value * scale + shift, which broadcast to the operator's output."""
    view = b.view(value)
    shape = tuple(op.outputs[0].shape)
    if view.shape != shape:
        view = tile_to_shape(b, b.materialized(view), shape)
    if not view.is_rearrangement:
        view = b.materialized(view)
    parts = [None if p is None else b.constant_on_blob(view, p) for p in (scale, shift)]
    b.mergeable = {view.name} if b.has_one_consumer(value) and b.use_count(view.name) == 0 else set()
    b.set_view(op.outputs[0], apply_to_blob(b, view, lambda x: scale_and_shift(b, x, parts[0], parts[1])))
    b.mergeable = set()


def _mul(b: CaffeBuilder, op: Op) -> None:
    left, right = op.inputs[0], op.inputs[1]
    for value, other in ((left, right), (right, left)):
        constant = b.const_array(other)
        if constant is not None:
            _with_constant(b, op, value, np.asarray(constant, np.float32), None)
            return
    if left is right:
        b.set_view(op.outputs[0], apply_to_blob(b, b.view(left), lambda x: power(b, x, exponent=2.0)))
        return
    _eltwise_of_values(b, op, "PROD")


def _div(b: CaffeBuilder, op: Op) -> None:
    """Add the layers of a division: by a constant a Scale or Power, else a product with the reciprocal."""
    left, right = op.inputs[0], op.inputs[1]
    constant = b.const_array(right)
    if constant is not None:
        with np.errstate(divide="ignore"):
            _with_constant(b, op, left, np.float32(1) / np.asarray(constant, np.float32), None)
        return
    constant = b.const_array(left)
    number = 0.0 if constant is None or constant.size != 1 else float(np.reshape(constant, -1)[0])
    if constant is not None and number and op.outputs[0].shape == getattr(right, "shape", None):
        b.set_view(
            op.outputs[0], apply_to_blob(b, b.view(right), lambda x: power(b, x, scale=1 / number, exponent=-1.0))
        )
        return
    inverse = apply_to_blob(b, b.view(right), lambda x: power(b, x, exponent=-1.0, suffix="inverse"))
    if constant is not None and right is not None:
        b.views[op.outputs[0]] = inverse
        _with_constant(b, op, op.outputs[0], np.asarray(constant, np.float32), None)
        return
    eltwise_of_views(b, op, [b.view(left), inverse], "PROD", ())


def _eltwise_of_values(b: CaffeBuilder, op: Op, operation: str, coeff: Sequence[float] = ()) -> None:
    eltwise_of_views(b, op, [b.view(v) for v in op.inputs], operation, coeff)


def eltwise_of_views(
    b: CaffeBuilder, op: Op, views: list[BlobView], operation: str, coeff: Sequence[float]
) -> None:
    """Add the layers for an elementwise operation on views that broadcast.

    If all views have the same rearrangement, it is applied once, to the result.
    """
    shape = tuple(int(n) for n in op.outputs[0].shape)
    same = all(v.shape == shape for v in views)
    first = views[0]
    if same and all(v.steps == first.steps and v.base == first.base and v.is_rearrangement for v in views):
        y = eltwise(b, [BlobView(v.name, v.base) for v in views], operation, coeff)
        b.set_view(op.outputs[0], BlobView(y.name, y.base, first.steps))
        return
    if not same and len(views) == 2:
        result = _broadcast(b, views, shape, operation, coeff)
        if result is not None:
            b.set_view(op.outputs[0], result)
            return
    full = [tile_to_shape(b, b.materialized(v), shape) for v in views]
    b.set_view(op.outputs[0], eltwise(b, full, operation, coeff))


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
        message = "scale_param" if type_ == "Scale" else "bias_param"
        factor = b.materialized(small.reshaped(tuple(dims[first:end])))
        x = b.materialized(full)
        return b.add(type_, [x, factor], x.base, {message: {"axis": first} if first != 1 else {}})
    return None


def _max(b: CaffeBuilder, op: Op) -> None:
    _extreme(b, op, 1.0)


def _min(b: CaffeBuilder, op: Op) -> None:
    _extreme(b, op, -1.0)


def _extreme(b: CaffeBuilder, op: Op, sign: float) -> None:
    """Add the layers for the maximum (sign 1), or the minimum (sign -1): -max(-x, -y)."""
    numbers = [c for v in op.inputs if (c := b.const_array(v)) is not None and c.size == 1]
    values = [v for v in op.inputs if b.const_array(v) is None or np.asarray(b.const_array(v)).size != 1]
    bound = None
    if numbers:
        bound = float(max(float(c.reshape(-1)[0]) * sign for c in numbers)) * sign
    if len(values) == 1 and bound is not None:
        low, high = (bound, math.inf) if sign > 0 else (-math.inf, bound)
        b.set_view(op.outputs[0], apply_to_blob(b, b.view(values[0]), lambda x: clip(b, x, low, high)))
        return
    b.need(not numbers, "no maximum of several values and a number")
    if sign > 0:
        _eltwise_of_values(b, op, "MAX")
        return
    flipped = [apply_to_blob(b, b.view(v), lambda x: power(b, x, scale=-1, suffix="flipped")) for v in values]
    eltwise_of_views(b, op, flipped, "MAX", ())
    largest = b.view(op.outputs[0])
    b.set_view(op.outputs[0], apply_to_blob(b, largest, lambda x: power(b, x, scale=-1)))


def _sum(b: CaffeBuilder, op: Op) -> None:
    if len(op.inputs) == 1:
        b.set_view(op.outputs[0], b.view(op.inputs[0]))
    elif len(op.inputs) == 2:
        _add(b, op)
    else:
        _eltwise_of_values(b, op, "SUM")


BINARY: dict[str, CaffeLowering] = {
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Max": _max,
    "Min": _min,
    "Sum": _sum,
}
