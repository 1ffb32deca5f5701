"""Pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anylayer import ops
from anylayer.layer.arguments import channels_first, restored
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import by_rank, positive
from anylayer.layers.keras._spatial import WindowLayer
from anylayer.network import Array


class PoolingLayer(WindowLayer):
    """A reduction of each window of each channel to one number."""

    pool_size: Any = attribute("any", 2, doc="size of the window per axis")

    def setup(self) -> None:
        super().setup()
        self.kernel = positive(self.pool_size, self.rank, "pool_size")
        self.steps = positive(self.pool_size if self.strides is None else self.strides, self.rank, "strides")

    def pool_windows(self, x: Array, pool: Callable[..., Any]) -> Any:
        """Return `pool` of the windows of `x` (N, ..., C). Padded cells are ignored."""
        self.need_rank(x)
        x = channels_first(x, self.data_format)
        pads = self.pads(x.shape[2:], self.kernel, self.steps, (1,) * self.rank)
        return restored(pool(x, self.kernel, strides=self.steps, pads=pads), self.data_format)


class MaxPooling(PoolingLayer):
    """The maximum of each window."""

    def forward(self, x: Array) -> Any:
        return self.pool_windows(x, ops.max_pool)


class AveragePooling(PoolingLayer):
    """The mean of each window."""

    def forward(self, x: Array) -> Any:
        return self.pool_windows(x, ops.average_pool)


_SHAPES = """(N, {sizes}, C) to (N, {new}, C); data_format channels_first puts C at axis 1. Padded cells are
    ignored. Source: keras/src/layers/pooling/"""

by_rank(MaxPooling, "Compute the maximum of each window over {axes}.", _SHAPES + "max_pooling{rank}d.py.")
by_rank(AveragePooling, "Compute the mean of each window over {axes}.", _SHAPES + "average_pooling{rank}d.py.")
