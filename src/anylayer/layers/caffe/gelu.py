"""GELU."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, layer
from anylayer.network import Array


@layer("GELU")
class GELU(Layer):
    """Compute x * P(X <= x) for a standard normal X.

    The output has the shape of the input. Source: arXiv 1606.08415.
    """

    elementwise = True

    def forward(self, x: Array) -> Array:
        return ops.gelu(x)
