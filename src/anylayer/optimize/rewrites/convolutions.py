"""Operators around convolutions and matrix products: scales and shifts per channel become weights, Pad becomes
padding, means over maps become GlobalAveragePool, crops become less padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.graph.facts import padding_of, reduced_axes, slice_cuts, window_of
from anylayer.graph.ir import Op, Value
from anylayer.network import Array
from anylayer.optimize.rewrites.scaling import scale_and_shift
from anylayer.optimize.rules import F4, Rewriter, rule


def _normalization(o: Op) -> tuple[Value, Array, Array] | None:
    """Return (x, scale, shift) where an operator is a BatchNormalization of x with constant statistics."""
    x, *others = o.inputs
    constants = [v.const.astype(np.float64) for v in others if v is not None and v.const is not None]
    if x is None or len(constants) != 4 or o["training_mode"]:
        return None
    scale, bias, mean, variance = constants
    factor = scale / np.sqrt(variance + o["epsilon"])
    return x, factor, bias - mean * factor


@rule(
    *("BatchNormalization", "Mul", "Div", "Add", "Sub"),
    kind="faster",
    figure="saves a pass over the array; engines that do so themselves compile faster",
)
def _into_weights(new: Rewriter, o: Op) -> list[Value] | None:
    """Fold a scale and a shift per channel into the convolution or product before them, if its only use."""
    if not new.is_float32(o):
        return None
    affine = _normalization(o) if o.op == "BatchNormalization" else scale_and_shift(o)
    product = new.producer(affine[0]) if affine is not None else None
    if affine is None or product is None:
        return None
    _, scale, shift = affine
    weights = _weights(product)
    if weights is None or not new.has_one_use(affine[0]):
        return None
    if not new.holds(bool(np.isfinite(scale).all()), "a scale is infinite or NaN"):
        return None
    array, scale_shape = weights
    bias = product.input(2)
    constant = bias is None or (bias.const is not None and bias.shape == scale.shape)
    if not new.holds(constant, f"{product.op} before it adds something else than one constant per channel"):
        return None
    kernel = product.inputs[1] if (scale == 1).all() else new.constant(_scale(array, scale, scale_shape))
    total = shift if bias is None or bias.const is None else bias.const * scale + shift
    op = "Gemm" if product.op == "MatMul" and total.any() else product.op
    inputs = [product.inputs[0], kernel]
    if total.any():
        inputs.append(new.constant(np.asarray(total, np.float32)))
    return new.emit(o, op, inputs, **product.attrs)


def _weights(product: Op) -> tuple[Array, tuple[int, ...]] | None:
    """Return the constant weights, and the shape in which one number per output channel multiplies them."""
    weights = product.input(1)
    if weights is None or weights.const is None or weights.dtype != F4:
        return None
    array = weights.const
    if product.op == "Conv":
        return array, (-1, *(1,) * (array.ndim - 1))
    if product.op == "ConvTranspose":
        return array, (product["group"], 1, -1, *(1,) * (array.ndim - 2))
    if product.op == "MatMul" and array.ndim == 2 and len(product.outputs[0].shape) == 2:
        return array, (1, -1)
    if product.op == "Gemm" and not set(product.attrs) - {"transB"}:
        return array, ((-1, 1) if product["transB"] else (1, -1))
    return None


def _scale(array: Array, scale: Array, shape: tuple[int, ...]) -> Array:
    factors = scale.astype(np.float32).reshape(shape)
    grouped = array.reshape(shape[0], -1, *array.shape[1:]) if len(shape) > array.ndim else array
    return np.asarray(grouped * factors).reshape(array.shape)


# ---------------------------------------------------------------------------------------- padding


def _padding(new: Rewriter, value: Value | None) -> tuple[Value, list[int], float] | None:
    """Return (x, pads, fill) where a value is x padded with a constant along its spatial axes only."""
    pad = new.producer(value, "Pad")
    if pad is None or pad["mode"] != "constant" or not new.is_float32(pad):
        return None
    x, padding = pad.inputs[0], padding_of(pad)
    if x is None or padding is None or len(x.shape) < 3:
        return None
    begins, ends, fill = padding
    if min(*begins, *ends) < 0 or any((*begins[:2], *ends[:2])):
        return None
    return x, [*begins[2:], *ends[2:]], fill


def _with_more_pads(o: Op, more: list[int]) -> dict[str, Any] | None:
    """Return an operator's attributes with padding added."""
    windows = window_of(o)
    return None if windows is None else {**o.attrs, "pads": [a + b for a, b in zip(windows.pads, more)]}


@rule("Conv", figure="saves a pass over the array")
def _pad_and_conv(new: Rewriter, o: Op) -> list[Value] | None:
    """Fold a Pad with zeros into the padding of the Conv after it."""
    padding = _padding(new, o.inputs[0])
    attrs = _with_more_pads(o, padding[1]) if padding is not None else None
    if padding is None or attrs is None or padding[2] != 0:
        return None
    return new.emit(o, "Conv", [padding[0], *o.inputs[1:]], **attrs)


@rule("AveragePool", figure="saves a pass over the array")
def _pad_and_average(new: Rewriter, o: Op) -> list[Value] | None:
    """Fold a Pad with zeros into the AveragePool after it, which then includes its padding in the mean."""
    padding = _padding(new, o.inputs[0])
    counted = o["count_include_pad"] or not any(o["pads"] or [0])
    if padding is None or padding[2] != 0 or not counted or o["ceil_mode"]:
        return None
    attrs = _with_more_pads(o, padding[1])
    if attrs is None or not _covers_cells(attrs):
        return None
    return new.emit(o, "AveragePool", [padding[0]], **{**attrs, "count_include_pad": 1})


@rule("MaxPool", figure="saves a pass over the array")
def _pad_and_max(new: Rewriter, o: Op) -> list[Value] | None:
    """Fold a Pad into the padding of the MaxPool after it, if the added elements are never the maximum: minus
    infinity, or zeros around values that are not negative."""
    padding = _padding(new, o.inputs[0])
    if padding is None or len(o.outputs) != 1 or o["ceil_mode"] or any(o["pads"] or [0]):
        return None
    x, pads, fill = padding
    if fill > np.finfo(np.float32).min and not (fill == 0 and new.intervals.lowest(x) >= 0):
        return None
    attrs = _with_more_pads(o, pads)
    return new.emit(o, "MaxPool", [x], **attrs) if attrs is not None and _covers_cells(attrs) else None


def _covers_cells(attrs: dict[str, Any]) -> bool:
    """Return whether each window covers a cell that is not padding."""
    return all(p < k for p, k in zip(attrs["pads"], attrs["kernel_shape"] * 2)) and not any(
        d != 1 for d in attrs.get("dilations") or [1]
    )


# ------------------------------------------------------------------------------------------ means


@rule("ReduceMean", kind="faster", figure="has the layout of the convolutions around it")
def _mean_of_map(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute the mean over the spatial axes of (N, C, H, W) by GlobalAveragePool."""
    x, axes = o.inputs[0], reduced_axes(o)
    if x is None or axes is None or not new.is_float32(o) or len(x.shape) != 4 or sorted(axes) != [2, 3]:
        return None
    return new.result(o, new.step(o, "GlobalAveragePool", [x], (*x.shape[:2], 1, 1)))


@rule("Add", kind="must", targets=("dv", "pytorch"), stage="raise")
def _linear(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute x @ matrix + bias with a constant matrix and one constant number per column by Gemm."""
    for sums, bias in (o.inputs, o.inputs[::-1]):
        product = new.operands(sums, "MatMul")
        if product is None or product[1].const is None or bias is None or bias.const is None:
            continue
        if product[1].const.ndim == 2 and bias.shape == product[1].shape[1:]:
            return new.emit(o, "Gemm", [*product, bias])
    return None


@rule("Slice", figure="saves a pass over the array")
def _cropped(new: Rewriter, o: Op) -> list[Value] | None:
    """Fold a crop of a Conv's output into the Conv's padding."""
    conv, cuts = new.producer(o.inputs[0], "Conv"), slice_cuts(o)
    windows = window_of(conv) if conv is not None else None
    if conv is None or windows is None or o.inputs[0] is None or cuts is None or not new.is_float32(o):
        return None
    if set(windows.strides) != {1} or not new.has_one_use(o.inputs[0]):
        return None
    shape = o.inputs[0].shape
    pads = windows.pads
    for axis, start, stop, step in cuts:
        if axis < 2 or step != 1 or start >= stop:
            return None
        pads[axis - 2] -= start
        pads[axis - 2 + len(shape) - 2] -= shape[axis] - stop
    if min(pads) < 0:
        return None
    return new.emit(o, "Conv", conv.inputs, **{**conv.attrs, "pads": pads})
