"""Batch normalisation, local response normalisation, and normalisation by length."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.graph import Op
from anylayer.network import Array
from anylayer.writers.caffe.affine import power, scale_and_shift
from anylayer.writers.caffe.binary import eltwise_of_views
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.reductions import reduce_axes
from anylayer.writers.caffe.views import BlobView

_ALMOST_ZERO = 1e-30
"""Added to a sum to make the quotient of a vector of zeros 0. It leaves any other float32 sum as it is."""


def _batch_norm(b: CaffeBuilder, op: Op) -> None:
    """Fold the normalisation into the layer before it, or add BatchNorm and Scale; see CaffeBuilder for the
    options."""
    refused = "no batch normalisation with computed statistics"
    scale, shift, mean, var = (b.given(b.const_array(v), refused) for v in op.inputs[1:5])
    epsilon = float(op["epsilon"])
    x = b.materialized(op.inputs[0])
    shape = (1, -1, *(1,) * (len(x.base) - 2))
    factor = (scale / np.sqrt(var + np.float32(epsilon))).astype(np.float32)
    offset = (shift - mean * factor).astype(np.float32)
    if b.fold and b.has_one_consumer(op.inputs[0]) and _fold_into_weights(b, x, factor, offset):
        b.set_view(op.outputs[0], x)
        return
    if b.fold or not b.dialect.has("BatchNorm"):
        b.set_view(op.outputs[0], scale_and_shift(b, x, factor.reshape(shape), offset.reshape(shape)))
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
    b.set_view(op.outputs[0], y)


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


def _lrn(b: CaffeBuilder, op: Op) -> None:
    """Add an LRN across channels: x / (k + alpha / size * (sum of x ** 2 over `size` channels)) ** beta."""
    x = b.materialized(op.inputs[0])
    alpha, beta, k = (float(op[name]) for name in ("alpha", "beta", "bias"))
    size = int(op["size"])
    b.need(size % 2, f"no LRN over {size} channels, only over an odd number")
    params: dict[str, Any] = {"local_size": size, "alpha": alpha, "beta": beta}
    if b.dialect.name == "opencv" and k != 1:  # OpenCV ignores k: factor it out of the power
        params["alpha"] = alpha / k
        y = b.add("LRN", [x], x.base, {"lrn_param": params})
        b.set_view(op.outputs[0], power(b, y, scale=k**-beta, suffix="k"))
        return
    params |= {"k": k} if k != 1 else {}
    b.set_view(op.outputs[0], b.add("LRN", [x], x.base, {"lrn_param": params}))


def _lp_normalization(b: CaffeBuilder, op: Op) -> None:
    """Divide by the length along axes: by Ascend's Normalize if it can, else by a reduction and a product.

    patterns.py spells lengths that are computed by several operators with `axes` and `epsilon`, which is added to
    the sum of squares.
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
        b.set_view(op.outputs[0], y.reshaped(x.base).transposed(axes))
        return
    total = b.materialized(reduce_axes(b, "ReduceSumSquare" if squares else "ReduceL1", x, along))
    factor = power(b, total, shift=epsilon, exponent=-0.5 if squares else -1.0, suffix="inverse")
    kept = tuple(1 if i in along else n for i, n in enumerate(x.base))
    eltwise_of_views(b, op, [view, factor.reshaped(kept).transposed(axes)], "PROD", ())


NORMALIZATION: dict[str, CaffeLowering] = {
    "BatchNormalization": _batch_norm,
    "LRN": _lrn,
    "LpNormalization": _lp_normalization,
}
"""ONNX operator -> the function that adds its layers."""
