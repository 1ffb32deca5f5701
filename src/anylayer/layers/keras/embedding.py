"""Embedding, Masking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer


@layer("Embedding")
class Embedding(KerasLayer):
    """A row of a table for each whole number (keras/src/layers/core/embedding.py).

    Weights: embeddings (input_dim, output_dim).
    """

    harmless = frozenset({"input_length"})
    masks = "makes"

    input_dim: int = attribute("int64", doc="rows of the table")
    output_dim: int = attribute("int64", doc="values of a row")
    mask_zero: bool = attribute("bool", False, doc="whether the number 0 masks its step")
    weights: Any = attribute("any", None, doc="first values of the table, of no meaning once it is stored")

    @classmethod
    def makes_mask(cls, config: Mapping[str, Any]) -> bool:
        return config.get("mask_zero") is True

    def forward(self, x: Any) -> Any:
        """(N, ...) whole numbers to (N, ..., output_dim); where asked for, the mask x != 0."""
        table = self.blob(0, (self.input_dim, self.output_dim), what="embeddings")
        whole = x.astype(np.int64)
        y = ops.gather(table, whole, axis=0)
        return [y, whole != 0][: self.outputs]


@layer("Masking")
class Masking(KerasLayer):
    """Steps that are `mask_value` throughout become 0 and are masked (keras/src/layers/core/masking.py)."""

    masks = "makes"

    mask_value: float = attribute("double", 0.0, doc="the value of steps that do not count")

    def forward(self, x: Any) -> Any:
        """(N, T, ...) to the same shape; where asked for, the mask (N, T)."""
        other = (x != np.float32(self.mask_value)).astype(np.float32)
        kept = np.max(other, axis=-1, keepdims=True)
        return [x * kept, kept[..., 0] > 0][: self.outputs]
