"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, layer, need
from anylayer.layer.arguments import extent, integers
from anylayer.layers.openvino._padding import WindowedLayer, merge_groups, sizes


@layer("Convolution")
class Convolution(WindowedLayer):
    """Convolve (N, C, ...) with kernels (M, C, ...), without flipping them.

    The output is (N, M, ...) of the spatial size floor((size + pads - extent) / stride) + 1, where extent =
    (kernel - 1) * dilation + 1. auto_pad same_upper and same_lower pad for ceil(size / stride) outputs. The Model
    Optimizer of 2019 and 2020 also writes `output_padding` zeros, which have no effect.
    Source: OpenVINO operation specification, Convolution-1.
    """

    output_padding: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Array, w: Array) -> Array:
        return self.convolve(x, w, 1)

    def convolve(self, x: Array, w: Array, group: int) -> Array:
        """Return the convolution of `x` with kernels (M, C / group, ...)."""
        need(
            len(x.shape) == len(w.shape) >= 3,
            f"needs an input and kernels of the same rank, got shapes {tuple(x.shape)} and {tuple(w.shape)}",
        )
        need(
            not any(self.output_padding),
            f"output_padding={list(self.output_padding)} needs a transposed convolution; expected zeros",
        )
        strides, dilations = self.steps(len(x.shape) - 2)
        pads = self.pads(x.shape[2:], w.shape[2:])
        return ops.conv(x, w, strides=strides, pads=pads, dilations=dilations, group=group)


@layer("GroupConvolution")
class GroupConvolution(Convolution):
    """Convolve groups of channels, each with its own kernels.

    (N, G * C, ...) with kernels (G, M, C, ...) to (N, G * M, ...), of the spatial size that Convolution has.
    Source: OpenVINO operation specification, GroupConvolution-1.
    """

    def forward(self, x: Array, w: Array) -> Array:
        return self.convolve(x, merge_groups(w), w.shape[0])


@layer("ConvolutionBackpropData")
class ConvolutionBackpropData(WindowedLayer):
    """Compute the transposed convolution of (N, C, ...) with kernels (C, M, ...).

    The output is (N, M, ...) of the spatial size stride * (size - 1) + extent - pads + output_padding, or of the
    third input, a constant, when it is given.
    Source: OpenVINO operation specification, ConvolutionBackpropData-1.
    """

    output_padding: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Array, w: Array, shape: Array | None = None) -> Array:
        return self.convolve(x, w, shape, 1)

    def convolve(self, x: Array, w: Array, shape: Array | None, group: int) -> Array:
        """Return the transposed convolution of `x` with kernels (C, M / group, ...)."""
        need(
            len(x.shape) == len(w.shape) >= 3,
            f"needs an input and kernels of the same rank, got shapes {tuple(x.shape)} and {tuple(w.shape)}",
        )
        count = len(x.shape) - 2
        strides, dilations = self.steps(count)
        extra = sizes(self.output_padding, count, "output_padding", 0)
        if shape is None:
            pads = self.pads([1] * count, [1] * count) if self.auto_pad == "explicit" else [0] * (2 * count)
        else:
            reach = [
                s * (n - 1) + extent(k, d) + e
                for n, k, s, d, e in zip(x.shape[2:], w.shape[2:], strides, dilations, extra)
            ]
            pads, extra = self.fit_pads(integers(shape, "output_shape"), reach, extra)
        y = ops.conv_transpose(x, w, strides=strides, dilations=dilations, group=group, output_padding=0)
        return _cut(y, pads, extra)

    def fit_pads(self, cells: list[int], reach: list[int], extra: list[int]) -> tuple[list[int], list[int]]:
        """Return pads, and cells to add at the end, that make an output of `cells` cells from `reach` cells."""
        need(len(cells) == len(reach), f"output_shape must have {len(reach)} numbers, got {cells}")
        total = [r - n for r, n in zip(reach, cells)]
        if self.auto_pad in ("explicit", "notset"):
            count = len(total)
            pads = [
                *sizes(self.pads_begin, count, "pads_begin", 0),
                *sizes(self.pads_end, count, "pads_end", 0),
            ]
            left = [r - n - pads[i] - pads[count + i] for i, (r, n) in enumerate(zip(reach, cells))]
            return pads, [e - d for e, d in zip(extra, left)]
        need(min(total) >= 0, f"output_shape {cells} exceeds the size {reach} that the kernels reach")
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        if self.auto_pad == "same_upper":
            return [*large, *small], extra
        return [*small, *large], extra


def _cut(y: Array, pads: list[int], extra: list[int]) -> Array:
    """Return `y` with `pads` removed and `extra` zeros added at the end of each axis."""
    count = len(y.shape) - 2
    grown = [max(e - pads[count + i], 0) for i, e in enumerate(extra)]
    if any(grown):
        y = np.pad(y, [(0, 0), (0, 0), *((0, g) for g in grown)])
    keys = [slice(None), slice(None)]
    for i in range(count):
        end = y.shape[2 + i] - max(pads[count + i] - extra[i], 0)
        need(
            pads[i] >= 0 and pads[i] < end, f"pads {pads} leave nothing of the spatial shape {tuple(y.shape[2:])}"
        )
        keys.append(slice(pads[i], end))
    return y[tuple(keys)]


@layer("GroupConvolutionBackpropData")
class GroupConvolutionBackpropData(ConvolutionBackpropData):
    """Compute the transposed convolution of groups of channels, each with its own kernels.

    (N, G * C, ...) with kernels (G, C, M, ...) to (N, G * M, ...), of the spatial size that
    ConvolutionBackpropData has.
    Source: OpenVINO operation specification, GroupConvolutionBackpropData-1.
    """

    def forward(self, x: Array, w: Array, shape: Any = None) -> Array:
        return self.convolve(x, merge_groups(w), shape, w.shape[0])
