"""Sums over an inner axis, and softmax."""

from __future__ import annotations

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.optimize.rewrites.matching import axes_reduced, ints, last, made, plain, reshaped, step
from anylayer.optimize.simplify import Rewriter, rule

_FEWEST = 100  # numbers in a row from which on a product with ones is faster than a sum
_MOST = 4096


@rule(
    "ReduceSum",
    "ReduceMean",
    engines=("onnxruntime",),
    inexact=True,
    figure="axis 1, us: 512x38x38 586 -> 63, 64x56x56 118 -> 28, 3x224x224 154 -> 35, 256x13x13 43 -> 16; "
    "OpenVINO no gain",
)
def _sum(new: Rewriter, o: Op) -> list[Value] | None:
    """A sum over one axis with a long row behind it is a row of ones times the array."""
    x, axes = o.inputs[0], ints(o.inputs[1]) if len(o.inputs) > 1 else None
    if not plain(o) or x is None or axes is None or len(axes) != 1:
        return None
    axis = axes[0] % len(x.shape)
    before, size, behind = int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    if not 1 < size <= _MOST or behind < _FEWEST or not before:
        return None
    weight = 1 / size if o.op == "ReduceMean" else 1.0
    row = new.constant(np.full((1, size), weight, np.float32))
    table = reshaped(new, o, x, (before, size, behind))
    return last(new, o, step(new, o, "MatMul", [row, table], (before, 1, behind)))


@rule(
    "Div",
    engines=("onnxruntime",),
    inexact=True,
    figure="us: 8x128x128 114 -> 41, 8732x21 330 -> 203, 8x1000 20 -> 15; OpenVINO finds it itself; "
    "inner axes do not pay",
)
def _softmax(new: Rewriter, o: Op) -> list[Value] | None:
    """exp(x - max(x)) / sum(exp(x - max(x))) over the last axis is Softmax, also without the maximum."""
    e, power = o.inputs[0], made(new, o.inputs[0], "Exp")
    total = axes_reduced(new, o.inputs[1], "ReduceSum")
    if not plain(o) or e is None or power is None or total is None or total[0] is not e:
        return None
    axes = total[1]
    if len(axes) != 1 or any(d != 1 for d in e.shape[axes[0] + 1 :]) or e.shape != o.outputs[0].shape:
        return None
    moved = made(new, power[0], "Sub")
    top = axes_reduced(new, moved[1], "ReduceMax") if moved is not None else None
    x = moved[0] if moved is not None and top == (moved[0], axes) else power[0]
    return new.emit(o, "Softmax", [x], axis=axes[0])


@rule("Sqrt", engines=("openvino",), inexact=True, figure="x / length over axis 1, x 96x55x55, us: 191 -> 148")
def _length(new: Rewriter, o: Op) -> list[Value] | None:
    """sqrt(sum(x * x)) is ReduceL2."""
    total = new.maker(o.inputs[0], "ReduceSum")
    squares = made(new, total.inputs[0], "Mul") if total is not None else None
    if not plain(o) or total is None or squares is None or squares[0] is not squares[1]:
        return None
    return new.emit(o, "ReduceL2", [squares[0], *total.inputs[1:]], **total.attrs)
