"""Silence."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Layer, layer
from anylayer.network import Array


@layer("Silence")
class Silence(Layer):
    """Consume any number of inputs, so that they are not outputs of the network.

    The inputs may have any shapes.
    Source: BVLC/caffe src/caffe/layers/silence_layer.cpp.
    """

    role = "sink"

    def forward(self, *inputs: Array) -> Any:
        return []
