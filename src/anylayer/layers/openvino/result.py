"""Result."""

from __future__ import annotations

from anylayer.layer import layer
from anylayer.layers.openvino._base import Operation


@layer("Result")
class Result(Operation):
    """An output of the network.

    Source: OpenVINO, Result-1.
    """

    role = "sink"
