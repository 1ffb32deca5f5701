"""Depthwise and separable convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import need
from anylayer.layer.arguments import channels_first, restored
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import by_rank
from anylayer.layers.keras._spatial import CAUSAL, KernelLayer, kernel_first
from anylayer.network import Array


class Depthwise(KernelLayer):
    """A depthwise convolution.

    Weights: kernel (k ..., channels, depth_multiplier), bias (channels * depth_multiplier,).
    """

    depth_multiplier: int = attribute("int64", 1, doc="number of output channels per input channel")
    filters: Any = attribute("any", None, doc="output channels of separable convolutions; no effect elsewhere")

    def setup(self) -> None:
        super().setup()
        need(self.groups == 1, f"groups must be 1, since each channel is a group; got {self.groups}")
        need(self.depth_multiplier >= 1, f"depth_multiplier must be at least 1, got {self.depth_multiplier}")

    def depthwise(self, x: Array, bias: Array | None, kernel: str) -> Array:
        """Return `x` (N, C, ...), each channel convolved by itself; output channel c * depth_multiplier + m."""
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

    def forward(self, x: Array) -> Any:
        self.need_rank(x)
        x = channels_first(x, self.data_format)
        y = self.depthwise(x, self.bias(1, x.shape[1] * self.depth_multiplier), "kernel")
        return self.function(restored(y, self.data_format))


by_rank(
    Depthwise,
    "Convolve each channel by itself over {axes}.",
    """(N, {sizes}, C) to (N, {new}, C * depth_multiplier); data_format channels_first puts C at axis 1. Output
    channel c * depth_multiplier + m is channel c of the input, convolved with kernel[..., c, m].
    Weights: kernel ({kernel}, C, depth_multiplier), bias (C * depth_multiplier,).
    Source: keras/src/layers/convolutional/depthwise_conv{rank}d.py.""",
    (1, 2),
    name="DepthwiseConv{rank}D",
)


class Separable(Depthwise):
    """A depthwise convolution, followed by a pointwise one.

    Weights: depthwise kernel (k ..., channels, depth_multiplier), pointwise kernel (1 ..., channels *
    depth_multiplier, filters), bias (filters,).
    """

    def setup(self) -> None:
        super().setup()
        need(type(self.filters) is int, f"parameter 'filters' must be an integer, got {self.filters!r}")

    def forward(self, x: Array) -> Any:
        self.need_rank(x)
        x = self.depthwise(channels_first(x, self.data_format), None, "depthwise kernel")
        ones = (1,) * self.rank
        w = self.blob(1, (*ones, x.shape[1], self.filters), what="pointwise kernel")
        y = ops.conv(x, kernel_first(w), self.bias(2, self.filters))
        return self.function(restored(y, self.data_format))


_SUMMARY = "Convolve each channel by itself over {axes}, then combine channels by a pointwise convolution."
_DETAILS = """(N, {sizes}, C) to (N, {new}, filters); data_format channels_first puts C at axis 1.
    Weights: depthwise kernel ({kernel}, C, depth_multiplier), pointwise kernel ({ones}, C * depth_multiplier,
    filters), bias (filters,).
    Source: keras/src/layers/convolutional/separable_conv{rank}d.py."""

by_rank(Separable, _SUMMARY, _DETAILS, (1,), "SeparableConv{rank}D", paddings=CAUSAL)
by_rank(Separable, _SUMMARY, _DETAILS, (2,), "SeparableConv{rank}D")
