"""Flatten."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.network import Array


@layer("Flatten")
class Flatten(Layer):
    """Flatten the axes from `axis` to `end_axis` into one.

    Source: BVLC/caffe src/caffe/layers/flatten_layer.cpp.
    """

    message = "flatten_param"
    numbers = {"": 135}
    axis: int = field(1, "int32", 1, doc="first axis to flatten")
    end_axis: int = field(2, "int32", -1, doc="last axis to flatten")

    def forward(self, x: Array) -> Array:
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        start, end = canonical(self.axis, x), canonical(self.end_axis, x, "end_axis")
        need(start <= end, f"axis must not lie after end_axis, got axis {start} and end_axis {end}")
        merged = 1
        for size in x.shape[start : end + 1]:
            merged *= size
        return x.reshape(*x.shape[:start], merged, *x.shape[end + 1 :])
