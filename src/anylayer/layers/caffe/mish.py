"""Mish."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, layer
from anylayer.network import Array


@layer("Mish")
class Mish(Layer):
    """Compute x * tanh(log(1 + exp(x))).

    The output has the shape of the input. Source: arXiv 1908.08681.
    """

    elementwise = True

    def forward(self, x: Array) -> Any:
        return x * np.tanh(ops.softplus(x))
