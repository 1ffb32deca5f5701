"""Deconvolution."""

from __future__ import annotations

from math import prod
from typing import Any

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.contract import Map
from anylayer.layers.caffe._convolution import ConvolutionLayer, Windows
from anylayer.layers.caffe._messages import given


@layer("Deconvolution")
class Deconvolution(ConvolutionLayer):
    """Transposed convolution: (..., C, spatial...) to (..., num_output, spatial...).

    Each spatial size n becomes stride * (n - 1) + (kernel - 1) * dilation + 1 - 2 * pad.
    Weights: (C, num_output / group, kernel...), bias (num_output,). Several inputs of one shape give as many
    outputs, by the same weights.
    Source: BVLC/caffe src/caffe/layers/deconv_layer.cpp, base_conv_layer.cpp.
    """

    def setup(self) -> None:
        need(
            self.num_output > 0,
            "num_output must be positive" + ("" if self.has("num_output") else "; it is missing"),
        )
        need(self.group > 0, "group must be positive, got 0")
        need(
            self.num_output % self.group == 0,
            f"group={self.group} does not divide num_output={self.num_output}",
        )

    def forward(self, *inputs: Any) -> Any:
        need(inputs, "takes 1 input or more, got none")
        need(len(inputs) == self.outputs, f"{len(inputs)} inputs need as many outputs, got {self.outputs}")
        first = inputs[0]
        for i, x in enumerate(inputs[1:], 1):
            need(
                tuple(x.shape) == tuple(first.shape),
                f"inputs must have one shape: input 0 is {tuple(first.shape)}, input {i} is {tuple(x.shape)}",
            )
        windows = self.windows(first)
        need(windows.kernel, f"needs spatial axes behind axis {windows.axis}, got shape {tuple(first.shape)}")
        channels = first.shape[windows.axis]
        need(channels % self.group == 0, f"group={self.group} does not divide {channels} channels")
        weights = self.blob(
            0,
            (channels, self.num_output // self.group, *windows.kernel),
            given(self.weight_filler, self.has("weight_filler")),
        )
        bias = self.blob(1, (self.num_output,), self.bias_filler, what="bias") if self.bias_term else None
        return [self._one(x, weights, bias, windows) for x in inputs]

    def coordinates(self) -> Map | None:
        down = super().coordinates()
        return (
            None
            if down is None
            else ((1 / down[0][0], -down[0][1] / down[0][0]), (1 / down[1][0], -down[1][1] / down[1][0]))
        )

    def _one(self, x: Any, weights: Any, bias: Any, windows: Windows) -> Any:
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
