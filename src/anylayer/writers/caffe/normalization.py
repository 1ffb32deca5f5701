"""Batch normalisation, local response normalisation, normalisation by length, Softmax and reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.graph import Op
from anylayer.graph.facts import reduced_axes
from anylayer.graph.sizes import reduced_shape
from anylayer.network import Array
from anylayer.writers.caffe.affine import power, scale_and_shift
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.elementwise import eltwise_of_views
from anylayer.writers.caffe.materialize import axis_field
from anylayer.writers.caffe.views import BlobView

_ALMOST_ZERO = 1e-30
"""Added to a sum to make the quotient of a vector of zeros 0. It leaves any other float32 sum as it is."""


def _batch_norm(b: CaffeBuilder, op: Op) -> BlobView:
    """Fold the normalisation into the layer before it, or add BatchNorm and Scale; see CaffeBuilder."""
    refused = "no batch normalisation with computed statistics"
    scale, shift, mean, var = (b.given(op.constant(i), refused) for i in (1, 2, 3, 4))
    epsilon = float(op["epsilon"])
    x = b.materialized(op.inputs[0])
    shape = (1, -1, *(1,) * (len(x.base) - 2))
    factor = (scale / np.sqrt(var + np.float32(epsilon))).astype(np.float32)
    offset = (shift - mean * factor).astype(np.float32)
    if b.fold and b.has_one_consumer(op.inputs[0]) and _fold_into_weights(b, x, factor, offset):
        return x
    if b.fold or not b.dialect.has("BatchNorm"):
        return scale_and_shift(b, x, factor.reshape(shape), offset.reshape(shape))
    params: dict[str, Any] = {"use_global_stats": True}
    stored = var
    if b.blog_compat:
        stored = (var + np.float32(epsilon)).astype(np.float32)
    elif epsilon != 1e-5:
        params["eps"] = epsilon
    blobs = [mean, stored, np.ones(1, np.float32)]
    y = b.add("BatchNorm", [x], x.base, {"batch_norm_param": params}, blobs)
    return b.add("Scale", [y], y.base, {"scale_param": {"bias_term": True}}, [scale, shift], suffix="_sc")


def _fold_into_weights(b: CaffeBuilder, x: BlobView, factor: Array, offset: Array) -> bool:
    """Fold x * factor + offset (per channel) into the layer that produces x. Return whether that was possible."""
    layer = b.producer(x, "Convolution", "InnerProduct", "Deconvolution")
    if layer is None or b.use_count(x.name):
        return False
    message = "inner_product_param" if layer.type == "InnerProduct" else "convolution_param"
    values = layer.params[message]
    if values.get("axis", 1) != 1:
        return False
    weights = layer.blobs[0]
    if layer.type == "Deconvolution":
        group = values.get("group", 1)
        per_group = factor.reshape(group, 1, -1, *(1,) * (weights.ndim - 2))
        split = weights.reshape(group, weights.shape[0] // group, *weights.shape[1:])
        layer.blobs[0] = (split * per_group).reshape(weights.shape)
    else:
        layer.blobs[0] = weights * factor.reshape(-1, *(1,) * (weights.ndim - 1))
    bias = layer.blobs[1] if len(layer.blobs) > 1 else np.zeros_like(offset)
    layer.blobs[1:] = [bias * factor + offset]
    layer.params[message] = {k: v for k, v in values.items() if k != "bias_term"}
    return True


def _lrn(b: CaffeBuilder, op: Op) -> BlobView:
    """Add an LRN across channels: x / (k + alpha / size * (sum of x ** 2 over `size` channels)) ** beta."""
    x = b.materialized(op.inputs[0])
    alpha, beta, k = (float(op[name]) for name in ("alpha", "beta", "bias"))
    size = int(op["size"])
    b.need(size % 2, f"no LRN over {size} channels, only over an odd number")
    params: dict[str, Any] = {"local_size": size, "alpha": alpha, "beta": beta}
    if b.dialect.name == "opencv" and k != 1:  # OpenCV ignores k: factor it out of the power
        params["alpha"] = alpha / k
        y = b.add("LRN", [x], x.base, {"lrn_param": params})
        return power(b, y, scale=k**-beta, suffix="k")
    params |= {"k": k} if k != 1 else {}
    return b.add("LRN", [x], x.base, {"lrn_param": params})


def _lp_normalization(b: CaffeBuilder, op: Op) -> BlobView:
    """Divide by the length along axes: by Ascend's Normalize if it can, else by a reduction and a product.

    ascend_rules.py spells lengths that are computed by several operators with `axes` and `epsilon`, which is added
    to the sum of squares.
    """
    view = b.view(op.inputs[0])
    (x,), axes = b.blobs_and_axes(view)
    rank = len(x.base)
    along = sorted(axes[int(a) % rank] for a in op.attrs.get("axes") or [op["axis"]])
    epsilon, squares = float(op.attrs.get("epsilon", _ALMOST_ZERO)), int(op["p"]) == 2
    if squares and b.dialect.name == "ascend" and 2 <= rank <= 4 and along in ([1], [*range(1, rank)]):
        maps = b.materialized(x.reshaped((*x.base, *(1,) * (4 - rank))))
        params = {"across_spatial": along != [1], "channel_shared": False, "eps": epsilon}
        y = b.add("Normalize", [maps], maps.base, {"norm_param": params}, [np.ones(x.base[1], np.float32)])
        return y.reshaped(x.base).transposed(axes)
    total = b.materialized(reduce_axes(b, "ReduceSumSquare" if squares else "ReduceL1", x, along))
    factor = power(b, total, shift=epsilon, exponent=-0.5 if squares else -1.0, suffix="inverse")
    factor = factor.reshaped(reduced_shape(x.base, along)).transposed(axes)
    return eltwise_of_views(b, op, [view, factor], "PROD")


# ---- along axes


def _softmax(b: CaffeBuilder, op: Op) -> BlobView:
    view = b.view(op.inputs[0])
    axis = int(op["axis"]) % len(view.shape)
    (x,), axes = b.blobs_and_axes(view)
    y = b.add("Softmax", [x], x.base, {"softmax_param": axis_field(axes[axis])})
    if op.op == "LogSoftmax":
        y = b.add("Log", [y], y.base)
    return y.transposed(axes)


def _reduce(b: CaffeBuilder, op: Op) -> BlobView:
    """Add the layers of a reduction, on the blob itself where the value is a permutation of it."""
    reduced = b.given(reduced_axes(op), "no axes that are computed when the network runs")
    (x,), axes = b.blobs_and_axes(b.view(op.inputs[0]))
    blob_axes = sorted(axes[a] for a in reduced)
    return reduce_axes(b, op.op, x, blob_axes).reshaped(reduced_shape(x.base, blob_axes)).transposed(axes)


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
    is_run = axes == list(range(axes[0], axes[-1] + 1))
    b.need(is_run, f"no reduction along axes {axes}, which are not consecutive")
    before, after = math.prod(x.base[1 : axes[0]]), math.prod(x.base[axes[-1] + 1 :])
    pool: dict[str, Any] = {"pool": "MAX" if kind == "Max" else "AVE"}
    if rank == 4 and axes == [2, 3]:
        pool["global_pooling"] = True
        y = b.add("Pooling", [x], (*x.base[:2], 1, 1), {"pooling_param": pool})
    else:
        flat = b.materialized(x.reshaped((x.base[0], before, count, after)))
        pool |= {"kernel_h": count, "kernel_w": 1}
        y = b.add("Pooling", [flat], (x.base[0], before, 1, after), {"pooling_param": pool})
    return power(b, y, scale=float(count), suffix="sum") if kind == "Sum" else y


NORMALIZATION: dict[str, CaffeLowering] = {
    "BatchNormalization": _batch_norm,
    "LRN": _lrn,
    "LpNormalization": _lp_normalization,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    **{f"Reduce{kind}": _reduce for kind in ("Mean", "Sum", "Max", "Min", "SumSquare", "L1", "L2")},
}
"""ONNX operator -> the function that adds its layers."""
