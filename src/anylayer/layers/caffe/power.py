"""Power."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Layer, field, layer
from anylayer.network import Array


@layer("Power")
class Power(Layer):
    """Compute (shift + scale * x) ** power.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/power_layer.cpp.
    """

    elementwise = True
    message = "power_param"
    numbers = {"": 122}
    power: float = field(1, "float", 1.0, doc="exponent")
    scale: float = field(2, "float", 1.0, doc="factor of x")
    shift: float = field(3, "float", 0.0, doc="added to scale * x")

    def forward(self, x: Array) -> Array:
        if self.power * self.scale == 0:
            with np.errstate(all="ignore"):
                value = np.float32(1) if self.power == 0 else np.float32(self.shift) ** np.float32(self.power)
            return np.full(x.shape, value, np.float32)
        y = x if self.scale == 1 else x * np.float32(self.scale)
        y = y if self.shift == 0 else y + np.float32(self.shift)
        if self.power == 1:
            return y
        if self.power == 2:
            return y * y
        return np.sqrt(y) if self.power == 0.5 else y ** np.float32(self.power)
