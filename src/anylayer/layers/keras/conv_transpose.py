"""Conv1DTranspose, Conv2DTranspose, Conv3DTranspose."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import channels_first, numbers, restored
from anylayer.layers.keras._spatial import Convolution


class ConvTranspose(Convolution):
    """Weights: kernel (k ..., filters, channels), bias (filters,)."""

    filters: int = attribute("int64", doc="number of output channels")
    output_padding: Any = attribute("any", None, doc="cells more than the least of the sizes that fit")

    def setup(self) -> None:
        super().setup()
        need(self.groups == 1, f"groups={self.groups} is not supported, Keras has none here")
        given = self.output_padding
        self.extra = None if given is None else numbers(given, self.rank, "output_padding")

    def forward(self, x: Any) -> Any:
        """(N, ..., C) to (N, ..., filters)."""
        self.need_rank(x)
        x = channels_first(x, self.data_format)
        w = self.blob(0, (*self.kernel, self.filters, x.shape[1]), what="kernel")
        cut = [self._cut(axis, size) for axis, size in enumerate(x.shape[2:])]
        y = ops.conv_transpose(
            x,
            np.ascontiguousarray(w.transpose(self.rank + 1, self.rank, *range(self.rank))),
            self.bias(1, self.filters),
            strides=self.steps,
            pads=[begin for begin, _, _ in cut] + [end for _, end, _ in cut],
            dilations=self.dilations,
            output_padding=[more for _, _, more in cut],
        )
        return self.function(restored(y, self.data_format))

    def _cut(self, axis: int, size: int) -> tuple[int, int, int]:
        """Cells to crop before and behind one axis of the full result, and cells it lacks at the end."""
        stride, same = self.steps[axis], self.padding == "same"
        kernel = (self.kernel[axis] - 1) * self.dilations[axis] + 1
        full = (size - 1) * stride + kernel
        if self.extra is not None:
            length = full - 2 * (kernel // 2 if same else 0) + self.extra[axis]
        else:
            length = size * stride + (0 if same else max(kernel - stride, 0))
        need(length > 0, f"leaves {length} cells of axis {axis}, whose input has {size}")
        crop = max(full - length, 0)
        return crop // 2, crop - crop // 2, max(length - full, 0)


@layer("Conv1DTranspose")
class Conv1DTranspose(ConvTranspose):
    """Transposed convolution over one axis (keras/src/layers/convolutional/conv1d_transpose.py)."""

    rank = 1


@layer("Conv2DTranspose")
class Conv2DTranspose(ConvTranspose):
    """Transposed convolution over two axes (keras/src/layers/convolutional/conv2d_transpose.py)."""


@layer("Conv3DTranspose")
class Conv3DTranspose(ConvTranspose):
    """Transposed convolution over three axes (keras/src/layers/convolutional/conv3d_transpose.py)."""

    rank = 3
