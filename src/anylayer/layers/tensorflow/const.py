"""Const: values that the file holds."""

from __future__ import annotations

from typing import Any

from anylayer.layers.tensorflow._base import Operation, attribute, layer, need


@layer("Const")
class Const(Operation):
    """Values that the file holds."""

    dtype: str = attribute("string")

    def forward(self) -> Any:
        need(len(self._blobs) == 1, f"a constant has one value, got {len(self._blobs)}")
        return self.blob(0, self._blobs[0].shape, what="value")
