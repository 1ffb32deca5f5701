"""Convolutions fused with the steps that prepare their input: a resize and mirrored padding."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, layer
from anylayer.layer.arguments import channels_first, restored
from anylayer.layers.tensorflow.arranging import mirror_pad
from anylayer.layers.tensorflow.conv import GroupedConvolution
from anylayer.layers.tensorflow.resize import plane_size


class _PaddedConvolution(GroupedConvolution):
    data_format = "NHWC"
    mode: str = attribute(Enum("REFLECT", "SYMMETRIC"))
    padding: str = attribute(Enum("SAME", "VALID"))


@layer("FusedPadConv2D")
class FusedPadConv2D(_PaddedConvolution):
    """Apply MirrorPad, then Conv2D.

    Inputs: x (N, H, W, C), paddings (4, 2), a filter (height, width, C / groups, M). All images of a batch are
    computed alike, whereas TensorFlow 2.21 gives other values from the second image on.
    Source: tf.raw_ops.FusedPadConv2D; tensorflow/core/kernels/conv_ops_fused_image_transform.cc.
    """

    def forward(self, x: Array, paddings: Array, w: Array) -> Any:
        return self.convolve_groups(mirror_pad(x, paddings, self.mode), w)


@layer("FusedResizeAndPadConv2D")
class FusedResizeAndPadConv2D(_PaddedConvolution):
    """Apply ResizeBilinear, then MirrorPad, then Conv2D.

    Inputs: x (N, H, W, C), size (height, width), paddings (4, 2), a filter (height, width, C / groups, M). size
    and paddings are constants.
    Source: tf.raw_ops.FusedResizeAndPadConv2D; tensorflow/core/kernels/conv_ops_fused_image_transform.cc.
    """

    resize_align_corners: bool = attribute("bool", False)

    def forward(self, x: Array, size: Array, paddings: Array, w: Array) -> Any:
        rule = "align_corners" if self.resize_align_corners else "asymmetric"
        plane = plane_size(x, size)
        y = ops.resize(channels_first(x, "NHWC"), plane, mode="linear", coordinates=rule)
        return self.convolve_groups(mirror_pad(restored(y, "NHWC"), paddings, self.mode), w)
