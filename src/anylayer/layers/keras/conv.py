"""Conv1D, Conv2D, Conv3D."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import channels_first, restored
from anylayer.layers.keras._spatial import Convolution, kernel_first


class Conv(Convolution):
    """Weights: kernel (k ..., channels / groups, filters), bias (filters,)."""

    filters: int = attribute("int64", doc="number of output channels")

    def forward(self, x: Any) -> Any:
        """(N, ..., C) to (N, ..., filters); channels first where the format says so."""
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
    """Convolution over one axis, padding "causal" too (keras/src/layers/convolutional/conv1d.py)."""

    rank = 1
    paddings = ("valid", "same", "causal")


@layer("Conv2D")
class Conv2D(Conv):
    """Convolution over two axes (keras/src/layers/convolutional/conv2d.py)."""


@layer("Conv3D")
class Conv3D(Conv):
    """Convolution over three axes (keras/src/layers/convolutional/conv3d.py)."""

    rank = 3
