"""DepthwiseConv1D, DepthwiseConv2D, SeparableConv1D, SeparableConv2D."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import channels_first, restored
from anylayer.layers.keras._spatial import Convolution, kernel_first


class Depthwise(Convolution):
    """Weights: kernel (k ..., channels, depth_multiplier), bias (channels * depth_multiplier,)."""

    depth_multiplier: int = attribute("int64", 1, doc="output channels for each input channel")
    filters: Any = attribute("any", None, doc="of no meaning here: the file writes it nevertheless")

    def setup(self) -> None:
        super().setup()
        need(self.groups == 1, f"groups={self.groups} has no meaning here: each channel is a group")
        need(self.depth_multiplier >= 1, f"depth_multiplier must be at least 1, got {self.depth_multiplier}")

    def depthwise(self, x: Any, bias: Any, kernel: str) -> Any:
        """`x` (N, C, ...) with each channel convolved apart; output channel c * depth_multiplier + m."""
        channels, more = x.shape[1], self.depth_multiplier
        w = self.blob(0, (*self.kernel, channels, more), what=kernel)
        w = w.transpose(self.rank, self.rank + 1, *range(self.rank)).reshape(channels * more, 1, *self.kernel)
        return ops.conv(
            x,
            np.ascontiguousarray(w),
            bias,
            strides=self.steps,
            pads=self.pads(x.shape[2:], self.kernel, self.steps, self.dilations),
            dilations=self.dilations,
            group=channels,
        )

    def forward(self, x: Any) -> Any:
        """(N, ..., C) to (N, ..., C * depth_multiplier)."""
        self.need_rank(x)
        x = channels_first(x, self.data_format)
        y = self.depthwise(x, self.bias(1, x.shape[1] * self.depth_multiplier), "kernel")
        return self.function(restored(y, self.data_format))


@layer("DepthwiseConv1D")
class DepthwiseConv1D(Depthwise):
    """Each channel convolved apart, over one axis (keras/src/layers/convolutional/depthwise_conv1d.py)."""

    rank = 1


@layer("DepthwiseConv2D")
class DepthwiseConv2D(Depthwise):
    """Each channel convolved apart, over two axes (keras/src/layers/convolutional/depthwise_conv2d.py)."""


class Separable(Depthwise):
    """Weights: depthwise kernel (k ..., channels, depth_multiplier), pointwise kernel (1 ..., channels *
    depth_multiplier, filters), bias (filters,)."""

    def setup(self) -> None:
        super().setup()
        need(type(self.filters) is int, f"parameter 'filters' must be an integer, got {self.filters!r}")

    def forward(self, x: Any) -> Any:
        """(N, ..., C) to (N, ..., filters)."""
        self.need_rank(x)
        x = self.depthwise(channels_first(x, self.data_format), None, "depthwise kernel")
        ones = (1,) * self.rank
        w = self.blob(1, (*ones, x.shape[1], self.filters), what="pointwise kernel")
        y = ops.conv(x, kernel_first(w), self.bias(2, self.filters))
        return self.function(restored(y, self.data_format))


@layer("SeparableConv1D")
class SeparableConv1D(Separable):
    """A depthwise convolution, then one of single cells (keras/src/layers/convolutional/separable_conv1d.py)."""

    rank = 1
    paddings = ("valid", "same", "causal")


@layer("SeparableConv2D")
class SeparableConv2D(Separable):
    """A depthwise convolution, then one of single cells (keras/src/layers/convolutional/separable_conv2d.py)."""
