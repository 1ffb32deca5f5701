"""Quantized numbers: to real numbers, and rounding to the steps that a quantized network would use."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Array, Enum, attribute, layer, need
from anylayer.layer.arguments import axis_of, constant
from anylayer.layers._arrays import round_half_away
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer

_f = np.float32


@layer("Dequantize")
class Dequantize(TensorFlowLayer):
    """Map integers linearly to the range min_range..max_range.

    x holds integers; the output is float32 of the same shape. min_range and max_range are constants: one number,
    or one per slice of `axis`. With the lowest and the largest value of the dtype, L and H:

        MIN_COMBINED: (x + half) * (max - min) / (H - L) + min, half = (H - L + 1) / 2 for signed dtypes, else 0
        MIN_FIRST:    (x - L) * step + round(min / step) * step, step = (max - min) / (H - L)
        SCALED:       x * max(min / (L + narrow_range), max / H); for unsigned dtypes x * max / H

    Source: tf.raw_ops.Dequantize; tensorflow/core/kernels/dequantize_op.cc, quantization_utils.h.
    """

    mode: str = attribute(Enum("MIN_COMBINED", "MIN_FIRST", "SCALED"), "MIN_COMBINED")
    narrow_range: bool = attribute("bool", False)
    axis: int = attribute("int64", -1)
    dtype: str = attribute("string", "float32")

    def forward(self, x: Array, low: Array, high: Array) -> Array:
        need(x.dtype.kind in "iu", f"the input must hold integers, got {x.dtype}")
        need(self.dtype == "float32", f"dtype must be float32, got {self.dtype}")
        need(self.mode != "MIN_FIRST" or self.axis == -1, f"mode MIN_FIRST needs axis=-1, got axis={self.axis}")
        bottom, top = (self._bound(x, v, n) for v, n in ((low, "min_range"), (high, "max_range")))
        lowest, highest = (int(v) for v in (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max))
        if self.mode == "SCALED":
            return x.astype(np.float32) * self._scale(bottom, top, lowest, highest)
        if self.mode == "MIN_FIRST":
            step = (top - bottom) / _f(highest - lowest)
            rounded = np.where(top == bottom, bottom, round_half_away(bottom / step) * step).astype(np.float32)
            return (x.astype(np.float32) - _f(lowest)) * step + rounded
        half = _f((highest - lowest + 1) / 2 if lowest else 0)
        return (x.astype(np.float32) + half) * ((top - bottom) / _f(highest - lowest)) + bottom

    def _scale(self, bottom: Array, top: Array, lowest: int, highest: int) -> Array:
        """Return the real number that one integer step stands for in mode SCALED."""
        if not lowest:
            return top / _f(highest)
        return np.maximum(bottom / _f(lowest + self.narrow_range), top / _f(highest))

    def _bound(self, x: Array, bound: Array, what: str) -> Array:
        """Return a bound of the range as a float32 array that broadcasts to `x`."""
        values = np.asarray(constant(bound, what), np.float32)
        if self.axis == -1:
            need(values.size == 1, f"{what} must be one number, got shape {values.shape}")
            return values.reshape(())
        axis = axis_of(self.axis, len(x.shape))
        need(
            values.size == x.shape[axis],
            f"{what} must be {x.shape[axis]} numbers, one per slice of axis {axis}, got {values.size}",
        )
        return values.reshape([-1 if i == axis else 1 for i in range(len(x.shape))])


def _round_to_levels(x: Array, min: Any, max: Any, num_bits: int, narrow_range: bool) -> Array:
    """Return the rounded values for constant bounds, which broadcast to `x`.

    With first = 1 if narrow_range else 0, last = 2^num_bits - 1 and scale = (max - min) / (last - first), the zero
    point is first - min / scale, rounded to an integer and clipped to first..last. The output is floor((clip(x) -
    low) / scale + 0.5) * scale + low, where low = (first - zero) * scale and x is clipped to low..(last - zero) *
    scale. Source: Nudge in tensorflow/core/kernels/fake_quant_ops_functor.h.
    """
    need(2 <= num_bits <= 16, f"num_bits must lie in 2..16, got {num_bits}")
    first, last = np.float32(1 if narrow_range else 0), np.float32((1 << num_bits) - 1)
    bottom, top = np.asarray(min, np.float32), np.asarray(max, np.float32)
    need((bottom < top).all(), "min must be below max")
    scale = (top - bottom) / (last - first)
    zero = np.clip(np.floor(first - bottom / scale + np.float32(0.5)), first, last)
    lowest, highest = (first - zero) * scale, (last - zero) * scale
    held = np.minimum(np.maximum(x, lowest), highest)
    steps = np.floor((held - lowest) * (1 / scale) + np.float32(0.5))
    return steps * scale + lowest


_BITS = {"num_bits": attribute("int64", 8), "narrow_range": attribute("bool", False)}
_VARIABLE = row("Round values to the 2^num_bits steps of a range given by constant inputs.", _round_to_levels,
    details="min and max are scalars, or have one number per channel, the last axis of x.",
    min=constant, max=constant, **_BITS)  # fmt: skip

operators(
    TensorFlowLayer,
    "The output has the shape of x. The range is moved so that 0 is a step; values outside are clipped.\n"
    f"    {SOURCE}fake_quant_ops_functor.h.",
    {
        "FakeQuantWithMinMaxArgs": row("Round values to the 2^num_bits steps of a range given by attributes.",
            _round_to_levels, min=attribute("float", -6.0), max=attribute("float", 6.0), **_BITS),
        "FakeQuantWithMinMaxVars": _VARIABLE,
        "FakeQuantWithMinMaxVarsPerChannel": _VARIABLE,
    },
)  # fmt: skip
