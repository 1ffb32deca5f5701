"""Clip."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, field, layer
from anylayer.network import Array


@layer("Clip")
class Clip(Layer):
    """Clip each element to min..max: max(min, min(x, max)), so that the result is min where min is above max.

    NaN becomes min, as in Caffe; an engine may keep it. The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/clip_layer.cpp.
    """

    elementwise = True
    message = "clip_param"
    numbers = {"sophgo": 165, "": 148}
    min: float = field(1, "float", doc="smallest value")
    max: float = field(2, "float", doc="largest value")

    def forward(self, x: Array) -> Array:
        return ops.clip(x, self.min, self.max)
