"""Silence."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Layer, layer


@layer("Silence")
class Silence(Layer):
    """Take any number of inputs and give nothing, so that they are no outputs of the network.

    Source: BVLC/caffe src/caffe/layers/silence_layer.cpp.
    """

    role = "sink"

    def forward(self, *inputs: Any) -> Any:
        return []
