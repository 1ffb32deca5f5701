"""Add layers that multiply and add: Power, Scale, Bias, Eltwise, Tile. Fold a sum into the layer before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.network import Array
from anylayer.writers.caffe.builder import CaffeBuilder
from anylayer.writers.caffe.layers import CaffeLayer
from anylayer.writers.caffe.materialize import axis_field
from anylayer.writers.caffe.views import BlobView, with_size


def apply_to_blob(b: CaffeBuilder, view: BlobView, make: Callable[[BlobView], BlobView]) -> BlobView:
    """Apply elementwise layers to the blob that a view rearranges, so that the result is a view, too.

    make: adds the layers to a view and returns the result. A view that does more than rearrange the elements is
    materialized first.
    """
    view = b.rearrangement(view)
    result = make(BlobView(view.name, view.base))
    return BlobView(result.name, result.base, view.steps)


def tile(b: CaffeBuilder, x: BlobView, axis: int, times: int, suffix: str = "") -> BlobView:
    """Add a Tile: repeat a blob along an axis."""
    params = {"tile_param": {**axis_field(axis), "tiles": int(times)}}
    return b.add("Tile", [x], with_size(x.base, axis, times * x.base[axis]), params, suffix=suffix)


def power(
    b: CaffeBuilder,
    x: BlobView,
    *,
    scale: float = 1.0,
    shift: float = 0.0,
    exponent: float = 1.0,
    suffix: str = "",
) -> BlobView:
    """Add a Power: (shift + scale * x) ** exponent."""
    fields = {"power": (exponent, 1.0), "scale": (scale, 1.0), "shift": (shift, 0.0)}
    params = {name: value for name, (value, default) in fields.items() if value != default}
    return b.add("Power", [x], x.base, {"power_param": params}, suffix=suffix)


def relu(b: CaffeBuilder, x: BlobView, slope: float = 0.0, suffix: str = "") -> BlobView:
    """Add a ReLU: max(x, 0) + slope * min(x, 0)."""
    return b.add("ReLU", [x], x.base, {"relu_param": {"negative_slope": slope} if slope else {}}, suffix=suffix)


def eltwise(
    b: CaffeBuilder, xs: Sequence[BlobView], operation: str, coeff: Sequence[float] = (), suffix: str = ""
) -> BlobView:
    """Add an Eltwise: the PROD, SUM or MAX of blobs of one shape. `coeff` are factors of a SUM.

    Where the dialect reads no factors, the blobs are multiplied before. Where it reads two inputs only, several
    Eltwise are added.
    """
    if any(c != 1 for c in coeff) and not b.dialect.has_field("eltwise_param", "coeff"):
        scaled = (x if c == 1 else power(b, x, scale=float(c), suffix="scaled") for x, c in zip(xs, coeff))
        xs, coeff = list(scaled), ()
    while operation in b.dialect.in_pairs and len(xs) > 2:
        xs = [eltwise(b, xs[:2], operation, suffix="part"), *xs[2:]]
    params: dict[str, Any] = {} if operation == "SUM" else {"operation": operation}
    if any(c != 1 for c in coeff):
        params["coeff"] = [float(c) for c in coeff]
    return b.add("Eltwise", xs, xs[0].shape, {"eltwise_param": params}, suffix=suffix)


def scale_and_shift(
    b: CaffeBuilder, x: BlobView, scale: Array | None, shift: Array | None, *, suffix: str = ""
) -> BlobView:
    """Add the layer for x * scale + shift, or fold a sum into the layer that produces x.

    `scale` and `shift` have x's rank and size 1 along the axes on which they do not vary; None omits one.
    """
    if _fold_into_normalize(b, x, scale, shift):
        return x
    parts = [p for p in (scale, shift) if p is not None]
    varies = sorted({i for p in parts for i, n in enumerate(p.shape) if n > 1})
    if not varies:
        numbers = [None if p is None else float(p.reshape(-1)[0]) for p in (scale, shift)]
        merged = _fold_into_power(b, x, *numbers)
        return merged or power(
            b, x, scale=1.0 if numbers[0] is None else numbers[0], shift=numbers[1] or 0.0, suffix=suffix
        )
    first, last = varies[0], varies[-1]
    shape = x.base[first : last + 1]
    full = [
        None if p is None else np.broadcast_to(p, (*p.shape[:first], *shape, *p.shape[last + 1 :]))
        for p in (scale, shift)
    ]
    flat = [None if p is None else np.ascontiguousarray(p).reshape(shape) for p in full]
    merged = _fold_into_bias(b, x, first, *flat) if len(shape) == 1 else None
    if merged is not None:
        return merged
    return _affine(b, x, first, shape, flat, suffix)


def _affine(
    b: CaffeBuilder, x: BlobView, axis: int, shape: Sequence[int], parts: list[Array | None], suffix: str
) -> BlobView:
    """Add a Bias, Scale or depthwise 1 x 1 Convolution. It multiplies x by scale, and adds shift.

    parts: (scale, shift), each an array of `shape`, or None. Their first axis belongs to axis `axis` of x.
    """
    scale, shift = parts
    where = axis_field(axis) | ({"num_axes": len(shape)} if len(shape) != 1 else {})
    if scale is None and shift is not None and b.dialect.has("Bias"):
        return b.add("Bias", [x], x.base, {"bias_param": where}, [shift], suffix=suffix)
    if b.dialect.has("Scale"):
        blobs = [np.ones(shape, np.float32) if scale is None else scale]
        if shift is not None:
            where["bias_term"] = True
            blobs.append(shift)
        return b.add("Scale", [x], x.base, {"scale_param": where}, blobs, suffix=suffix)
    b.need(axis == 1 and len(shape) == 1 and len(x.base) == 4, "no Scale; only maps can be scaled, per channel")
    channels = x.base[1]
    ones = np.ones(channels, np.float32) if scale is None else scale
    params: dict[str, Any] = {"num_output": channels, "kernel_size": 1}
    params |= {"group": channels} if channels > 1 else {}
    params |= {"bias_term": False} if shift is None else {}
    blobs = [ones.reshape(-1, 1, 1, 1), *([] if shift is None else [shift])]
    return b.add("Convolution", [x], x.base, {"convolution_param": params}, blobs, suffix=suffix)


def _mergeable_producer(b: CaffeBuilder, x: BlobView, *types: str) -> CaffeLayer | None:
    """Return the layer that produces x if it has one of these types and the sum is the only use of x."""
    layer = b.producer(x, *types)
    return layer if layer is not None and x.name in b.mergeable else None


def _fold_into_normalize(b: CaffeBuilder, x: BlobView, scale: Array | None, shift: Array | None) -> bool:
    """Fold factors of the channels into the Normalize before it. Return whether that was possible."""
    layer = _mergeable_producer(b, x, "Normalize")
    if layer is None or scale is None or shift is not None or scale.size not in (1, scale.shape[1]):
        return False
    layer.blobs[0] = layer.blobs[0] * scale.reshape(-1)
    return True


def _fold_into_power(b: CaffeBuilder, x: BlobView, scale: float | None, shift: float | None) -> BlobView | None:
    """Fold a sum into the Power before it, if that has the exponent 1. Return x, or None."""
    layer = _mergeable_producer(b, x, "Power")
    if layer is None or scale is not None or shift is None:
        return None
    values = layer.params.setdefault("power_param", {})
    if "power" in values:
        return None
    values["shift"] = values.get("shift", 0.0) + shift
    return x


def _fold_into_bias(
    b: CaffeBuilder, x: BlobView, axis: int, scale: Array | None, shift: Array | None
) -> BlobView | None:
    """Make a sum the bias of the layer before it, if that has none. Return x, or None."""
    layer = _mergeable_producer(b, x, "Scale", "InnerProduct", "Convolution", "Deconvolution")
    if layer is None or scale is not None or shift is None:
        return None
    message = {"Scale": "scale_param", "InnerProduct": "inner_product_param"}.get(layer.type, "convolution_param")
    values = layer.params.get(message, {})
    if len(layer.blobs) != 1:
        return None
    fits = layer.blobs[0].shape == shift.shape if layer.type == "Scale" else values.get("bias_term") is False
    if values.get("axis", 1) != axis or not fits or len(layer.bottoms) != 1:
        return None
    if layer.type == "InnerProduct" and axis != len(x.base) - 1:
        return None
    if layer.type == "Scale":
        values = {**values, "bias_term": True}
    else:
        values = {k: v for k, v in values.items() if k != "bias_term"}
    layer.params[message] = values
    layer.blobs.append(shift)
    return x


def tile_to_shape(b: CaffeBuilder, x: BlobView, shape: Sequence[int]) -> BlobView:
    """Broadcast x to `shape` by Tile layers along its axes of size 1."""
    x = b.materialized(x)
    if x.base == tuple(shape):
        return x
    lead = (1,) * (len(shape) - len(x.base))
    x = b.materialized(x.reshaped((*lead, *x.base)))
    for axis, n in enumerate(shape):
        if x.base[axis] != n:
            x = tile(b, x, axis, n, "tile")
    return x
