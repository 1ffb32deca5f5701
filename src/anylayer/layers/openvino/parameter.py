"""Network inputs."""

from __future__ import annotations

from typing import Any

from anylayer.layer import attribute, layer
from anylayer.layers.openvino._base import OpenVINOLayer


@layer("Parameter")
class Parameter(OpenVINOLayer):
    """Declare an input of the network.

    Source: OpenVINO operation specification, Parameter-1.
    """

    role = "input"
    shape: Any = attribute("any", "", doc="sizes; ? for a size that is not fixed")
    element_type: str = attribute("string", "f32")
