"""HardSwish."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layer import Layer, layer
from anylayer.network import Array


@layer("HardSwish")
class HardSwish(Layer):
    """Compute x * min(max(x + 3, 0), 6) / 6.

    The output has the shape of the input.
    Source: MobileNet v3, arXiv 1905.02244.
    """

    elementwise = True

    def forward(self, x: Array) -> Any:
        return x * ops.hard_sigmoid(x, 1 / 6, 0.5)
