"""Normalization and fake quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axes_in, axes_of
from anylayer.layers._arrays import affine, standardize_groups
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SAME_SHAPE, SPECIFICATION, OpenVINOLayer


def _batch_norm(*inputs: Array, epsilon: float, opset: int) -> Array:
    need(len(inputs) == 5, f"takes 5 inputs, got {len(inputs)}")
    if opset >= 5:
        x, gamma, beta, mean, variance = inputs
    else:
        gamma, beta, x, mean, variance = inputs
    return ops.batch_normalization(x, gamma, beta, mean, variance, epsilon=epsilon)


def _lrn(x: Array, axes: Array, alpha: float, beta: float, bias: float, size: int) -> Array:
    over = axes_in(x, axes)
    need(size > 0, f"size must be positive, got {size}")
    if over == [1] and size % 2:
        return ops.lrn(x, size, alpha=alpha, beta=beta, bias=bias)
    total = x * x
    for axis in over:
        total = _window_sums(total, axis, size // 2)
    number = x.dtype.type
    return x / np.power(number(bias) + number(alpha / size ** len(over)) * total, number(beta))


def _window_sums(x: Array, axis: int, radius: int) -> Array:
    """Return the sums over windows along an axis, which reach `radius` cells to both sides."""
    places = np.arange(x.shape[axis])
    near = np.abs(places[:, None] - places) <= radius
    return np.moveaxis(np.moveaxis(x, axis, -1) @ near.astype(x.dtype), -1, axis)


def _mvn(
    x: Array,
    axes: Array | None = None,
    *,
    eps: float,
    eps_mode: str,
    normalize_variance: bool,
    across_channels: bool,
    reduction_axes: Any,
) -> Array:
    rank = len(x.shape)
    if axes is not None:
        over = axes_in(x, axes)
    elif reduction_axes:
        over = axes_of(reduction_axes, rank, "reduction_axes")
    else:
        over = list(range(1 if across_channels else 2, rank))
    apart = x - x.mean(axis=tuple(over), keepdims=True)
    if not normalize_variance:
        return apart
    small = x.dtype.type(eps)
    variance = (apart * apart).mean(axis=tuple(over), keepdims=True)
    return apart / (np.sqrt(variance + small) if eps_mode == "inside_sqrt" else np.sqrt(variance) + small)


def _normalize_l2(x: Array, axes: Array, eps: float, eps_mode: str) -> Array:
    over = tuple(axes_in(x, axes))
    square = (x * x).sum(axis=over, keepdims=True) if over else x * x
    small = x.dtype.type(eps)
    return x / np.sqrt(square + small if eps_mode == "add" else np.maximum(square, small))


def _group_norm(x: Array, scale: Array, bias: Array, num_groups: int, epsilon: float) -> Array:
    return affine(standardize_groups(x, num_groups, epsilon), scale, bias)


def _fake_quantize(
    x: Array, low: Array, high: Array, out_low: Array, out_high: Array, levels: int, auto_broadcast: str
) -> Array:
    need(levels >= 2, f"levels must be at least 2, got {levels}")
    need(auto_broadcast == "numpy", f"auto_broadcast '{auto_broadcast}' is not supported; supported: numpy")
    steps = x.dtype.type(levels - 1)
    width = high - low
    inside = np.round((x - low) / np.where(width == 0, x.dtype.type(1), width) * steps)
    y = inside / steps * (out_high - out_low) + out_low
    return np.where(x <= np.minimum(low, high), out_low, np.where(x > np.maximum(low, high), out_high, y))


operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "BatchNormInference": row(
            "Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta per channel.", _batch_norm,
            "BatchNormInference-1 and BatchNormInference-5",
            "x is (N, C, ...), the others are (C,). The inputs are gamma, beta, x, mean, variance up to opset4, "
            "and x, gamma, beta, mean, variance from opset5 on.",
            epsilon=attribute("double")),
        "LRN": row("Compute x / (bias + alpha / size^a * sum of squares)^beta over windows along `a` axes.", _lrn,
            "LRN-1", "The windows have `size` cells along each of the axes of the second input, a constant.",
            alpha=attribute("float"), beta=attribute("float"), bias=attribute("float", 1.0),
            size=attribute("int64")),
        "MVN": row("Subtract the mean and, with normalize_variance, divide by the standard deviation.", _mvn,
            "MVN-1, MVN-6",
            "From opset6 on the second input, a constant, gives the axes. Before, `across_channels` or "
            "`reduction_axes` do, and eps is added to the variance. From opset6 on, eps_mode states whether it is "
            "added to the variance or to the deviation.",
            eps=attribute("float"), eps_mode=attribute(Enum("inside_sqrt", "outside_sqrt"), "inside_sqrt"),
            normalize_variance=attribute("bool"), across_channels=attribute("bool", False),
            reduction_axes=attribute("int64", (), repeated=True)),
        "NormalizeL2": row(
            "Compute x / sqrt(s + eps) or x / sqrt(max(s, eps)), where s is the sum of squares along axes.",
            _normalize_l2, "NormalizeL2-1",
            "eps_mode add or max states which. The axes are a constant; without axes s is x * x.",
            eps=attribute("float"), eps_mode=attribute(Enum("add", "max"))),
        "GRN": row("Compute x / sqrt(sum of squares over channels + bias).",
            lambda x, bias: x / np.sqrt((x * x).sum(axis=1, keepdims=True) + x.dtype.type(bias)), "GRN-1",
            bias=attribute("float")),
        "GroupNormalization": row(
            "Normalize groups of channels to mean 0 and variance 1, then scale and shift each channel.",
            _group_norm, "GroupNormalization-12",
            "x is (N, C, ...), scale and bias are (C,). num_groups divides C.",
            num_groups=attribute("int64"), epsilon=attribute("double")),
        "FakeQuantize": row(
            "Round values between the input limits to `levels` steps, mapped to the output limits.",
            _fake_quantize, "FakeQuantize-1",
            "round((x - low) / (high - low) * (levels - 1)) / (levels - 1) * (out_high - out_low) + out_low; "
            "out_low for x <= low and out_high for x > high. The limits broadcast to x.",
            levels=attribute("int64"), auto_broadcast=attribute(Enum("numpy", "none", "pdpd"), "numpy")),
    },
)  # fmt: skip
