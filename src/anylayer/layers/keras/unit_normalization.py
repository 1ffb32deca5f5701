"""Unit normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.layers.keras.layer_normalization import axes_of
from anylayer.network import Array


@layer("UnitNormalization")
class UnitNormalization(KerasLayer):
    """Compute x / |x| with the Euclidean length |x| over `axis` of each item.

    (N, ...) to the same shape. Vectors of zeros stay zeros.
    Source: keras/src/layers/normalization/unit_normalization.py.
    """

    masks = "passes"
    called_with = frozenset({"mask"})

    axis: Any = attribute("any", -1, doc="axis or axes of the vectors that get length 1")

    def forward(self, x: Array, mask: Any = None) -> Any:
        squares = np.sum(x * x, axis=axes_of(self.axis, len(x.shape)), keepdims=True)
        return x / np.sqrt(np.maximum(squares, np.float32(1e-24)))
