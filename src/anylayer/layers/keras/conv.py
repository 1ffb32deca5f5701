"""Convolutions."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.arguments import channels_first, restored
from anylayer.layer.fields import attribute
from anylayer.layers.keras._spatial import KernelLayer, kernel_first
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


@layer("Conv1D")
class Conv1D(Conv):
    """Convolve over one axis: activation(conv(x, kernel) + bias).

    (N, T, C) to (N, T', filters); data_format channels_first puts C at axis 1. padding "causal" pads before the
    sequence only.
    Weights: kernel (k, C / groups, filters), bias (filters,).
    Source: keras/src/layers/convolutional/conv1d.py.
    """

    rank = 1
    paddings = ("valid", "same", "causal")


@layer("Conv2D")
class Conv2D(Conv):
    """Convolve over two axes: activation(conv(x, kernel) + bias).

    (N, H, W, C) to (N, H', W', filters); data_format channels_first puts C at axis 1.
    Weights: kernel (kh, kw, C / groups, filters), bias (filters,).
    Source: keras/src/layers/convolutional/conv2d.py.
    """


@layer("Conv3D")
class Conv3D(Conv):
    """Convolve over three axes: activation(conv(x, kernel) + bias).

    (N, D, H, W, C) to (N, D', H', W', filters); data_format channels_first puts C at axis 1.
    Weights: kernel (kd, kh, kw, C / groups, filters), bias (filters,).
    Source: keras/src/layers/convolutional/conv3d.py.
    """

    rank = 3
