"""Convolutions."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, layer, need
from anylayer.layer.arguments import channels_first, extent, flat_pads, restored
from anylayer.layers.tensorflow._base import TensorFlowLayer
from anylayer.layers.tensorflow._spatial import spatial, windows


class _Windows(TensorFlowLayer):
    """The attributes that convolutions and their transposes share."""

    strides: tuple[int, ...] = attribute("int64", repeated=True, doc="one per axis, in the order of data_format")
    padding: str = attribute(Enum("SAME", "VALID", "EXPLICIT"))
    explicit_paddings: tuple[int, ...] = attribute("int64", (), repeated=True)
    harmless = frozenset({"use_cudnn_on_gpu"})
    data_format: str

    def steps(self, rank: int, dilations: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Return the strides and the dilations of the spatial axes."""
        strides = spatial(self.strides, self.data_format, rank, "strides")
        return strides, spatial(dilations or (1,) * rank, self.data_format, rank, "dilations")


class _Convolution(_Windows):
    """A convolution. TensorFlow's convolutions are cross-correlations: kernels are not flipped."""

    rank = 4

    def convolve(self, x: Array, w: Array, group: int, dilations: tuple[int, ...]) -> Any:
        """Return the convolution of `x`, in the layout of data_format, with kernels (M, C / group, ...)."""
        strides, spread = self.steps(self.rank, dilations)
        y = channels_first(x, self.data_format)
        reach = [extent(k, d) for k, d in zip(w.shape[2:], spread)]
        pairs = windows(self.padding, y.shape[2:], reach, strides, self.explicit_paddings, self.data_format)
        y = ops.conv(y, w, strides=strides, pads=flat_pads(pairs), dilations=spread, group=group)
        return restored(y, self.data_format)

    def check(self, x: Array, w: Array) -> int:
        """Return the number of channels of `x`. Raise LayerError when an input has another rank."""
        for what, array in (("input", x), ("filter", w)):
            need(
                len(array.shape) == self.rank,
                f"the {what} must have {self.rank} axes, got shape {tuple(array.shape)}",
            )
        return int(x.shape[1 if self.data_format.startswith("NC") else -1])


class GroupedConvolution(_Convolution):
    """A convolution whose filter is (..., C / groups, M).

    The number of groups is the number of channels of x divided by that of the filter.
    """

    dilations: tuple[int, ...] = attribute("int64", (), repeated=True)

    def convolve_groups(self, x: Array, w: Array) -> Any:
        """Return the convolution of `x` with the filter `w`."""
        channels = self.check(x, w)
        inner = w.shape[-2]
        need(
            channels % inner == 0,
            f"the filter has {inner} channels, which does not divide the input's {channels}",
        )
        order = (self.rank - 1, self.rank - 2, *range(self.rank - 2))
        return self.convolve(x, w.transpose(order), channels // inner, self.dilations)


class _FilterOnly(GroupedConvolution):
    def forward(self, x: Array, w: Array) -> Any:
        return self.convolve_groups(x, w)


@layer("Conv2D")
class Conv2D(_FilterOnly):
    """Convolve images (N, H, W, C) with a filter (height, width, C / groups, M).

    The output is (N, H', W', M); data_format NCHW puts channels at axis 1 of input and output. The kernel is not
    flipped. padding SAME gives H' = ceil(H / stride), VALID H' = ceil((H - extent + 1) / stride), where extent =
    (height - 1) * dilation + 1; EXPLICIT takes explicit_paddings.
    Source: tf.raw_ops.Conv2D; tensorflow/core/kernels/conv_ops.cc.
    """

    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")


@layer("Conv3D")
class Conv3D(_FilterOnly):
    """Convolve volumes (N, D, H, W, C) with a filter (depth, height, width, C / groups, M).

    The output is (N, D', H', W', M), of the sizes that Conv2D explains; data_format NCDHW puts channels at axis 1.
    Source: tf.raw_ops.Conv3D; tensorflow/core/kernels/conv_ops_3d.cc.
    """

    data_format: str = attribute(Enum("NDHWC", "NCDHW"), "NDHWC")
    rank = 5


@layer("DepthwiseConv2dNative")
class DepthwiseConv2dNative(_Convolution):
    """Convolve each channel with filters of its own.

    (N, H, W, C) with a filter (height, width, C, K) to (N, H', W', C * K), of the sizes that Conv2D explains.
    Channel c * K + k of the output is channel c of x convolved with filter[:, :, c, k].
    Source: tf.raw_ops.DepthwiseConv2dNative; tensorflow/core/kernels/depthwise_conv_op.cc.
    """

    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")
    dilations: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Array, w: Array) -> Any:
        channels = self.check(x, w)
        need(w.shape[2] == channels, f"the filter is for {w.shape[2]} channels, the input has {channels}")
        height, width, _, times = w.shape
        each = w.transpose(2, 3, 0, 1).reshape(channels * times, 1, height, width)
        return self.convolve(x, each, channels, self.dilations)
