"""Split."""

from __future__ import annotations

from anylayer.layer import Layer, layer
from anylayer.network import Array


@layer("Split")
class Split(Layer):
    """Return the input once per output.

    Each output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/split_layer.cpp.
    """

    elementwise = True

    def forward(self, x: Array) -> list[Array]:
        return [x] * self.outputs
