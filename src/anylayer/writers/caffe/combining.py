"""Operators on elements of several values that stand at one place, and batch normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.graph import Op, Value
from anylayer.network import Array
from anylayer.writers.caffe.affine import channel_wise, eltwise, number, on_blob, power, tiled
from anylayer.writers.caffe.builder import Builder, Form
from anylayer.writers.caffe.elementwise import clip
from anylayer.writers.caffe.views import Reshape, View


def _add(b: Builder, op: Op) -> None:
    _joined(b, op, 1.0)


def _sub(b: Builder, op: Op) -> None:
    _joined(b, op, -1.0)


def _joined(b: Builder, op: Op, sign: float) -> None:
    left, right = op.inputs[0], op.inputs[1]
    constant = b.const(right)
    if constant is not None:
        _with_constant(b, op, left, None, np.asarray(constant, np.float32) * np.float32(sign))
        return
    constant = b.const(left)
    if constant is not None:
        minus = None if sign > 0 else np.asarray(-1, np.float32)
        _with_constant(b, op, right, minus, np.asarray(constant, np.float32))
        return
    _two(b, op, "SUM", [1.0, sign])


def _with_constant(b: Builder, op: Op, value: Value | None, scale: Array | None, shift: Array | None) -> None:
    view = b.view(value)
    shape = tuple(op.outputs[0].shape)
    if view.shape != shape:
        view = tiled(b, b.settled(view), shape)
    parts = [None if p is None else b.spread(view, p) for p in (scale, shift)]
    if any(p is not None and q is None for p, q in zip((scale, shift), parts)):
        view = b.settled(view)
        parts = [None if p is None else b.spread(view, p) for p in (scale, shift)]
    b.mergeable = {view.name} if b.only_use(value) and b.reads(view.name) == 0 else set()
    b.give(op.outputs[0], on_blob(b, view, lambda x: channel_wise(b, x, parts[0], parts[1])))
    b.mergeable = set()


def _mul(b: Builder, op: Op) -> None:
    left, right = op.inputs[0], op.inputs[1]
    for value, other in ((left, right), (right, left)):
        constant = b.const(other)
        if constant is not None:
            _with_constant(b, op, value, np.asarray(constant, np.float32), None)
            return
    if left is right:
        b.give(op.outputs[0], on_blob(b, b.view(left), lambda x: power(b, x, exponent=2.0)))
        return
    _two(b, op, "PROD")


def _div(b: Builder, op: Op) -> None:
    left, right = op.inputs[0], op.inputs[1]
    constant = b.const(right)
    if constant is not None:
        with np.errstate(divide="ignore"):
            _with_constant(b, op, left, np.float32(1) / np.asarray(constant, np.float32), None)
        return
    constant = b.const(left)
    number = 0.0 if constant is None or constant.size != 1 else float(np.reshape(constant, -1)[0])
    if constant is not None and number and op.outputs[0].shape == getattr(right, "shape", None):
        b.give(op.outputs[0], on_blob(b, b.view(right), lambda x: power(b, x, scale=1 / number, exponent=-1.0)))
        return
    inverse = on_blob(b, b.view(right), lambda x: power(b, x, exponent=-1.0, suffix="inverse"))
    if constant is not None and right is not None:
        b.views[op.outputs[0]] = inverse
        _with_constant(b, op, op.outputs[0], np.asarray(constant, np.float32), None)
        return
    _views(b, op, [b.view(left), inverse], "PROD", ())


def _two(b: Builder, op: Op, operation: str, coeff: Sequence[float] = ()) -> None:
    _views(b, op, [b.view(v) for v in op.inputs], operation, coeff)


def _views(b: Builder, op: Op, views: list[View], operation: str, coeff: Sequence[float]) -> None:
    shape = tuple(int(n) for n in op.outputs[0].shape)
    same = all(v.shape == shape for v in views)
    first = views[0]
    if same and all(v.steps == first.steps and v.base == first.base and v.moves_only for v in views):
        made = eltwise(b, [View(v.name, v.base) for v in views], operation, coeff)
        b.give(op.outputs[0], View(made.name, made.base, first.steps))
        return
    if not same and len(views) == 2:
        made_view = _broadcast(b, views, shape, operation, coeff)
        if made_view is not None:
            b.give(op.outputs[0], made_view)
            return
    full = [tiled(b, b.settled(v), shape) for v in views]
    b.give(op.outputs[0], eltwise(b, full, operation, coeff))


def _broadcast(
    b: Builder, views: list[View], shape: Sequence[int], operation: str, coeff: Sequence[float]
) -> View | None:
    """A map times (or plus) a value that lies on some of its axes: Scale (or Bias) with two bottoms."""
    type_ = {"PROD": "Scale", "SUM": "Bias"}.get(operation, "")
    if not type_ or not b.dialect.has(type_) or any(c != 1 for c in coeff):
        return None
    for full, small in (views, views[::-1]):
        dims = (1,) * (len(shape) - len(small.shape)) + small.shape
        wide = [i for i, n in enumerate(dims) if n != 1]
        if full.shape != tuple(shape) or not wide:
            continue
        first, end = wide[0], wide[-1] + 1
        if dims[1] == shape[1] and shape[0] == 1 and first == 1:
            first = 0  # one number a sample and channel: what squeeze and excitation makes
        if dims[first:end] != tuple(shape[first:end]):
            continue
        message = "scale_param" if type_ == "Scale" else "bias_param"
        lies = b.settled(small.then(Reshape(tuple(dims[first:end]))))
        x = b.settled(full)
        return b.add(type_, [x, lies], x.base, {message: {"axis": first} if first != 1 else {}})
    return None


def _max(b: Builder, op: Op) -> None:
    _extreme(b, op, 1.0)


def _min(b: Builder, op: Op) -> None:
    _extreme(b, op, -1.0)


def _extreme(b: Builder, op: Op, sign: float) -> None:
    """The larger of values, or the smaller of them: that is the larger of their negatives."""
    numbers = [c for v in op.inputs if (c := b.const(v)) is not None and c.size == 1]
    values = [v for v in op.inputs if b.const(v) is None or np.asarray(b.const(v)).size != 1]
    bound = None
    if numbers:
        bound = float(max(float(c.reshape(-1)[0]) * sign for c in numbers)) * sign
    if len(values) == 1 and bound is not None:
        low, high = (bound, math.inf) if sign > 0 else (-math.inf, bound)
        b.give(op.outputs[0], on_blob(b, b.view(values[0]), lambda x: clip(b, x, low, high)))
        return
    b.need(not numbers, "no maximum of several values and a number")
    if sign > 0:
        _two(b, op, "MAX")
        return
    flipped = [on_blob(b, b.view(v), lambda x: power(b, x, scale=-1, suffix="flipped")) for v in values]
    _views(b, op, flipped, "MAX", ())
    largest = b.view(op.outputs[0])
    b.give(op.outputs[0], on_blob(b, largest, lambda x: power(b, x, scale=-1)))


def _sum(b: Builder, op: Op) -> None:
    if len(op.inputs) == 1:
        b.give(op.outputs[0], b.view(op.inputs[0]))
    elif len(op.inputs) == 2:
        _add(b, op)
    else:
        _two(b, op, "SUM")


# ---- batch normalisation


def _batch_norm(b: Builder, op: Op) -> None:
    scale, shift, mean, var = (b.const(v) for v in op.inputs[1:5])
    b.need(all(p is not None for p in (scale, shift, mean, var)), "no batch normalisation by computed statistics")
    if scale is None or shift is None or mean is None or var is None:
        return
    epsilon = number(op, "epsilon", 1e-5)
    x = b.settled(op.inputs[0])
    shape = (1, -1, *(1,) * (len(x.base) - 2))
    factor = (scale / np.sqrt(var + np.float32(epsilon))).astype(np.float32)
    offset = (shift - mean * factor).astype(np.float32)
    if b.fold and b.only_use(op.inputs[0]) and _folded(b, x, factor, offset):
        b.give(op.outputs[0], x)
        return
    if b.fold or not b.dialect.has("BatchNorm"):
        b.give(op.outputs[0], channel_wise(b, x, factor.reshape(shape), offset.reshape(shape)))
        return
    params: dict[str, Any] = {"use_global_stats": True}
    stored = var
    if b.blog_compat:
        stored = (var + np.float32(epsilon)).astype(np.float32)
    elif epsilon != 1e-5:
        params["eps"] = epsilon
    blobs = [mean, stored, np.ones(1, np.float32)]
    y = b.add("BatchNorm", [x], x.base, {"batch_norm_param": params}, blobs)
    y = b.add("Scale", [y], y.base, {"scale_param": {"bias_term": True}}, [scale, shift], suffix="_sc")
    b.give(op.outputs[0], y)


def _folded(b: Builder, x: View, factor: Array, offset: Array) -> bool:
    """Put the normalisation into the weights of the layer that gives x."""
    layer = b.producer(x, "Convolution", "InnerProduct", "Deconvolution")
    if layer is None or b.reads(x.name):
        return False
    message = "inner_product_param" if layer.type == "InnerProduct" else "convolution_param"
    values = layer.params[message]
    if values.get("axis", 1) != 1:
        return False
    weights = layer.blobs[0]
    if layer.type == "Deconvolution":
        group = values.get("group", 1)
        per = factor.reshape(group, 1, -1, *(1,) * (weights.ndim - 2))
        split = weights.reshape(group, weights.shape[0] // group, *weights.shape[1:])
        layer.blobs[0] = (split * per).reshape(weights.shape)
    else:
        layer.blobs[0] = weights * factor.reshape(-1, *(1,) * (weights.ndim - 1))
    bias = layer.blobs[1] if len(layer.blobs) > 1 else np.zeros_like(offset)
    layer.blobs[1:] = [bias * factor + offset]
    layer.params[message] = {k: v for k, v in values.items() if k != "bias_term"}
    return True


COMBINING: dict[str, Form] = {
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Max": _max,
    "Min": _min,
    "Sum": _sum,
    "BatchNormalization": _batch_norm,
}
