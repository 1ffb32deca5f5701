"""Parameter."""

from __future__ import annotations

from typing import Any

from anylayer.layer import layer
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation


@layer("Parameter")
class Parameter(Operation):
    """An input of the network.

    Source: OpenVINO, Parameter-1.
    """

    role = "input"
    shape: Any = attribute("any", "", doc="sizes, ? where one is open")
    element_type: str = attribute("string", "f32")
