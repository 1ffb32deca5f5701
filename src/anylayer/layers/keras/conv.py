"""Convolutions."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layer import need
from anylayer.layer.arguments import channels_first, restored
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import by_rank
from anylayer.layers.keras._spatial import CAUSAL, KernelLayer, kernel_first
from anylayer.network import Array


class Conv(KernelLayer):
    """A convolution. Weights: kernel (k ..., channels / groups, filters), bias (filters,)."""

    filters: int = attribute("int64", doc="number of output channels")

    def forward(self, x: Array) -> Any:
        self.need_rank(x)
        x = channels_first(x, self.data_format)
        channels = x.shape[1]
        need(
            self.groups >= 1 and channels % self.groups == 0 and self.filters % self.groups == 0,
            f"groups={self.groups} does not divide {channels} channels and {self.filters} filters",
        )
        w = self.blob(0, (*self.kernel, channels // self.groups, self.filters), what="kernel")
        y = ops.conv(
            x,
            kernel_first(w),
            self.bias(1, self.filters),
            strides=self.steps,
            pads=self.pads(x.shape[2:], self.kernel, self.steps, self.dilations),
            dilations=self.dilations,
            group=self.groups,
        )
        return self.function(restored(y, self.data_format))


_SUMMARY = "Convolve over {axes}: activation(conv(x, kernel) + bias)."
_SHAPES = "(N, {sizes}, C) to (N, {new}, filters); data_format channels_first puts C at axis 1."
_CAUSAL = """
    padding "causal" pads before the sequence only."""
_WEIGHTS = """
    Weights: kernel ({kernel}, C / groups, filters), bias (filters,).
    Source: keras/src/layers/convolutional/conv{rank}d.py."""

by_rank(Conv, _SUMMARY, _SHAPES + _CAUSAL + _WEIGHTS, (1,), paddings=CAUSAL)
by_rank(Conv, _SUMMARY, _SHAPES + _WEIGHTS, (2, 3))
