"""Transpositions put off until they meet a sum that needs none."""

from __future__ import annotations

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.optimize.rewrites.matching import ints, step
from anylayer.optimize.simplify import Rewriter, rule


@rule("Add", "Sub", "Mul", "Div", figure="a transposition less")
def _later(new: Rewriter, o: Op) -> list[Value] | None:
    """Of two arrays transposed alike the sum, product and so on is transposed instead."""
    makers = [new.maker(v, "Transpose") for v in o.inputs]
    first, second = makers[0], makers[-1]
    if first is None or second is None or first.attrs != second.attrs:
        return None
    a, b = first.inputs[0], second.inputs[0]
    if a is None or b is None or a.shape != b.shape or not is_static(a.shape):
        return None
    return new.emit(o, "Transpose", [step(new, o, o.op, [a, b], a.shape)], **first.attrs)


@rule(
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    engines=("onnxruntime", "openvino"),
    inexact=True,
    figure="einsum('nchw,nchw->nhw', x, x), x 64x26x26, us: OpenVINO 62 -> 32, ONNX Runtime 42 -> 16 (a sum "
    "over axis 1)",
)
def _sum_of_transposed(new: Rewriter, o: Op) -> list[Value] | None:
    """A sum over axes of a transposed array is one over axes of the array, where what is left keeps its order."""
    moved, axes = new.maker(o.inputs[0], "Transpose"), ints(o.inputs[1]) if len(o.inputs) > 1 else None
    if moved is None or axes is None or o.attrs.get("keepdims", 1):
        return None
    perm = [int(p) for p in moved.attrs["perm"]]
    gone = [perm[a] for a in axes]
    left = [p for p in perm if p not in gone]
    if left != sorted(left):
        return None
    return new.emit(o, o.op, [moved.inputs[0], new.constant(np.array(sorted(gone), np.int64))], **o.attrs)


@rule("Transpose", figure="a transposition of less; a convolution behind it pads itself")
def _before_padding(new: Rewriter, o: Op) -> list[Value] | None:
    """Of a padded array that nothing else reads what is in it is transposed, and then padded."""
    pad = new.maker(o.inputs[0], "Pad")
    if pad is None or pad.inputs[0] is None or o.inputs[0] is None or not new.read_once(o.inputs[0]):
        return None
    x, pads, perm = pad.inputs[0], ints(pad.inputs[1]), [int(p) for p in o.attrs["perm"]]
    if pads is None or len(pad.inputs) > 3 or not is_static(x.shape):
        return None
    moved = step(new, o, "Transpose", [x], [x.shape[p] for p in perm], x.dtype, perm=perm)
    sides = [pads[p + side] for side in (0, len(perm)) for p in perm]
    return new.emit(o, "Pad", [moved, new.constant(np.array(sides, np.int64)), *pad.inputs[2:]], **pad.attrs)
