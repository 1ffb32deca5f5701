"""Transposes that sink through the operator after them, or vanish in a reduction."""

from __future__ import annotations

import numpy as np

from anylayer.graph.facts import padding_of, reduced_axes
from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.optimize.rules import Rewriter, rule


@rule("Add", "Sub", "Mul", "Div", figure="saves a Transpose")
def _below_binary(new: Rewriter, o: Op) -> list[Value] | None:
    """Transpose the result of an elementwise operator instead of both operands."""
    transposes = [new.producer(v, "Transpose") for v in o.inputs]
    first, second = transposes[0], transposes[-1]
    if first is None or second is None or first.attrs != second.attrs:
        return None
    a, b = first.inputs[0], second.inputs[0]
    if a is None or b is None or a.shape != b.shape or not is_static(a.shape):
        return None
    return new.emit(o, "Transpose", [new.step(o, o.op, [a, b], a.shape)], **first.attrs)


@rule(
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"),
    targets=("onnxruntime", "openvino"),
    kind="faster",
    figure="einsum('nchw,nchw->nhw', x, x), x 64x26x26, us: OpenVINO 62 -> 32, ONNX Runtime 42 -> 16 (a sum "
    "over axis 1)",
)
def _reduced_transpose(new: Rewriter, o: Op) -> list[Value] | None:
    """Reduce along the axes before a Transpose, if the axes that are left keep their order."""
    transpose, axes = new.producer(o.inputs[0], "Transpose"), reduced_axes(o)
    if transpose is None or axes is None or len(o.inputs) < 2 or o["keepdims"]:
        return None
    perm = [int(p) for p in transpose["perm"]]
    moved = [perm[a] for a in axes]
    left = [p for p in perm if p not in moved]
    if left != sorted(left):
        return None
    return new.emit(o, o.op, [transpose.inputs[0], new.constant(np.array(sorted(moved), np.int64))], **o.attrs)


@rule("Transpose", figure="transposes fewer elements; a convolution after it can fold the Pad")
def _before_pad(new: Rewriter, o: Op) -> list[Value] | None:
    """Transpose before a Pad instead of after it, if the padded array has no other use."""
    pad = new.producer(o.first, "Pad")
    if pad is None or not new.has_one_use(o.first):
        return None
    x, padding, perm = pad.first, padding_of(pad), [int(p) for p in o["perm"]]
    if padding is None or len(pad.inputs) > 3 or not is_static(x.shape):
        return None
    moved = new.step(o, "Transpose", [x], [x.shape[p] for p in perm], x.dtype, perm=perm)
    pads = np.array([*(padding.begins[p] for p in perm), *(padding.ends[p] for p in perm)], np.int64)
    return new.emit(o, "Pad", [moved, new.constant(pads), *pad.inputs[2:]], **pad.attrs)
