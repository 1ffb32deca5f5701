"""Sums along an axis, softmax, and L2 norms."""

from __future__ import annotations

import numpy as np

from anylayer.graph.facts import reduced_axes
from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static, reduced_shape
from anylayer.optimize.rules import Rewriter, rule

_FEWEST_COLUMNS = 100
"""The smallest number of elements after the axis for which a product with ones is faster than a sum."""
_MAX_AXIS_SIZE = 4096  # elements along the axis
_FEWEST_PAIRS = 200
"""The smallest number of pairs for which exponentials of their differences are faster than Softmax."""
_DIFFERENCES = np.array([[-1, 1], [1, -1]], np.float32)


@rule(
    *("ReduceSum", "ReduceMean"),
    targets=("onnxruntime",),
    kind="faster",
    figure="axis 1, us: 512x38x38 586 -> 63, 64x56x56 118 -> 28, 3x224x224 154 -> 35, 256x13x13 43 -> 16; "
    "OpenVINO no gain",
)
def _sum(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute a sum or mean along one axis, with many elements after it, by a MatMul with a constant row."""
    x, axes = o.inputs[0], reduced_axes(o)
    if not new.is_float32(o) or x is None or axes is None or len(axes) != 1:
        return None
    axis = axes[0]
    before, size, after = int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    if not 1 < size <= _MAX_AXIS_SIZE or after < _FEWEST_COLUMNS or not before:
        return None
    weight = 1 / size if o.op == "ReduceMean" else 1.0
    row = new.constant(np.full((1, size), weight, np.float32))
    table = new.reshape(o, x, (before, size, after))
    return new.result(o, new.step(o, "MatMul", [row, table], (before, 1, after)))


@rule("Div", targets=("caffe",), kind="must", stage="raise")
@rule(
    "Div",
    targets=("onnxruntime",),
    kind="faster",
    stage="raise",
    figure="us: 8x128x128 114 -> 41, 8732x21 330 -> 203, 8x1000 20 -> 15; OpenVINO finds it itself",
)
def _softmax(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute exp(x - max(x)) / sum(exp(x - max(x))) by Softmax; without max(x), along the last axis only."""
    e, power = o.inputs[0], new.operands(o.inputs[0], "Exp")
    total = _reduction(new, o.inputs[1], "ReduceSum")
    if not new.is_float32(o) or e is None or power is None or total is None or total[0] is not e:
        return None
    axes = total[1]
    if len(axes) != 1 or e.shape != o.outputs[0].shape:
        return None
    shifted = new.operands(power[0], "Sub")
    top = _reduction(new, shifted[1], "ReduceMax") if shifted is not None else None
    if shifted is not None and top == (shifted[0], axes):
        return new.emit(o, "Softmax", [shifted[0]], axis=axes[0])
    last = all(d == 1 for d in e.shape[axes[0] + 1 :])
    return new.emit(o, "Softmax", [power[0]], axis=axes[0]) if last else None


def _reduction(new: Rewriter, value: Value | None, op: str) -> tuple[Value, list[int]] | None:
    """Return (x, axes) where a value is the reduction `op` of x with kept axes, perhaps by a Reshape."""
    reshaped = new.operands(value, "Reshape")
    o = new.producer(reshaped[0] if reshaped is not None else value, op)
    if o is None or value is None or len(o.inputs) < 2:
        return None
    x, axes = o.first, reduced_axes(o)
    if axes is None or not is_static(x.shape):
        return None
    return (x, sorted(axes)) if value.shape == reduced_shape(x.shape, axes) else None


@rule(
    "Softmax",
    targets=("onnxruntime", "openvino"),
    kind="faster",
    stage="last",
    figure="us: 4320x2 on ONNX Runtime 44 -> 12, on OpenVINO 159 -> 14; 1000x2 13 -> 7, 46 -> 10",
)
def _softmax_of_pairs(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute the softmax of pairs (a, b) along the last axis as 1 / (1 + exp(b - a)) and 1 / (1 + exp(a - b))."""
    x, shape = o.inputs[0], o.outputs[0].shape
    last = o["axis"] in (-1, len(shape) - 1)
    if x is None or not last or not new.is_float32(o) or shape[-1] != 2 or np.prod(shape) < 2 * _FEWEST_PAIRS:
        return None
    return new.record(o, lambda both: 1 / (1 + np.exp(both @ _DIFFERENCES)), [x])


@rule("Sqrt", targets=("openvino",), kind="faster", figure="x / length over axis 1, x 96x55x55, us: 191 -> 148")
def _norm(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute sqrt(sum(x * x)) by ReduceL2."""
    total = new.producer(o.inputs[0], "ReduceSum")
    squares = new.operands(total.inputs[0], "Mul") if total is not None else None
    if not new.is_float32(o) or total is None or squares is None or squares[0] is not squares[1]:
        return None
    return new.emit(o, "ReduceL2", [squares[0], *total.inputs[1:]], **total.attrs)
