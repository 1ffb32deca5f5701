"""Chains of products and sums with constants, and powers."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.network import Array
from anylayer.optimize.rewrites.matching import F4, number, plain, step
from anylayer.optimize.simplify import Rewriter, rule

_FEWEST = 16  # cells of a channel from which on BatchNormalization pays
_MOST = 100.0  # a larger shift would cost digits where it cancels


def _per_channel(value: Value | None, shape: tuple[Any, ...]) -> Array | None:
    """The constant as one float64 number a channel of an array (N, C, ...); None where it varies otherwise."""
    if value is None or value.const is None or value.dtype != F4 or value.const.ndim > len(shape):
        return None
    if len(shape) < 2:
        return None
    wide = (1,) * (len(shape) - value.const.ndim) + value.const.shape
    if any(d != 1 for i, d in enumerate(wide) if i != 1) or wide[1] not in (1, shape[1]):
        return None
    return np.broadcast_to(value.const.astype(np.float64).reshape(-1), (shape[1],))


Affine = tuple[Value, Array, Array, int]


def _affine(new: Rewriter, source: Value | Op | None, depth: int = 8) -> Affine | None:
    """(x, scale, shift, steps) where `source` is x * scale + shift by channel, made in `steps` operators."""
    maker = source if isinstance(source, Op) else new.maker(source)
    if maker is None or depth == 0 or maker.op not in ("Add", "Sub", "Mul", "Div", "BatchNormalization"):
        return None
    x, *others = maker.inputs
    if maker.op == "BatchNormalization":
        scale, shift, mean, variance = (v.const if v is not None else None for v in others)
        if x is None or scale is None or shift is None or mean is None or variance is None:
            return None
        if maker.attrs.get("epsilon") != 0.0 or mean.any() or (variance != 1).any():
            return None
        return x, scale.astype(np.float64), shift.astype(np.float64), 2
    found = one_step(maker, x, others[0])
    if found is None:
        return None
    x, scale, shift = found
    inner = _affine(new, x, depth - 1)
    if inner is None:
        return x, scale, shift, 1
    return inner[0], inner[1] * scale, inner[2] * scale + shift, inner[3] + 1


def one_step(o: Op, a: Value | None, b: Value | None) -> tuple[Value, Array, Array] | None:
    """(x, scale, shift) where an Add, Sub, Mul or Div of `a` and `b` is x * scale + shift by channel."""
    if o.op in ("Add", "Mul") and a is not None and a.const is not None:
        a, b = b, a
    shape = o.outputs[0].shape
    if a is None or a.const is not None or a.shape != shape:
        return None
    c = _per_channel(b, shape)
    if c is None or (o.op == "Div" and not c.all()):
        return None
    one, zero = np.ones_like(c), np.zeros_like(c)
    if o.op in ("Add", "Sub"):
        return a, one, c if o.op == "Add" else -c
    return a, (c if o.op == "Mul" else one / c), zero


@rule(
    "Add",
    "Sub",
    "Mul",
    "Div",
    engines=("onnxruntime",),
    inexact=True,
    late=True,
    figure="x 96x55x55, us: (x - c) / d 105 -> 47, with three steps more 135 -> 44; OpenVINO joins them itself",
)
def _chain(new: Rewriter, o: Op) -> list[Value] | None:
    """Several products and sums with constants, one number a channel or for all, are one BatchNormalization."""
    shape = o.outputs[0].shape
    if not plain(o) or len(shape) < 3 or new.picked(o) or np.prod(shape[2:]) < _FEWEST:
        return None
    found = _affine(new, o)
    if found is None or found[3] < 2:
        return None
    x, scale, shift, _ = found
    if np.abs(shift).max() > _MOST or not np.isfinite(scale).all():
        return None
    zero, one = np.zeros(shape[1], np.float32), np.ones(shape[1], np.float32)
    values = (scale.astype(np.float32), shift.astype(np.float32), zero, one)
    return new.emit(o, "BatchNormalization", [x, *map(new.constant, values)], epsilon=0.0)


@rule("Div", engines=("onnxruntime",), inexact=True, late=True, figure="x / 7, x 96x55x55, us: 50 -> 35")
def _quotient(new: Rewriter, o: Op) -> list[Value] | None:
    """x / c is x * (1 / c)."""
    c = o.inputs[1]
    if not plain(o) or c is None or c.const is None or new.picked(o):
        return None
    with np.errstate(all="ignore"):
        inverse = 1 / c.const
    small = np.finfo(np.float32).tiny
    if not (np.isfinite(inverse) & (np.abs(inverse) >= small)).all():
        return None
    return new.emit(o, "Mul", [o.inputs[0], new.constant(inverse)])


@rule(
    "Pow",
    engines=("onnxruntime", "openvino"),
    inexact=True,
    figure="x * (1 + x * x) ** -.75, x 96x55x55, us: ONNX Runtime 1432 -> 390, OpenVINO 1503 -> 186",
)
def _quarters(new: Rewriter, o: Op) -> list[Value] | None:
    """x to the power of a multiple of a quarter up to 3 is made of square roots and products."""
    x, power = o.inputs[0], number(o.inputs[1])
    if not plain(o) or x is None or power is None or new.picked(o) or x.shape != o.outputs[0].shape:
        return None
    quarters = abs(power) * 4
    if not 0 < quarters <= 12 or quarters != int(quarters) or (quarters % 4 == 0 and power > 0):
        return None
    whole, part = divmod(int(quarters), 4)
    factors = [x] * whole
    if part:
        root = step(new, o, "Sqrt", [x])
        factors += [root] if part >= 2 else []
        factors += [step(new, o, "Sqrt", [root])] if part % 2 else []
    total = factors[0]
    for factor in factors[1:]:
        total = step(new, o, "Mul", [total, factor])
    if power > 0:
        return [total]
    return new.emit(o, "Div", [new.constant(np.ones((), np.float32)), total])
