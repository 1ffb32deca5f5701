"""Convolutions."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layers.tensorflow._base import Enum, Operation, attribute, layer, need
from anylayer.layers.tensorflow._spatial import as_before, channels_first, extent, flat, spatial, windows


class _Windows(Operation):
    """What convolutions have in common."""

    strides: tuple[int, ...] = attribute("int64", repeated=True, doc="one an axis")
    padding: str = attribute(Enum("SAME", "VALID", "EXPLICIT"))
    explicit_paddings: tuple[int, ...] = attribute("int64", (), repeated=True)
    harmless = frozenset({"use_cudnn_on_gpu"})
    data_format: str

    def steps(self, rank: int, dilations: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Strides and dilations of the spatial axes."""
        strides = spatial(self.strides, self.data_format, rank, "strides")
        return strides, spatial(dilations or (1,) * rank, self.data_format, rank, "dilations")


class _Convolution(_Windows):
    rank = 4

    def convolve(self, x: Any, w: Any, group: int, dilations: tuple[int, ...]) -> Any:
        """x in this layer's order, w (M, C / group, ...)."""
        strides, spread = self.steps(self.rank, dilations)
        y = channels_first(x, self.data_format)
        reach = [extent(k, d) for k, d in zip(w.shape[2:], spread)]
        pairs = windows(self.padding, y.shape[2:], reach, strides, self.explicit_paddings, self.data_format)
        y = ops.conv(y, w, strides=strides, pads=flat(pairs), dilations=spread, group=group)
        return as_before(y, self.data_format)

    def check(self, x: Any, w: Any) -> int:
        """Refuse other ranks; the channels of x."""
        for what, array in (("input", x), ("filter", w)):
            need(
                len(array.shape) == self.rank,
                f"the {what} must have {self.rank} axes, got shape {tuple(array.shape)}",
            )
        return int(x.shape[1 if self.data_format.startswith("NC") else -1])


class _Grouped(_Convolution):
    dilations: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Any, w: Any) -> Any:
        channels = self.check(x, w)
        inner = w.shape[-2]
        need(channels % inner == 0, f"{inner} channels of the filter do not divide the input's {channels}")
        order = (self.rank - 1, self.rank - 2, *range(self.rank - 2))
        return self.convolve(x, w.transpose(order), channels // inner, self.dilations)


@layer("Conv2D")
class Conv2D(_Grouped):
    """Cross-correlation of pictures with a filter (height, width, channels / groups, outputs)."""

    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")


@layer("Conv3D")
class Conv3D(_Grouped):
    """Cross-correlation of volumes with a filter (depth, height, width, channels / groups, outputs)."""

    data_format: str = attribute(Enum("NDHWC", "NCDHW"), "NDHWC")
    rank = 5


@layer("DepthwiseConv2dNative")
class DepthwiseConv2dNative(_Convolution):
    """Each channel with filters of its own (height, width, channels, filters a channel)."""

    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")
    dilations: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Any, w: Any) -> Any:
        channels = self.check(x, w)
        need(w.shape[2] == channels, f"the filter is for {w.shape[2]} channels, the input has {channels}")
        height, width, _, times = w.shape
        each = w.transpose(2, 3, 0, 1).reshape(channels * times, 1, height, width)
        return self.convolve(x, each, channels, self.dilations)
