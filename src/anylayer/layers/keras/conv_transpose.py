"""Transposed convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import need
from anylayer.layer.arguments import channels_first, extent, restored
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import by_rank, numbers
from anylayer.layers.keras._spatial import KernelLayer
from anylayer.network import Array


class ConvTranspose(KernelLayer):
    """A transposed convolution. Weights: kernel (k ..., filters, channels), bias (filters,)."""

    filters: int = attribute("int64", doc="number of output channels")
    output_padding: Any = attribute("any", None, doc="cells added to the smallest output size that fits")

    def setup(self) -> None:
        super().setup()
        need(self.groups == 1, f"groups must be 1, got {self.groups}")
        padding = self.output_padding
        self.extra = None if padding is None else numbers(padding, self.rank, "output_padding")

    def forward(self, x: Array) -> Any:
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
        """Return the cells to crop before and after an axis of the full result, and those to add at its end."""
        stride, same = self.steps[axis], self.padding == "same"
        kernel = extent(self.kernel[axis], self.dilations[axis])
        full = (size - 1) * stride + kernel
        if self.extra is not None:
            length = full - 2 * (kernel // 2 if same else 0) + self.extra[axis]
        else:
            length = size * stride + (0 if same else max(kernel - stride, 0))
        need(
            length > 0,
            f"the output would have {length} cells along spatial axis {axis}, where the input has {size}",
        )
        crop = max(full - length, 0)
        return crop // 2, crop - crop // 2, max(length - full, 0)


by_rank(
    ConvTranspose,
    "Compute a transposed convolution over {axes}.",
    """(N, {sizes}, C) to (N, {new}, filters), where a size n becomes n * stride for padding "same" and n * stride
    + max(kernel - stride, 0) for "valid", or the size that output_padding gives. data_format channels_first puts C
    at axis 1.
    Weights: kernel ({kernel}, filters, C), bias (filters,).
    Source: keras/src/layers/convolutional/conv{rank}d_transpose.py.""",
    name="Conv{rank}DTranspose",
)
