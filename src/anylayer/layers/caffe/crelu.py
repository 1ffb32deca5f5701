"""CReLU (concatenated ReLU)."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.network import Array


@layer("CReLU")
class CReLU(Layer):
    """Concatenate ReLU of x and ReLU of -x along `concat_axis`.

    Source: Cambricon/caffe src/caffe/layers/crelu_layer.cpp; arXiv 1603.05201.
    """

    message = "crelu_param"
    negative_slope: float = field(1, "float", 0.0, doc="factor of negative values")
    concat_axis: int = field(2, "int32", 1, doc="axis along which both are concatenated")

    def forward(self, x: Array) -> Array:
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        both = np.concatenate([x, -x], axis=canonical(self.concat_axis, x, "concat_axis"))
        return ops.relu(both) if self.negative_slope == 0 else ops.leaky_relu(both, self.negative_slope)
