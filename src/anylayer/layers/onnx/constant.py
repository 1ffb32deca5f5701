"""Constant: an array that the file holds."""

from __future__ import annotations

from typing import Any

from anylayer.errors import need
from anylayer.layer import Layer, layer


@layer("Constant")
class Constant(Layer):
    """An array that the file holds: an initializer, or an operator that gives one (ONNX Constant)."""

    message = ""

    def forward(self) -> Any:
        need(len(self._blobs) == 1, f"holds {len(self._blobs)} arrays, one is needed")
        return self._blobs[0]

    def check_blobs(self) -> None:
        """Its one blob is its output."""
