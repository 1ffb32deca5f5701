"""Mean (FlowNet)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer.layer import Enum, Layer, field, layer, need
from anylayer.layers.caffe._resampling import plane_of
from anylayer.network import Array


@layer("Mean")
class Mean(Layer):
    """Compute output_scale * (input_scale * x +- mean_scale * value) with one value per channel.

    Each input (N, C, H, W) gives an output of its shape. Fewer values than channels are repeated.
    Source: lmb-freiburg/flownet2 src/caffe/layers/mean_layer.cpp.
    """

    elementwise = True
    message = "mean_param"
    numbers: ClassVar = {"synopsys": 154}
    operation: str = field(1, Enum(ADD=1, SUBTRACT=4), doc="whether the mean is added or subtracted")
    file: str = field(2, "string", "", doc="a mean image, which is not supported")
    value: tuple[float, ...] = field(3, "float", repeated=True, doc="the means of the channels")
    mean_scale: float = field(4, "float", 1.0, doc="factor of the mean")
    input_scale: float = field(5, "float", 1.0, doc="factor of the input")
    output_scale: float = field(6, "float", 1.0, doc="factor of the output")

    def setup(self) -> None:
        need(not self.has("file"), f"a mean image ('{self.file}') is not supported; give its means as value")
        need(self.value, "needs at least one value")

    def forward(self, *inputs: Array) -> list[Array]:
        need(self.outputs == len(inputs), f"{len(inputs)} inputs need {len(inputs)} outputs, got {self.outputs}")
        return [self._subtract(x, i) for i, x in enumerate(inputs)]

    def _subtract(self, x: Array, i: int) -> Array:
        plane_of(x, f"input {i}")
        channels, count = x.shape[1], len(self.value)
        need(channels % count == 0, f"{count} values do not divide the {channels} channels of input {i}")
        sign = np.float32(-1 if self.operation == "SUBTRACT" else 1)
        mean = np.tile(np.array(self.value, np.float32), channels // count) * sign * np.float32(self.mean_scale)
        scaled = x * np.float32(self.input_scale) if self.input_scale != 1 else x
        result = scaled + mean.reshape(-1, 1, 1)
        return result * np.float32(self.output_scale) if self.output_scale != 1 else result
