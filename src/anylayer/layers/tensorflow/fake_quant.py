"""Rounding of values to the steps that a quantized network would use."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Array, attribute, need
from anylayer.layer.arguments import constant
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer


def _round_to_levels(x: Array, min: Any, max: Any, num_bits: int, narrow_range: bool) -> Any:
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
