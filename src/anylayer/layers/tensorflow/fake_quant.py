"""Values rounded as a quantised network would have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import Operation, attribute, known, layer, need


class _Rounding(Operation):
    """Held within a range and rounded to its steps; the range is first moved so that 0 is a step
    (core/kernels/fake_quant_ops_functor.h, Nudge)."""

    num_bits: int = attribute("int64", 8)
    narrow_range: bool = attribute("bool", False)

    def rounded(self, x: Any, low: Any, high: Any) -> Any:
        """The values, for bounds known before the network runs."""
        need(2 <= self.num_bits <= 16, f"num_bits must lie in 2..16, got {self.num_bits}")
        first = np.float32(1 if self.narrow_range else 0)
        last = np.float32((1 << self.num_bits) - 1)
        bottom, top = (np.asarray(known(v, n), np.float32) for v, n in ((low, "min"), (high, "max")))
        need((bottom < top).all(), "min must be below max")
        scale = (top - bottom) / (last - first)
        zero = first - bottom / scale
        zero = np.clip(np.floor(zero + np.float32(0.5)), first, last)
        least, most = (first - zero) * scale, (last - zero) * scale
        held = np.minimum(np.maximum(x, least), most)
        steps = np.floor((held - least) * (1 / scale) + np.float32(0.5))
        return steps * scale + least


@layer("FakeQuantWithMinMaxArgs")
class FakeQuantWithMinMaxArgs(_Rounding):
    """Rounding to the steps of a range that attributes give."""

    min: float = attribute("float", -6.0)
    max: float = attribute("float", 6.0)

    def forward(self, x: Any) -> Any:
        return self.rounded(x, np.float32(self.min), np.float32(self.max))


@layer("FakeQuantWithMinMaxVars")
@layer("FakeQuantWithMinMaxVarsPerChannel")
class FakeQuantWithMinMaxVars(_Rounding):
    """Rounding to the steps of a range that inputs give, one for all or one a channel."""

    def forward(self, x: Any, low: Any, high: Any) -> Any:
        return self.rounded(x, low, high)
