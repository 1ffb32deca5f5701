"""Pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anylayer import ops
from anylayer.layer import layer
from anylayer.layer.arguments import channels_first, restored
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import positive
from anylayer.layers.keras._spatial import Windows


class Pooling(Windows):
    """A reduction of each window of each channel to one number."""

    pool_size: Any = attribute("any", 2, doc="size of the window per axis")

    def setup(self) -> None:
        super().setup()
        self.kernel = positive(self.pool_size, self.rank, "pool_size")
        self.steps = positive(self.pool_size if self.strides is None else self.strides, self.rank, "strides")

    def pooled(self, x: Any, pool: Callable[..., Any]) -> Any:
        """Return `pool` of the windows of `x` (N, ..., C). Padded cells do not count."""
        self.need_rank(x)
        x = channels_first(x, self.data_format)
        pads = self.pads(x.shape[2:], self.kernel, self.steps, (1,) * self.rank)
        return restored(pool(x, self.kernel, strides=self.steps, pads=pads), self.data_format)


class MaxPooling(Pooling):
    """The maximum of each window."""

    def forward(self, x: Any) -> Any:
        return self.pooled(x, ops.max_pool)


class AveragePooling(Pooling):
    """The mean of each window."""

    def forward(self, x: Any) -> Any:
        return self.pooled(x, ops.average_pool)


@layer("MaxPooling1D")
class MaxPooling1D(MaxPooling):
    """Compute the maximum of each window over one axis.

    (N, T, C) to (N, T', C); data_format channels_first puts C at axis 1. Padded cells do not count.
    Source: keras/src/layers/pooling/max_pooling1d.py.
    """

    rank = 1


@layer("MaxPooling2D")
class MaxPooling2D(MaxPooling):
    """Compute the maximum of each window over two axes.

    (N, H, W, C) to (N, H', W', C); data_format channels_first puts C at axis 1. Padded cells do not count.
    Source: keras/src/layers/pooling/max_pooling2d.py.
    """


@layer("MaxPooling3D")
class MaxPooling3D(MaxPooling):
    """Compute the maximum of each window over three axes.

    (N, D, H, W, C) to (N, D', H', W', C); data_format channels_first puts C at axis 1. Padded cells do not count.
    Source: keras/src/layers/pooling/max_pooling3d.py.
    """

    rank = 3


@layer("AveragePooling1D")
class AveragePooling1D(AveragePooling):
    """Compute the mean of each window over one axis.

    (N, T, C) to (N, T', C); data_format channels_first puts C at axis 1. Padded cells do not count.
    Source: keras/src/layers/pooling/average_pooling1d.py.
    """

    rank = 1


@layer("AveragePooling2D")
class AveragePooling2D(AveragePooling):
    """Compute the mean of each window over two axes.

    (N, H, W, C) to (N, H', W', C); data_format channels_first puts C at axis 1. Padded cells do not count.
    Source: keras/src/layers/pooling/average_pooling2d.py.
    """


@layer("AveragePooling3D")
class AveragePooling3D(AveragePooling):
    """Compute the mean of each window over three axes.

    (N, D, H, W, C) to (N, D', H', W', C); data_format channels_first puts C at axis 1. Padded cells do not count.
    Source: keras/src/layers/pooling/average_pooling3d.py.
    """

    rank = 3
