"""Const."""

from __future__ import annotations

from typing import Any

from anylayer.layer import layer, need
from anylayer.layers.openvino._base import Operation


@layer("Const")
class Const(Operation):
    """Values that the file holds.

    Source: OpenVINO, Constant-1.
    """

    def forward(self) -> Any:
        need(self._blobs, "its values are not in the file")
        return self.blob(0, self._blobs[0].shape)
