"""Constants."""

from __future__ import annotations

from anylayer.layer import layer, need
from anylayer.layers.openvino._base import OpenVINOLayer
from anylayer.network import Array


@layer("Const")
class Const(OpenVINOLayer):
    """Return the array that the file holds, in its shape and dtype.

    Source: OpenVINO operation specification, Constant-1.
    """

    def forward(self) -> Array:
        need(self._blobs, "the file does not contain its value")
        return self.blob(0, self._blobs[0].shape)
