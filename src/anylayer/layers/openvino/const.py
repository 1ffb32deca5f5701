"""Constants."""

from __future__ import annotations

from typing import Any

from anylayer.layer import layer, need
from anylayer.layers.openvino._base import OpenVINOLayer


@layer("Const")
class Const(OpenVINOLayer):
    """Return the array that the file holds, in its shape and dtype.

    Source: OpenVINO operation specification, Constant-1.
    """

    def forward(self) -> Any:
        need(self._blobs, "the file does not contain its value")
        return self.blob(0, self._blobs[0].shape)
