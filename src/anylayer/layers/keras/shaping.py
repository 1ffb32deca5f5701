"""Flatten, Reshape, Permute, RepeatVector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer


@layer("Flatten")
class Flatten(KerasLayer):
    """Each item as one row, in the order with the channels last (keras/src/layers/reshaping/flatten.py)."""

    data_format: Any = attribute("any", "channels_last", doc="where the channels lie")

    def forward(self, x: Any) -> Any:
        """(N, ...) to (N, values)."""
        rank = len(x.shape)
        if self.data_format == "channels_first" and rank > 2:
            x = x.transpose(0, *range(2, rank), 1)
        return x.reshape(x.shape[0], math.prod(x.shape[1:]))


@layer("Reshape")
class Reshape(KerasLayer):
    """The same values in another shape (keras/src/layers/reshaping/reshape.py)."""

    target_shape: Any = attribute("any", doc="the shape without the batch; one size may be -1")

    def forward(self, x: Any) -> Any:
        """(N, ...) to (N, *target_shape)."""
        shape, count = self.target_shape, math.prod(x.shape[1:])
        need(
            isinstance(shape, list) and all(type(d) is int and d >= -1 for d in shape) and shape.count(-1) <= 1,
            f"parameter 'target_shape' must be sizes with at most one -1, got {shape!r}",
        )
        known = math.prod(d for d in shape if d != -1)
        fits = known == count if -1 not in shape else known > 0 and count % known == 0
        need(fits, f"target_shape {shape} does not hold the {count} values of {tuple(x.shape)}")
        return x.reshape(x.shape[0], *(count // known if d == -1 else d for d in shape))


@layer("Permute")
class Permute(KerasLayer):
    """Axes in another order (keras/src/layers/reshaping/permute.py)."""

    dims: Any = attribute("any", doc="the axes in their new order, counted from 1")

    def forward(self, x: Any) -> Any:
        """(N, ...) to (N, ...)."""
        rank = len(x.shape)
        need(
            isinstance(self.dims, list) and sorted(self.dims) == list(range(1, rank)),
            f"dims must be the axes 1 to {rank - 1} in some order, got {self.dims}",
        )
        return x.transpose(0, *self.dims)


@layer("RepeatVector")
class RepeatVector(KerasLayer):
    """A row repeated as the steps of a sequence (keras/src/layers/reshaping/repeat_vector.py)."""

    n: int = attribute("int64", doc="number of steps")

    def forward(self, x: Any) -> Any:
        """(N, C) to (N, n, C)."""
        need(
            len(x.shape) == 2 and self.n > 0, f"takes (batch, values) and n > 0, got {tuple(x.shape)}, n={self.n}"
        )
        return np.repeat(x[:, None], self.n, axis=1)
