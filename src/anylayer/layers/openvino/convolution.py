"""Convolutions and their transposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import whole
from anylayer.layers.openvino._padding import Windowed, joined, sizes


@layer("Convolution")
class Convolution(Windowed):
    """Cross-correlate (N, C, ...) with kernels (M, C, ...).

    Source: OpenVINO, Convolution-1. The Model Optimizer of 2019 and 2020 also writes `output_padding` zeros.
    """

    output_padding: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Any, w: Any) -> Any:
        return self.convolved(x, w, 1)

    def convolved(self, x: Any, w: Any, group: int) -> Any:
        """With kernels (M, C / group, ...)."""
        need(
            len(x.shape) == len(w.shape) >= 3,
            f"needs a map and kernels of one rank, got shapes {tuple(x.shape)} and {tuple(w.shape)}",
        )
        need(
            not any(self.output_padding),
            f"output_padding={list(self.output_padding)} belongs to a transposed convolution; expected zeros",
        )
        strides, dilations = self.steps(len(x.shape) - 2)
        pads = self.pads(x.shape[2:], w.shape[2:])
        return ops.conv(x, w, strides=strides, pads=pads, dilations=dilations, group=group)


@layer("GroupConvolution")
class GroupConvolution(Convolution):
    """Cross-correlate groups of channels, each with its kernels: (N, G * C, ...) with (G, M, C, ...).

    Source: OpenVINO, GroupConvolution-1.
    """

    def forward(self, x: Any, w: Any) -> Any:
        return self.convolved(x, joined(w), w.shape[0])


@layer("ConvolutionBackpropData")
class ConvolutionBackpropData(Windowed):
    """The transpose of a convolution: (N, C, ...) with kernels (C, M, ...) to (N, M, ...).

    A third input is the spatial shape of the output. Source: OpenVINO, ConvolutionBackpropData-1.
    """

    output_padding: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Any, w: Any, shape: Any = None) -> Any:
        return self.convolved(x, w, shape, 1)

    def convolved(self, x: Any, w: Any, shape: Any, group: int) -> Any:
        """With kernels (C, M / group, ...)."""
        need(
            len(x.shape) == len(w.shape) >= 3,
            f"needs a map and kernels of one rank, got shapes {tuple(x.shape)} and {tuple(w.shape)}",
        )
        count = len(x.shape) - 2
        strides, dilations = self.steps(count)
        extra = sizes(self.output_padding, count, "output_padding", 0)
        if shape is None:
            pads = self.pads([1] * count, [1] * count) if self.auto_pad == "explicit" else [0] * (2 * count)
        else:
            reach = [
                s * (n - 1) + (k - 1) * d + 1 + e
                for n, k, s, d, e in zip(x.shape[2:], w.shape[2:], strides, dilations, extra)
            ]
            pads, extra = self.fitted(whole(shape, "output_shape"), reach, extra)
        y = ops.conv_transpose(x, w, strides=strides, dilations=dilations, group=group, output_padding=0)
        return _cut(y, pads, extra)

    def fitted(self, wanted: list[int], reach: list[int], extra: list[int]) -> tuple[list[int], list[int]]:
        """Pads, and what is added behind, that make an output of `wanted` from one of `reach`."""
        need(len(wanted) == len(reach), f"output_shape must have {len(reach)} numbers, got {wanted}")
        total = [r - n for r, n in zip(reach, wanted)]
        if self.auto_pad in ("explicit", "notset"):
            count = len(total)
            pads = [
                *sizes(self.pads_begin, count, "pads_begin", 0),
                *sizes(self.pads_end, count, "pads_end", 0),
            ]
            left = [r - n - pads[i] - pads[count + i] for i, (r, n) in enumerate(zip(reach, wanted))]
            return pads, [e - d for e, d in zip(extra, left)]
        need(min(total) >= 0, f"output_shape {wanted} is larger than what the windows reach, {reach}")
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        if self.auto_pad == "same_upper":
            return [*large, *small], extra
        return [*small, *large], extra


def _cut(y: Any, pads: list[int], extra: list[int]) -> Any:
    """`y` without `pads`, and with `extra` zeros behind."""
    count = len(y.shape) - 2
    grown = [max(e - pads[count + i], 0) for i, e in enumerate(extra)]
    if any(grown):
        y = np.pad(y, [(0, 0), (0, 0), *((0, g) for g in grown)])
    keys = [slice(None), slice(None)]
    for i in range(count):
        end = y.shape[2 + i] - max(pads[count + i] - extra[i], 0)
        need(pads[i] >= 0 and pads[i] < end, f"pads {pads} leave nothing of {tuple(y.shape[2:])}")
        keys.append(slice(pads[i], end))
    return y[tuple(keys)]


@layer("GroupConvolutionBackpropData")
class GroupConvolutionBackpropData(ConvolutionBackpropData):
    """The transpose of a grouped convolution: (N, G * C, ...) with kernels (G, C, M, ...).

    Source: OpenVINO, GroupConvolutionBackpropData-1.
    """

    def forward(self, x: Any, w: Any, shape: Any = None) -> Any:
        return self.convolved(x, joined(w), shape, w.shape[0])
