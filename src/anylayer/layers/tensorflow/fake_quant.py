"""Rounding of values to the steps that a quantized network would use."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import TensorFlowLayer, attribute, constant, layer, need
from anylayer.network import Array


class _Rounding(TensorFlowLayer):
    """Rounding to the steps of a range, which is first moved so that 0 is a step.

    With first = 1 if narrow_range else 0, last = 2^num_bits - 1 and scale = (max - min) / (last - first), the zero
    point is first - min / scale, rounded to an integer and clipped to first..last. The output is floor((clip(x) -
    low) / scale + 0.5) * scale + low, where low = (first - zero) * scale and x is clipped to low..(last - zero) *
    scale. Source: Nudge in tensorflow/core/kernels/fake_quant_ops_functor.h.
    """

    num_bits: int = attribute("int64", 8)
    narrow_range: bool = attribute("bool", False)

    def round_to_levels(self, x: Any, low: Any, high: Any) -> Any:
        """Return the rounded values for constant bounds `low` and `high`, which broadcast to `x`."""
        need(2 <= self.num_bits <= 16, f"num_bits must lie in 2..16, got {self.num_bits}")
        first = np.float32(1 if self.narrow_range else 0)
        last = np.float32((1 << self.num_bits) - 1)
        bottom, top = (np.asarray(constant(v, n), np.float32) for v, n in ((low, "min"), (high, "max")))
        need((bottom < top).all(), "min must be below max")
        scale = (top - bottom) / (last - first)
        zero = first - bottom / scale
        zero = np.clip(np.floor(zero + np.float32(0.5)), first, last)
        lowest, highest = (first - zero) * scale, (last - zero) * scale
        held = np.minimum(np.maximum(x, lowest), highest)
        steps = np.floor((held - lowest) * (1 / scale) + np.float32(0.5))
        return steps * scale + lowest


@layer("FakeQuantWithMinMaxArgs")
class FakeQuantWithMinMaxArgs(_Rounding):
    """Round values to the 2^num_bits steps of a range given by attributes.

    x and the output have the same shape. The range min..max is moved so that 0 is a step; values outside are
    clipped.
    Source: tf.raw_ops.FakeQuantWithMinMaxArgs; tensorflow/core/kernels/fake_quant_ops_functor.h.
    """

    min: float = attribute("float", -6.0)
    max: float = attribute("float", 6.0)

    def forward(self, x: Array) -> Any:
        return self.round_to_levels(x, np.float32(self.min), np.float32(self.max))


@layer("FakeQuantWithMinMaxVars")
@layer("FakeQuantWithMinMaxVarsPerChannel")
class FakeQuantWithMinMaxVars(_Rounding):
    """Round values to the 2^num_bits steps of a range given by constant inputs.

    x and the output have the same shape. min and max are scalars, or have one number per channel, the last axis of
    x. The range is moved so that 0 is a step; values outside are clipped.
    Source: tf.raw_ops.FakeQuantWithMinMaxVars, tf.raw_ops.FakeQuantWithMinMaxVarsPerChannel;
    tensorflow/core/kernels/fake_quant_ops_functor.h.
    """

    def forward(self, x: Array, low: Array, high: Array) -> Any:
        return self.round_to_levels(x, low, high)
