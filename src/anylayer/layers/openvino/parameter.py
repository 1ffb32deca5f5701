"""Network inputs, network outputs and constants."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Array, attribute, layer, need
from anylayer.layers.openvino._base import OpenVINOLayer


@layer("Parameter")
class Parameter(OpenVINOLayer):
    """Declare an input of the network.

    Source: OpenVINO operation specification, Parameter-1.
    """

    role = "input"
    shape: Any = attribute("any", "", doc="sizes; ? for a size that is not fixed")
    element_type: str = attribute("string", "f32")


@layer("Result")
class Result(OpenVINOLayer):
    """Mark an output of the network.

    Source: OpenVINO operation specification, Result-1.
    """

    role = "sink"


@layer("Const")
class Const(OpenVINOLayer):
    """Return the array that the file holds, in its shape and dtype.

    Source: OpenVINO operation specification, Constant-1.
    """

    def forward(self) -> Array:
        need(self._blobs, "the file does not contain its value")
        return self.blob(0, self._blobs[0].shape)
