"""DepthwiseConvolution."""

from __future__ import annotations

from anylayer.layer import layer
from anylayer.layers.caffe.convolution import Convolution


@layer("DepthwiseConvolution")
class DepthwiseConvolution(Convolution):
    """Convolution whose `group` is the number of channels; another group is taken as Convolution takes it.

    Source: yonghenglh6/DepthwiseConvolution depthwise_conv_layer.cpp (its CPU path).
    """
