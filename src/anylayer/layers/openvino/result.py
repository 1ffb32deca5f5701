"""Network outputs."""

from __future__ import annotations

from anylayer.layer import layer
from anylayer.layers.openvino._base import OpenVINOLayer


@layer("Result")
class Result(OpenVINOLayer):
    """Mark an output of the network.

    Source: OpenVINO operation specification, Result-1.
    """

    role = "sink"
