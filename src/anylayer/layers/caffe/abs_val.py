"""AbsVal."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Layer, layer, need
from anylayer.network import Array


@layer("AbsVal")
class AbsVal(Layer):
    """Compute the absolute value of each element.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/absval_layer.cpp.
    """

    elementwise = True

    def forward(self, x: Array) -> Array:
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        return np.abs(x)
