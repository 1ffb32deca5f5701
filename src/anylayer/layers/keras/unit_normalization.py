"""UnitNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.layers.keras.layer_normalization import axes_of


@layer("UnitNormalization")
class UnitNormalization(KerasLayer):
    """x / |x|, over `axis` of each item (keras/src/layers/normalization/unit_normalization.py)."""

    masks = "passes"
    called_with = frozenset({"mask"})

    axis: Any = attribute("any", -1, doc="axis or axes whose norm becomes 1")

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same shape; a vector of zeros stays."""
        squares = np.sum(x * x, axis=axes_of(self.axis, len(x.shape)), keepdims=True)
        return x / np.sqrt(np.maximum(squares, np.float32(1e-24)))
