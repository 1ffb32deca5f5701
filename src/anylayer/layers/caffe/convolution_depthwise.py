"""ConvolutionDepthwise."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layers.caffe._convolution import ConvolutionLayer
from anylayer.layers.caffe._messages import filler_if_written
from anylayer.network import Array


@layer("ConvolutionDepthwise")
class ConvolutionDepthwise(ConvolutionLayer):
    """Convolve each channel with a kernel of its own; num_output and group have no effect.

    (N, C, H, W) to (N, C, H', W').
    Weights: (C, 1, kernel_h, kernel_w), bias (C,).
    Source: farmingyard/ShuffleNet and openvinotoolkit/training_toolbox_caffe src/caffe/layers/conv_dw_layer.cpp.
    """

    def setup(self) -> None:
        need(
            self.stride or (self.has("stride_h") and self.has("stride_w")),
            "stride is missing, and Caffe's layer has no default for it; write stride: 1",
        )

    def forward(self, x: Array) -> Array:
        need(len(x.shape) == 4, f"needs an input (N, C, H, W), got shape {tuple(x.shape)}")
        windows = self.windows(x)
        channels, sizes = x.shape[1], tuple(x.shape[2:])
        filler = filler_if_written(self.weight_filler, self.has("weight_filler"))
        weights = self.blob(0, (channels, 1, *windows.kernel), filler)
        bias = self.blob(1, (channels,), self.bias_filler, what="bias") if self.bias_term else None
        return ops.conv(
            x,
            weights,
            bias,
            strides=windows.strides,
            pads=windows.both_pads(sizes),
            dilations=windows.dilations,
            group=channels,
        )
