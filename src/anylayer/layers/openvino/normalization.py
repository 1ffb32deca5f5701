"""Normalization and fake quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, layer, need
from anylayer.layer.arguments import axes_of, integers
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import OpenVINOLayer
from anylayer.network import Array

EPS_MODE = Enum("add", "max")


@layer("BatchNormInference")
class BatchNormInference(OpenVINOLayer):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta per channel.

    x is (N, C, ...), the others are (C,). The inputs are gamma, beta, x, mean, variance up to opset4, and x,
    gamma, beta, mean, variance from opset5 on.
    Source: OpenVINO operation specification, BatchNormInference-1 and BatchNormInference-5.
    """

    epsilon: float = attribute("double")

    def forward(self, *inputs: Array) -> Array:
        need(len(inputs) == 5, f"takes 5 inputs, got {len(inputs)}")
        if self.opset >= 5:
            x, gamma, beta, mean, variance = inputs
        else:
            gamma, beta, x, mean, variance = inputs
        return ops.batch_normalization(x, gamma, beta, mean, variance, epsilon=self.epsilon)


@layer("LRN")
class LRN(OpenVINOLayer):
    """Compute x / (bias + alpha / size^a * sum of squares)^beta over windows along `a` axes.

    The output has the shape of x. The windows have `size` cells along each of the axes of the second input, a
    constant.
    Source: OpenVINO operation specification, LRN-1.
    """

    alpha: float = attribute("float")
    beta: float = attribute("float")
    bias: float = attribute("float", 1.0)
    size: int = attribute("int64")

    def forward(self, x: Array, axes: Array) -> Any:
        named = axes_of(integers(axes, "axes"), len(x.shape))
        need(self.size > 0, f"size must be positive, got {self.size}")
        if named == [1] and self.size % 2:
            return ops.lrn(x, self.size, alpha=self.alpha, beta=self.beta, bias=self.bias)
        total = x * x
        for axis in named:
            total = self.windows(total, axis)
        number = x.dtype.type
        scale = number(self.alpha / self.size ** len(named))
        return x / np.power(number(self.bias) + scale * total, number(self.beta))

    def windows(self, x: Array, axis: int) -> Array:
        """Return the sums over the windows along an axis."""
        n, low = x.shape[axis], self.size // 2
        places = np.arange(n)
        near = np.abs(places[:, None] - places) <= low
        return np.moveaxis(np.moveaxis(x, axis, -1) @ near.astype(x.dtype), -1, axis)


@layer("MVN")
class MVN(OpenVINOLayer):
    """Subtract the mean and, with normalize_variance, divide by the standard deviation.

    The output has the shape of x. From opset6 on the second input, a constant, gives the axes. Before,
    `across_channels` or `reduction_axes` do, and eps is added to the variance. From opset6 on, eps_mode states
    whether it is added to the variance or to the deviation.
    Source: OpenVINO operation specification, MVN-1, MVN-6.
    """

    eps: float = attribute("float")
    eps_mode: str = attribute(Enum("inside_sqrt", "outside_sqrt"), "inside_sqrt")
    normalize_variance: bool = attribute("bool")
    across_channels: bool = attribute("bool", False)
    reduction_axes: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Array, axes: Array | None = None) -> Any:
        rank = len(x.shape)
        if axes is not None:
            named = axes_of(integers(axes, "axes"), rank)
        elif self.reduction_axes:
            named = axes_of(self.reduction_axes, rank, "reduction_axes")
        else:
            named = list(range(1 if self.across_channels else 2, rank))
        along = tuple(named)
        apart = x - x.mean(axis=along, keepdims=True)
        if not self.normalize_variance:
            return apart
        eps = x.dtype.type(self.eps)
        variance = (apart * apart).mean(axis=along, keepdims=True)
        if self.eps_mode == "inside_sqrt":
            return apart / np.sqrt(variance + eps)
        return apart / (np.sqrt(variance) + eps)


@layer("NormalizeL2")
class NormalizeL2(OpenVINOLayer):
    """Compute x / sqrt(s + eps) or x / sqrt(max(s, eps)), where s is the sum of squares along axes.

    The output has the shape of x. eps_mode add or max states which. The axes are a constant; without axes s is x *
    x.
    Source: OpenVINO operation specification, NormalizeL2-1.
    """

    eps: float = attribute("float")
    eps_mode: str = attribute(EPS_MODE)

    def forward(self, x: Array, axes: Array) -> Any:
        named = tuple(axes_of(integers(axes, "axes"), len(x.shape)))
        if not named:
            square = x * x
        else:
            square = (x * x).sum(axis=named, keepdims=True)
        eps = x.dtype.type(self.eps)
        return x / np.sqrt(square + eps if self.eps_mode == "add" else np.maximum(square, eps))


@layer("GRN")
class GRN(OpenVINOLayer):
    """Compute x / sqrt(sum of squares over channels + bias).

    The output has the shape of x.
    Source: OpenVINO operation specification, GRN-1.
    """

    bias: float = attribute("float")

    def forward(self, x: Array) -> Any:
        return x / np.sqrt((x * x).sum(axis=1, keepdims=True) + x.dtype.type(self.bias))


@layer("GroupNormalization")
class GroupNormalization(OpenVINOLayer):
    """Normalize groups of channels to mean 0 and variance 1, then scale and shift each channel.

    x is (N, C, ...), scale and bias are (C,). num_groups divides C.
    Source: OpenVINO operation specification, GroupNormalization-12.
    """

    num_groups: int = attribute("int64")
    epsilon: float = attribute("double")

    def forward(self, x: Array, scale: Array, bias: Array) -> Any:
        n, c = x.shape[:2]
        groups = self.num_groups
        need(groups > 0 and c % groups == 0, f"num_groups={groups} does not divide {c} channels")
        y = x.reshape(n, groups, -1)
        apart = y - y.mean(axis=2, keepdims=True)
        variance = (apart * apart).mean(axis=2, keepdims=True)
        y = (apart / np.sqrt(variance + x.dtype.type(self.epsilon))).reshape(x.shape)
        ends = [1] * (len(x.shape) - 2)
        return y * scale.reshape(-1, *ends) + bias.reshape(-1, *ends)


@layer("FakeQuantize")
class FakeQuantize(OpenVINOLayer):
    """Round values between the input limits to `levels` steps, mapped to the output limits.

    round((x - low) / (high - low) * (levels - 1)) / (levels - 1) * (out_high - out_low) + out_low; out_low for x
    <= low and out_high for x > high. The limits broadcast to x.
    Source: OpenVINO operation specification, FakeQuantize-1.
    """

    levels: int = attribute("int64")
    auto_broadcast: str = attribute(Enum("numpy", "none", "pdpd"), "numpy")

    def forward(self, x: Array, low: Array, high: Array, out_low: Array, out_high: Array) -> Array:
        need(self.levels >= 2, f"levels must be at least 2, got {self.levels}")
        rule = f"auto_broadcast '{self.auto_broadcast}' is not supported; supported: numpy"
        need(self.auto_broadcast == "numpy", rule)
        steps = x.dtype.type(self.levels - 1)
        width = high - low
        inside = np.round((x - low) / np.where(width == 0, x.dtype.type(1), width) * steps)
        y = inside / steps * (out_high - out_low) + out_low
        return np.where(x <= np.minimum(low, high), out_low, np.where(x > np.maximum(low, high), out_high, y))
