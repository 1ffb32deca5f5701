"""DepthwiseConvolution."""

from __future__ import annotations

from anylayer.layer import layer
from anylayer.layers.caffe.convolution import Convolution


@layer("DepthwiseConvolution")
class DepthwiseConvolution(Convolution):
    """Convolve each channel by itself: a Convolution whose `group` is the number of channels.

    Shapes and weights are those of Convolution. Another `group` means the same as in Convolution.
    Source: yonghenglh6/DepthwiseConvolution depthwise_conv_layer.cpp (its CPU path).
    """
