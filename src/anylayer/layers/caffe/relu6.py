"""ReLU6."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._messages import engine_field, no_effect
from anylayer.layers.caffe.relu import ReLU
from anylayer.network import Array


@layer("ReLU6")
class ReLU6(Layer):
    """Compute min(x, 6) where x > 0, else negative_slope * x.

    Some forks read relu_param, others relu6_param; both are accepted.
    Source: eric612/MobileNet-YOLO src/caffe/layers/relu6_layer.cpp.
    """

    elementwise = True
    message = "relu6_param"
    numbers = {"sophgo": 167, "amct": 2060, "": 100000}
    also = {"relu_param": ReLU}
    relu_param: ReLU
    negative_slope: float = field(1, "float", 0.0, doc="factor of negative values")
    engine: str = engine_field(2)

    fuse: bool = no_effect(3, "bool", False)

    def forward(self, x: Array) -> Any:
        need(
            not (self.has("negative_slope") and self.relu_param.has("negative_slope")),
            "give negative_slope in relu6_param or in relu_param, not in both",
        )
        slope = self.negative_slope or self.relu_param.negative_slope
        if slope == 0:
            return np.clip(x, np.float32(0), np.float32(6))
        return np.minimum(ops.leaky_relu(x, slope), np.float32(6))
