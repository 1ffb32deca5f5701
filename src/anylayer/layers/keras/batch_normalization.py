"""Batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.arguments import axis_of
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.network import Array


@layer("BatchNormalization")
class BatchNormalization(KerasLayer):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta per channel.

    (N, ...) to the same shape, where mean and variance are the stored statistics.
    Weights: gamma (with scale), beta (with center), moving mean, moving variance, each (channels,).
    Source: keras/src/layers/normalization/batch_normalization.py.
    """

    harmless = frozenset({"momentum", "synchronized", "renorm_clipping", "renorm_momentum", "fused"})
    masks = "passes"
    called_with = frozenset({"mask"})

    axis: Any = attribute("any", -1, doc="axis of the channels")
    epsilon: float = attribute("double", 1e-3, doc="added to the variance")
    center: bool = attribute("bool", True, doc="whether beta is added")
    scale: bool = attribute("bool", True, doc="whether gamma multiplies")
    renorm: bool = attribute("bool", False, doc="batch renormalization; only affects training")
    virtual_batch_size: Any = attribute("any", None, doc="only affects training")

    def forward(self, x: Array, mask: Any = None) -> Array:
        rank = len(x.shape)
        axes = self.axis if isinstance(self.axis, list) else [self.axis]
        need(len(axes) == 1 and type(axes[0]) is int, f"axis must be one integer, got {self.axis!r}")
        axis = axis_of(axes[0], rank)
        need(axis > 0 and rank > 1, f"axis={axes[0]} is the batch axis of an input of rank {rank}")
        shape, what = (x.shape[axis],), ["gamma"] * self.scale + ["beta"] * self.center
        blobs = {name: self.blob(i, shape, what=name) for i, name in enumerate(what)}
        gamma = blobs.get("gamma", np.ones(shape, np.float32))
        beta = blobs.get("beta", np.zeros(shape, np.float32))
        mean = self.blob(len(what), shape, what="moving mean")
        variance = self.blob(len(what) + 1, shape, what="moving variance")
        if self.renorm:
            self._skip_renorm(len(what) + 2)
        order = (0, axis, *(i for i in range(1, rank) if i != axis))
        y = ops.batch_normalization(x.transpose(order), gamma, beta, mean, variance, epsilon=self.epsilon)
        return y.transpose(tuple(int(i) for i in np.argsort(order)))

    def _skip_renorm(self, first: int) -> None:
        """Take the weights of batch renormalization, which only training uses."""
        for index in range(first, len(self._blobs)):
            self.blob(index, self._blobs[index].shape, what="renormalization")
