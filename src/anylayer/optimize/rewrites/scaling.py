"""Chains of products and sums with constants, quotients, and powers."""

from __future__ import annotations

import numpy as np

from anylayer.graph.facts import number, per_channel
from anylayer.graph.ir import Op, Value
from anylayer.graph.operators import ARITHMETIC
from anylayer.network import Array
from anylayer.optimize.rules import Rewriter, rule

_FEWEST_CELLS = 16
"""The smallest number of cells per channel for which BatchNormalization is faster."""
_MAX_SHIFT = 100.0
"""The largest shift that is folded. The result would lose digits where a larger one is subtracted from a similar
number."""

Affine = tuple[Value, Array, Array, int]


def _affine(new: Rewriter, source: Value | Op | None, depth: int = 8) -> Affine | None:
    """Return (x, scale, shift, count) where `count` operators compute `source` as x * scale + shift."""
    o = source if isinstance(source, Op) else new.producer(source)
    if o is None or depth == 0 or (o not in ARITHMETIC and o.op != "BatchNormalization"):
        return None
    x, *others = o.inputs
    if o.op == "BatchNormalization":
        scale, shift, mean, variance = (v.const if v is not None else None for v in others)
        if x is None or scale is None or shift is None or mean is None or variance is None:
            return None
        if o["epsilon"] != 0.0 or mean.any() or (variance != 1).any():
            return None
        return x, scale.astype(np.float64), shift.astype(np.float64), 2
    affine = scale_and_shift(o)
    if affine is None:
        return None
    x, scale, shift = affine
    inner = _affine(new, x, depth - 1)
    if inner is None:
        return x, scale, shift, 1
    return inner[0], inner[1] * scale, inner[2] * scale + shift, inner[3] + 1


def scale_and_shift(o: Op) -> tuple[Value, Array, Array] | None:
    """Return (x, scale, shift) where an Add, Sub, Mul or Div is x * scale + shift with constants per channel.

    Scale and shift are float64 arrays of shape (C,).
    """
    a, b = o.inputs
    if o.op in ("Add", "Mul") and a is not None and a.const is not None:
        a, b = b, a
    shape = o.outputs[0].shape
    if a is None or a.const is not None or a.shape != shape:
        return None
    c = per_channel(b, shape)
    if c is None or (o.op == "Div" and not c.all()):
        return None
    one, zero = np.ones_like(c), np.zeros_like(c)
    if o.op in ("Add", "Sub"):
        return a, one, c if o.op == "Add" else -c
    return a, (c if o.op == "Mul" else one / c), zero


@rule(
    *ARITHMETIC,
    targets=("onnxruntime",),
    kind="faster",
    stage="last",
    figure="x 96x55x55, us: (x - c) / d 105 -> 47, with three more operators 135 -> 44; OpenVINO fuses them "
    "itself",
)
def _affine_chain(new: Rewriter, o: Op) -> list[Value] | None:
    """Combine products and sums with constants, per channel or for all, into one BatchNormalization."""
    shape = o.outputs[0].shape
    if not new.is_float32(o) or len(shape) < 3 or np.prod(shape[2:]) < _FEWEST_CELLS or new.feeds_step(o):
        return None
    affine = _affine(new, o)
    if affine is None or not new.holds(affine[3] > 1, "no other product or sum with constants precedes it"):
        return None
    x, scale, shift, _ = affine
    largest = np.abs(shift).max()
    if not new.holds(largest <= _MAX_SHIFT, f"a shift of {largest:g} is larger than {_MAX_SHIFT:g}"):
        return None
    if not np.isfinite(scale).all():
        return None
    zero, one = np.zeros(shape[1], np.float32), np.ones(shape[1], np.float32)
    values = (scale.astype(np.float32), shift.astype(np.float32), zero, one)
    return new.emit(o, "BatchNormalization", [x, *map(new.constant, values)], epsilon=0.0)


@rule("Div", targets=("onnxruntime",), kind="faster", stage="last", figure="x / 7, x 96x55x55, us: 50 -> 35")
def _quotient(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute x / c by x * (1 / c)."""
    c = o.inputs[1]
    if not new.is_float32(o) or c is None or c.const is None or new.feeds_step(o):
        return None
    with np.errstate(all="ignore"):
        inverse = 1 / c.const
    smallest = np.finfo(np.float32).tiny
    if not (np.isfinite(inverse) & (np.abs(inverse) >= smallest)).all():
        return None
    return new.emit(o, "Mul", [o.inputs[0], new.constant(inverse)])


@rule(
    "Pow",
    targets=("onnxruntime", "openvino"),
    kind="faster",
    figure="x * (1 + x * x) ** -.75, x 96x55x55, us: ONNX Runtime 1432 -> 390, OpenVINO 1503 -> 186",
)
def _quarters(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute x to the power of a multiple of 1/4, at most 3, by products of x and of its square roots."""
    x, power = o.inputs[0], number(o.inputs[1])
    if not new.is_float32(o) or x is None or power is None or new.feeds_step(o) or x.shape != o.outputs[0].shape:
        return None
    quarters = abs(power) * 4
    if not 0 < quarters <= 12 or quarters != int(quarters) or (quarters % 4 == 0 and power > 0):
        return None
    whole, part = divmod(int(quarters), 4)
    factors = [x] * whole
    if part:
        root = new.step(o, "Sqrt", [x])
        factors += [root] if part >= 2 else []
        factors += [new.step(o, "Sqrt", [root])] if part % 2 else []
    total = factors[0]
    for factor in factors[1:]:
        total = new.step(o, "Mul", [total, factor])
    if power > 0:
        return [total]
    return new.emit(o, "Div", [new.constant(np.ones((), np.float32)), total])
