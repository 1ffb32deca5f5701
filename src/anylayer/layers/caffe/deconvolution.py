"""Deconvolution."""

from __future__ import annotations

from math import prod

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.contract import PixelMap
from anylayer.layers.caffe._convolution import ConvolutionWindows, GroupedConvolution
from anylayer.network import Array


@layer("Deconvolution")
class Deconvolution(GroupedConvolution):
    """Compute a transposed convolution.

    (..., C, spatial...) to (..., num_output, spatial...), where each spatial size n becomes stride * (n - 1) +
    (kernel - 1) * dilation + 1 - 2 * pad. Several inputs of equal shape give as many outputs with the same
    weights.
    Weights: (C, num_output / group, kernel...), bias (num_output,).
    Source: BVLC/caffe src/caffe/layers/deconv_layer.cpp, base_conv_layer.cpp.
    """

    def windows(self, x: Array) -> ConvolutionWindows:
        windows = super().windows(x)
        need(windows.kernel, f"needs spatial axes after axis {windows.axis}, got shape {tuple(x.shape)}")
        return windows

    def kernel_shape(self, channels: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
        return (channels, self.num_output // self.group, *kernel)

    def coordinates(self) -> PixelMap | None:
        down = super().coordinates()
        return (
            None
            if down is None
            else ((1 / down[0][0], -down[0][1] / down[0][0]), (1 / down[1][0], -down[1][1] / down[1][0]))
        )

    def apply(self, x: Array, weights: Array, bias: Array | None, windows: ConvolutionWindows) -> Array:
        axis = windows.axis
        before, sizes = tuple(x.shape[:axis]), tuple(x.shape[axis + 1 :])
        for i, (n, e, s, p) in enumerate(zip(sizes, windows.extents, windows.strides, windows.pads)):
            need(
                s * (n - 1) + e - 2 * p >= 1,
                f"pad {p} leaves nothing of spatial axis {i}: stride {s} * ({n} - 1) + {e} - 2 * {p}",
            )
        y = ops.conv_transpose(
            x if axis == 1 else x.reshape(prod(before), *x.shape[axis:]),
            weights,
            bias,
            strides=windows.strides,
            pads=windows.pads,
            dilations=windows.dilations,
            group=self.group,
        )
        return y if axis == 1 else y.reshape(*before, *y.shape[1:])
