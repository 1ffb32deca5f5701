"""Convolution."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from anylayer import ops
from anylayer.layer import field, layer, need
from anylayer.layers.caffe._convolution import ConvolutionWindows, GroupedConvolution
from anylayer.network import Array

_HOLES = ("hole", "hole_h", "hole_w")
_ONE = ConvolutionWindows(1, (1,), (1,), (0,), (1,))


@layer("Convolution")
class Convolution(GroupedConvolution):
    """Convolve the input with a kernel, without flipping it.

    (..., C, spatial...) to (..., num_output, spatial...), where each spatial size n becomes (n + 2 * pad - (kernel
    - 1) * dilation - 1) / stride + 1. Several inputs of equal shape give as many outputs with the same weights.
    Weights: (num_output, C / group, kernel...), bias (num_output,).
    Source: BVLC/caffe src/caffe/layers/conv_layer.cpp, base_conv_layer.cpp.
    """

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        return not any(name in values for name in _HOLES)

    def kernel_shape(self, channels: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
        return (self.num_output, channels // self.group, *kernel)

    def apply(self, x: Array, weights: Array, bias: Array | None, windows: ConvolutionWindows) -> Array:
        before, channels, spatial = x.shape[: windows.axis], x.shape[windows.axis], x.shape[windows.axis + 1 :]
        if not spatial:  # no spatial axes: a map of one cell
            x, weights, windows = x.reshape(*x.shape, 1), weights.reshape(*weights.shape, 1), _ONE
        sizes = tuple(spatial) or (1,)
        y = ops.conv(
            x.reshape(prod(before), channels, *sizes) if len(before) != 1 else x,
            weights,
            bias,
            strides=windows.strides,
            pads=windows.both_pads(sizes),
            dilations=windows.dilations,
            group=self.group,
        )
        if len(before) == 1 and spatial:
            return y
        return y.reshape(*before, self.num_output, *(windows.counts(sizes) if spatial else ()))


@layer("Convolution", dialects=("deeplab",))
class HoleConvolution(Convolution):
    """Convolve the input with a kernel whose dilation is the field `hole` (DeepLab v1).

    Shapes and weights are those of Convolution. Its field numbers 17 and 18 mean force_nd_im2col and dilation
    elsewhere, so only a text file is unambiguous.
    Source: TheLegendAli/DeepLab-Context src/caffe/layers/base_conv_layer.cpp; arXiv 1412.7062.
    """

    numbers = {"deeplab": 106}
    hole: int = field(17, "uint32", 1, doc="dilation")
    hole_h: int = field(18, "uint32", 1, doc="dilation along the height")
    hole_w: int = field(19, "uint32", 1, doc="dilation along the width")

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        return any(name in values for name in _HOLES)

    def _dilations(self, spatial: int) -> tuple[int, ...]:
        by_axis = self.has("hole_h") or self.has("hole_w")
        if not (by_axis or self.has("hole")):
            return super()._dilations(spatial)
        need(not self.dilation, "give hole or dilation, not both")
        need(not (by_axis and self.has("hole")), "give hole, or hole_h and hole_w, not both")
        need(spatial == 2 or not by_axis, f"hole_h and hole_w need two spatial axes, the input has {spatial}")
        return (self.hole_h, self.hole_w) if by_axis else (self.hole,) * spatial
