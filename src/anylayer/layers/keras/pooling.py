"""MaxPooling1D, 2D, 3D and AveragePooling1D, 2D, 3D."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anylayer import ops
from anylayer.layer import layer
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import channels_first, positive, restored
from anylayer.layers.keras._spatial import Windows


class Pooling(Windows):
    """A number for each window of each channel."""

    pool_size: Any = attribute("any", 2, doc="size of the window by axis")

    def setup(self) -> None:
        super().setup()
        self.kernel = positive(self.pool_size, self.rank, "pool_size")
        self.steps = positive(self.pool_size if self.strides is None else self.strides, self.rank, "strides")

    def pooled(self, x: Any, pool: Callable[..., Any]) -> Any:
        """(N, ..., C) with one cell for each window; padding counts for nothing."""
        self.need_rank(x)
        x = channels_first(x, self.data_format)
        pads = self.pads(x.shape[2:], self.kernel, self.steps, (1,) * self.rank)
        return restored(pool(x, self.kernel, strides=self.steps, pads=pads), self.data_format)


class MaxPooling(Pooling):
    """The largest value of each window."""

    def forward(self, x: Any) -> Any:
        """(N, ..., C) to (N, ..., C)."""
        return self.pooled(x, ops.max_pool)


class AveragePooling(Pooling):
    """The mean of each window's cells within the input."""

    def forward(self, x: Any) -> Any:
        """(N, ..., C) to (N, ..., C)."""
        return self.pooled(x, ops.average_pool)


@layer("MaxPooling1D")
class MaxPooling1D(MaxPooling):
    """The largest value of each window of one axis (keras/src/layers/pooling/max_pooling1d.py)."""

    rank = 1


@layer("MaxPooling2D")
class MaxPooling2D(MaxPooling):
    """The largest value of each window of two axes (keras/src/layers/pooling/max_pooling2d.py)."""


@layer("MaxPooling3D")
class MaxPooling3D(MaxPooling):
    """The largest value of each window of three axes (keras/src/layers/pooling/max_pooling3d.py)."""

    rank = 3


@layer("AveragePooling1D")
class AveragePooling1D(AveragePooling):
    """The mean of each window of one axis (keras/src/layers/pooling/average_pooling1d.py)."""

    rank = 1


@layer("AveragePooling2D")
class AveragePooling2D(AveragePooling):
    """The mean of each window of two axes (keras/src/layers/pooling/average_pooling2d.py)."""


@layer("AveragePooling3D")
class AveragePooling3D(AveragePooling):
    """The mean of each window of three axes (keras/src/layers/pooling/average_pooling3d.py)."""

    rank = 3
