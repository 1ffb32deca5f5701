"""Parameter."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._messages import BlobShape, constant
from anylayer.network import Array


@layer("Parameter")
class Parameter(Layer):
    """Return a weight as an output; 0 without a weights file.

    `shape` states the shape of the weight and of the output.
    Source: BVLC/caffe include/caffe/layers/parameter_layer.hpp.
    """

    message = "parameter_param"
    numbers = {"": 145}
    shape: BlobShape = field(1, BlobShape, doc="shape of the weight")

    def forward(self) -> Array:
        shape = tuple(self.shape.dim)
        need(all(d >= 0 for d in shape), f"dimensions must be 0 or more, got {shape}")
        return self.blob(0, shape, constant(0))
