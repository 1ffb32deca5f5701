"""What convolutions and pooling share: kernels, strides, padding and the axis order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from anylayer.layer import need
from anylayer.layer.arguments import extent, flat_pads, same_pads
from anylayer.layer.fields import attribute
from anylayer.layers.keras._activations import activation
from anylayer.layers.keras._base import Spatial, one_of, positive
from anylayer.network import Array

CAUSAL = ("valid", "same", "causal")
"""The paddings of layers that slide a window over a sequence."""


class WindowLayer(Spatial):
    """A layer that slides a window over `rank` axes."""

    rank: ClassVar[int] = 2
    paddings: ClassVar[Sequence[str]] = ("valid", "same")

    strides: Any = attribute("any", None, doc="strides per axis; those of a pooling default to pool_size")
    padding: str = attribute("string", "valid", doc="valid: no padding; same: ceil(size / stride) windows")

    def setup(self) -> None:
        super().setup()
        self.padding = one_of(self.padding.lower(), self.paddings, "padding")

    def need_rank(self, x: Array) -> None:
        need(
            len(x.shape) == self.rank + 2,
            f"takes an input of rank {self.rank + 2} (batch, {self.rank} axes, channels), got {tuple(x.shape)}",
        )

    def pads(self, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Any) -> Any:
        """Return the pads of the spatial axes: those before all axes, then those after all axes."""
        if self.padding == "valid":
            return 0
        if self.padding == "causal":
            return [(kernel[0] - 1) * dilations[0], 0]
        return flat_pads(same_pads(sizes, [extent(k, d) for k, d in zip(kernel, dilations)], strides))


class KernelLayer(WindowLayer):
    """A layer with a kernel, a bias and an activation function."""

    kernel_size: Any = attribute("any", doc="size of the kernel per axis")
    dilation_rate: Any = attribute("any", 1, doc="dilation per axis")
    groups: int = attribute("int64", 1, doc="number of groups of channels that are convolved separately")
    use_bias: bool = attribute("bool", True, doc="whether a bias is added")
    activation: Any = attribute("any", None, doc="activation function of the output")

    def setup(self) -> None:
        super().setup()
        self.kernel = positive(self.kernel_size, self.rank, "kernel_size")
        self.steps = positive(1 if self.strides is None else self.strides, self.rank, "strides")
        self.dilations = positive(self.dilation_rate, self.rank, "dilation_rate")
        self.function = activation(self.activation, self.dialect)

    def bias(self, index: int, size: int) -> Array | None:
        """Return weight `index`, the bias, or None when the layer has none."""
        return self.blob(index, (size,), what="bias") if self.use_bias else None


def kernel_first(kernel: Array) -> Array:
    """Return a kernel (..., in, out) as (out, in, ...)."""
    rank = kernel.ndim
    return np.ascontiguousarray(kernel.transpose(rank - 1, rank - 2, *range(rank - 2)))
