"""Embedding and Masking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.network import Array


@layer("Embedding")
class Embedding(KerasLayer):
    """Return the row of a table for each integer.

    (N, ...) integers to (N, ..., output_dim); with mask_zero the second output is the mask x != 0.
    Weights: embeddings (input_dim, output_dim).
    Source: keras/src/layers/core/embedding.py.
    """

    harmless = frozenset({"input_length"})
    masks = "makes"

    input_dim: int = attribute("int64", doc="number of rows of the table")
    output_dim: int = attribute("int64", doc="size of a row")
    mask_zero: bool = attribute("bool", False, doc="whether the integer 0 masks its step")
    weights: Any = attribute("any", None, doc="initial values of the table; no effect once the weights are stored")

    @classmethod
    def makes_mask(cls, config: Mapping[str, Any]) -> bool:
        return config.get("mask_zero") is True

    def forward(self, x: Array) -> list[Array]:
        table = self.blob(0, (self.input_dim, self.output_dim), what="embeddings")
        whole = x.astype(np.int64)
        y = ops.gather(table, whole, axis=0)
        return [y, whole != 0][: self.outputs]


@layer("Masking")
class Masking(KerasLayer):
    """Set the steps whose elements all equal mask_value to 0, and mask them.

    (N, T, ...) to the same shape; the second output is the mask (N, T).
    Source: keras/src/layers/core/masking.py.
    """

    masks = "makes"

    mask_value: float = attribute("double", 0.0, doc="value of the steps that are masked")

    def forward(self, x: Array) -> list[Array]:
        other = (x != np.float32(self.mask_value)).astype(np.float32)
        is_real = np.max(other, axis=-1, keepdims=True)
        return [x * is_real, is_real[..., 0] > 0][: self.outputs]
