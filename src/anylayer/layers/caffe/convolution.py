"""Convolutions, and the windows that they read."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layer.arguments import extent
from anylayer.layer.contract import PixelMap
from anylayer.layers.caffe._axes import canonical, need_padded
from anylayer.layers.caffe._messages import FillerParameter, engine_field, no_effect, written_filler


class ConvolutionWindows(NamedTuple):
    """The windows of a convolution, with one value per spatial axis."""

    axis: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the number of cells from the first to the last tap of the kernel, both included."""
        return tuple(extent(k, d) for k, d in zip(self.kernel, self.dilations))

    def counts(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of windows along each axis: (size + 2 * pad - extent) / stride + 1.

        The division truncates, as in C, so a kernel that exceeds the padded map by less than a stride still has
        one window.
        """
        need_padded(sizes, self.pads)
        counts = []
        for i, (n, e, s, p) in enumerate(zip(sizes, self.extents, self.strides, self.pads)):
            spare = n + 2 * p - e
            count = (spare // s if spare >= 0 else -(-spare // s)) + 1
            need(
                count >= 1,
                f"a kernel with an extent of {e} cells and stride {s} does not fit spatial axis {i} "
                f"of {n} cells with pad {p}",
            )
            counts.append(count)
        return tuple(counts)

    def both_pads(self, sizes: tuple[int, ...]) -> list[int]:
        """Return the pads before all axes, then those after, which are extended to hold every window."""
        ends = [
            max(p, (c - 1) * s + e - n - p)
            for n, e, s, p, c in zip(sizes, self.extents, self.strides, self.pads, self.counts(sizes))
        ]
        return [*self.pads, *ends]


class ConvolutionLayer(Layer):
    """A layer that reads convolution_param.

    Source: BVLC/caffe src/caffe/layers/base_conv_layer.cpp.
    """

    message = "convolution_param"
    numbers = {"": 106}
    num_output: int = field(1, "uint32", 0, doc="number of output channels")
    bias_term: bool = field(2, "bool", True, doc="add a bias to each channel")
    pad: tuple[int, ...] = field(
        3, "uint32", repeated=True, doc="zeros on both sides: one for all axes, or one per axis"
    )
    kernel_size: tuple[int, ...] = field(
        4, "uint32", repeated=True, doc="kernel size: one for all axes, or one per axis"
    )
    group: int = field(5, "uint32", 1, doc="number of groups of channels; divides both numbers of channels")
    stride: tuple[int, ...] = field(
        6, "uint32", repeated=True, doc="stride: one for all axes, or one per axis; default 1"
    )
    weight_filler: FillerParameter = field(7, FillerParameter, doc="filler of the weights without a weights file")
    bias_filler: FillerParameter = field(8, FillerParameter, doc="values of the bias without a file; default 0")
    pad_h: int = field(9, "uint32", 0, doc="pad of the height, with two spatial axes")
    pad_w: int = field(10, "uint32", 0, doc="pad of the width, with two spatial axes")
    kernel_h: int = field(11, "uint32", 0, doc="kernel size along the height, with two spatial axes")
    kernel_w: int = field(12, "uint32", 0, doc="kernel size along the width, with two spatial axes")
    stride_h: int = field(13, "uint32", 1, doc="stride along the height, with two spatial axes")
    stride_w: int = field(14, "uint32", 1, doc="stride along the width, with two spatial axes")
    engine: str = engine_field(15)
    axis: int = field(
        16, "int32", 1, doc="axis of the channels; axes after it are spatial, axes before it are batches"
    )
    force_nd_im2col: bool = field(17, "bool", False, doc="Caffe's implementation; no effect here")
    dilation: tuple[int, ...] = field(
        18, "uint32", repeated=True, doc="dilation: one for all axes, or one per axis; default 1"
    )

    relu: bool = no_effect(19, "bool", False)
    negative_slope: float = no_effect(20, "float", 0.0)

    def windows(self, x: Array) -> ConvolutionWindows:
        """Return the windows that the fields describe on `x`."""
        axis = canonical(self.axis, x)
        return self._windows(axis, len(x.shape) - axis - 1)

    def coordinates(self) -> PixelMap | None:
        windows = self._windows(1, 2)
        high, wide = (
            (Fraction(1, s), Fraction(2 * p - e + 1, 2 * s))
            for e, s, p in zip(windows.extents, windows.strides, windows.pads)
        )
        return high, wide

    def _windows(self, axis: int, spatial: int) -> ConvolutionWindows:
        kernel = self._sizes("kernel", "kernel_size", self.kernel_size, None, spatial)
        strides = self._sizes("stride", "stride", self.stride, 1, spatial)
        pads = self._sizes("pad", "pad", self.pad, 0, spatial)
        dilations = self._dilations(spatial)
        need(all(k > 0 for k in kernel), f"kernel sizes must be positive, got {kernel}")
        need(all(s > 0 for s in strides), f"strides must be positive, got {strides}")
        need(all(d > 0 for d in dilations), f"dilations must be positive, got {dilations}")
        return ConvolutionWindows(axis, kernel, strides, pads, dilations)

    def _dilations(self, spatial: int) -> tuple[int, ...]:
        return per_axis("dilation", self.dilation, 1, spatial)

    def _sizes(
        self, stem: str, name: str, values: tuple[int, ...], default: int | None, spatial: int
    ) -> tuple[int, ...]:
        """Return one value per spatial axis, from the field `name`, or from `stem`_h and `stem`_w."""
        high, wide = f"{stem}_h", f"{stem}_w"
        if not (self.has(high) or self.has(wide)):
            return per_axis(name, values, default, spatial)
        need(not values, f"give {name}, or {high} and {wide}, not both")
        need(spatial == 2, f"{high} and {wide} need two spatial axes, the input has {spatial}; give {name}")
        return getattr(self, high), getattr(self, wide)


class GroupedConvolution(ConvolutionLayer):
    """A convolution, or a transposed one, of `group` groups of channels, whose inputs share their weights.

    Source: BVLC/caffe src/caffe/layers/base_conv_layer.cpp.
    """

    def setup(self) -> None:
        need(
            self.num_output > 0,
            "num_output must be positive" + ("" if self.has("num_output") else "; it is missing"),
        )
        need(self.group > 0, "group must be positive, got 0")
        need(self.num_output % self.group == 0, f"group={self.group} does not divide num_output={self.num_output}")

    def forward(self, *inputs: Array) -> list[Array]:
        need(inputs, "takes 1 input or more, got none")
        need(len(inputs) == self.outputs, f"{len(inputs)} inputs need as many outputs, got {self.outputs}")
        first = inputs[0]
        for i, x in enumerate(inputs[1:], 1):
            need(
                tuple(x.shape) == tuple(first.shape),
                f"inputs must have one shape: input 0 is {tuple(first.shape)}, input {i} is {tuple(x.shape)}",
            )
        windows = self.windows(first)
        channels = first.shape[windows.axis]
        need(channels % self.group == 0, f"group={self.group} does not divide {channels} channels")
        weights = self.blob(0, self.kernel_shape(channels, windows.kernel), written_filler(self, "weight_filler"))
        bias = self.blob(1, (self.num_output,), self.bias_filler, what="bias") if self.bias_term else None
        return [self.apply(x, weights, bias, windows) for x in inputs]

    def kernel_shape(self, channels: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the weights for an input with `channels` channels."""
        raise NotImplementedError

    def apply(self, x: Any, weights: Any, bias: Any, windows: ConvolutionWindows) -> Any:
        """Return the output for one input."""
        raise NotImplementedError


def per_axis(name: str, values: tuple[int, ...], default: int | None, spatial: int) -> tuple[int, ...]:
    """Return one value per spatial axis, from none (the default), one, or one per axis."""
    if not values and default is not None:
        return (default,) * spatial
    need(
        len(values) in (1, spatial),
        f"{name} must be given once, or once for each of the {spatial} spatial axes, got {len(values)}",
    )
    return values * spatial if len(values) == 1 else values


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


@layer("DepthwiseConvolution")
class DepthwiseConvolution(Convolution):
    """Convolve each channel by itself: a Convolution whose `group` is the number of channels.

    Shapes and weights are those of Convolution. Another `group` means the same as in Convolution.
    Source: yonghenglh6/DepthwiseConvolution depthwise_conv_layer.cpp (its CPU path).
    """


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
        filler = written_filler(self, "weight_filler")
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
        if down is None:
            return None
        return ((1 / down[0][0], -down[0][1] / down[0][0]), (1 / down[1][0], -down[1][1] / down[1][0]))

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


@layer("Im2col")
class Im2col(ConvolutionLayer):
    """Return the cells of each window as channels.

    (..., C, spatial...) to (..., C * kernel cells, windows along each axis). Channel c * cells + i holds cell i of
    each window in channel c, where the cells of a kernel are counted in C order.
    Source: BVLC/caffe src/caffe/layers/im2col_layer.cpp.
    """

    def forward(self, x: Array) -> Array:
        windows = self.windows(x)
        axis = windows.axis
        before, channels, sizes = tuple(x.shape[:axis]), x.shape[axis], tuple(x.shape[axis + 1 :])
        counts, spatial = windows.counts(sizes), len(sizes)
        pads = windows.both_pads(sizes)
        y = x.reshape(prod(before), channels, *sizes)
        if any(pads):
            y = np.pad(y, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:])])
        for i, (k, s, d, c) in enumerate(zip(windows.kernel, windows.strides, windows.dilations, counts)):
            seen = np.arange(k)[:, None] * d + np.arange(c) * s
            y = np.take(y, seen.reshape(-1), axis=2 + i)
        y = y.reshape(prod(before), channels, *(n for pair in zip(windows.kernel, counts) for n in pair))
        y = y.transpose(0, 1, *range(2, 2 + 2 * spatial, 2), *range(3, 3 + 2 * spatial, 2))
        return y.reshape(*before, channels * prod(windows.kernel), *counts)
