"""Softmax and reductions."""

from __future__ import annotations

import math
from typing import Any

from anylayer.graph import Op
from anylayer.graph.facts import reduced_axes
from anylayer.writers.caffe.affine import power
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.views import BlobView


def _softmax(b: CaffeBuilder, op: Op) -> None:
    view = b.view(op.inputs[0])
    axis = int(op["axis"]) % len(view.shape)
    (x,), axes = b.blobs_and_axes(view)
    blob_axis = axes[axis]
    y = b.add("Softmax", [x], x.base, {"softmax_param": {"axis": blob_axis} if blob_axis != 1 else {}})
    if op.op == "LogSoftmax":
        y = b.add("Log", [y], y.base)
    b.set_view(op.outputs[0], y.transposed(axes))


def _reduce(b: CaffeBuilder, op: Op) -> None:
    """Add the layers of a reduction, on the blob itself where the value is a permutation of it."""
    reduced = reduced_axes(op)
    if reduced is None:
        raise b.refusal("no axes that are computed when the network runs")
    (x,), axes = b.blobs_and_axes(b.view(op.inputs[0]))
    blob_axes = sorted(axes[a] for a in reduced)
    kept = tuple(1 if i in blob_axes else n for i, n in enumerate(x.base))
    b.set_view(op.outputs[0], reduce_axes(b, op.op, x, blob_axes).reshaped(kept).transposed(axes))


def reduce_axes(b: CaffeBuilder, what: str, x: BlobView, axes: list[int]) -> BlobView:
    """Reduce a blob along sorted axes by operator `what`. The axes are removed or have size 1 in the result.

    Reduction does it for trailing axes, otherwise Pooling over consecutive ones.
    """
    b.need(axes, "no reduction of a scalar")
    kind = what.removeprefix("Reduce")
    if kind == "Min":
        negative = power(b, x, scale=-1, suffix="flipped")
        return power(b, b.materialized(reduce_axes(b, "ReduceMax", negative, axes)), scale=-1)
    if kind == "L2":
        return power(b, b.materialized(reduce_axes(b, "ReduceSumSquare", x, axes)), exponent=0.5, suffix="root")
    count = math.prod(x.base[a] for a in axes)
    rank = len(x.base)
    is_plane = rank == 4 and axes == [2, 3] and kind in ("Mean", "Sum")
    if axes == list(range(axes[0], rank)) and kind != "Max" and not is_plane and b.dialect.has("Reduction"):
        operation = {"Mean": "MEAN", "Sum": "SUM", "SumSquare": "SUMSQ", "L1": "ASUM"}[kind]
        params: dict[str, Any] = {} if operation == "SUM" else {"operation": operation}
        params |= {"axis": axes[0]} if axes[0] else {}
        return b.add("Reduction", [x], x.base[: axes[0]], {"reduction_param": params})
    if kind == "SumSquare":
        x, kind = power(b, x, exponent=2.0, suffix="squares"), "Sum"
    if kind == "L1":
        x, kind = b.add("AbsVal", [x], x.base, suffix="abs"), "Sum"
    b.need(axes[0] > 0, "no reduction along the batch")
    b.need(
        axes == list(range(axes[0], axes[-1] + 1)), f"no reduction along axes {axes}, which are not consecutive"
    )
    before, after = math.prod(x.base[1 : axes[0]]), math.prod(x.base[axes[-1] + 1 :])
    shape: tuple[int, ...] = (x.base[0], before, count, after)
    pool: dict[str, Any] = {"pool": "MAX" if kind == "Max" else "AVE"}
    if rank == 4 and axes == [2, 3]:
        pool["global_pooling"] = True
        y = b.add("Pooling", [x], (*x.base[:2], 1, 1), {"pooling_param": pool})
    else:
        flat = b.materialized(x.reshaped(shape))
        pool |= {"kernel_h": count, "kernel_w": 1}
        y = b.add("Pooling", [flat], (x.base[0], before, 1, after), {"pooling_param": pool})
    return power(b, y, scale=float(count), suffix="sum") if kind == "Sum" else y


REDUCTIONS: dict[str, CaffeLowering] = {
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    **{f"Reduce{kind}": _reduce for kind in ("Mean", "Sum", "Max", "Min", "SumSquare", "L1", "L2")},
}
