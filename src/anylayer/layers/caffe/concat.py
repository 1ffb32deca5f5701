"""Concat."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.layers.caffe._messages import INTEL, engine_field, no_effect
from anylayer.network import Array


@layer("Concat")
class Concat(Layer):
    """Concatenate the inputs along `axis`.

    All other sizes must be equal.
    Source: BVLC/caffe src/caffe/layers/concat_layer.cpp.
    """

    message = "concat_param"
    numbers = {"": 104}
    concat_dim: int = field(1, "uint32", 1, doc="older spelling of axis; not negative")
    axis: int = field(2, "int32", 1, doc="axis to concatenate along")

    engine: str = engine_field(3, INTEL)
    per_fla_fuse: bool = no_effect(4, "bool", False)

    def setup(self) -> None:
        need(not (self.has("axis") and self.has("concat_dim")), "give axis or concat_dim, not both")

    def forward(self, *inputs: Array) -> Array:
        need(inputs, "takes 1 input or more, got none")
        first = tuple(inputs[0].shape)
        if self.has("concat_dim"):
            axis = canonical(self.concat_dim, inputs[0], "concat_dim")
        else:
            axis = canonical(self.axis, inputs[0])
        for i, x in enumerate(inputs[1:], 1):
            need(
                len(x.shape) == len(first)
                and all(a == b for d, (a, b) in enumerate(zip(x.shape, first)) if d != axis),
                f"inputs must have the same shape except along axis {axis}: "
                f"input 0 is {first}, input {i} is {tuple(x.shape)}",
            )
        return inputs[0] if len(inputs) == 1 else np.concatenate(inputs, axis=axis)
