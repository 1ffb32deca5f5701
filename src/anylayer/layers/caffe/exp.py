"""Exp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.network import Array


@layer("Exp")
class Exp(Layer):
    """Compute base ** (shift + scale * x).

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/exp_layer.cpp.
    """

    elementwise = True
    message = "exp_param"
    numbers = {"": 111}
    base: float = field(1, "float", -1.0, doc="positive; -1 means e")
    scale: float = field(2, "float", 1.0, doc="factor of x")
    shift: float = field(3, "float", 0.0, doc="added to scale * x")

    def setup(self) -> None:
        need(self.base == -1 or 0 < self.base < math.inf, f"base must be positive, or -1 for e, got {self.base}")

    def forward(self, x: Array) -> Any:
        log_base = 1.0 if self.base == -1 else math.log(self.base)
        inner, outer = np.float32(log_base * self.scale), np.float32(np.exp(log_base * self.shift))
        y = np.exp(x if inner == 1 else x * inner)
        return y if outer == 1 else y * outer
