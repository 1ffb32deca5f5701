"""Log."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.network import Array


@layer("Log")
class Log(Layer):
    """Compute the logarithm to `base` of shift + scale * x.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/log_layer.cpp.
    """

    elementwise = True
    message = "log_param"
    numbers = {"": 134}
    base: float = field(1, "float", -1.0, doc="positive and not 1; -1 means e")
    scale: float = field(2, "float", 1.0, doc="factor of x")
    shift: float = field(3, "float", 0.0, doc="added to scale * x")

    def setup(self) -> None:
        need(
            self.base == -1 or (0 < self.base < math.inf and self.base != 1),
            f"base must be positive and not 1, or -1 for e, got {self.base}",
        )

    def forward(self, x: Array) -> Any:
        inner = x if self.scale == 1 else x * np.float32(self.scale)
        y = np.log(inner if self.shift == 0 else inner + np.float32(self.shift))
        return y if self.base == -1 else y * np.float32(1 / math.log(self.base))


@layer("Log", dialects=("opencv",))
class LogOpenCV(Log):
    """Compute the natural logarithm of x: OpenCV ignores base, scale and shift.

    The output has the shape of the input.
    Source: opencv modules/dnn/src/layers/elementwise_layers.cpp.
    """

    needs_dialect = True

    def setup(self) -> None:
        ignored = [name for name in type(self).fields if self.has(name)]
        if ignored:
            self.note(
                f"{', '.join(ignored)} ignored, as by OpenCV: the result is the natural logarithm of the input"
            )

    def forward(self, x: Array) -> Any:
        return np.log(x)
