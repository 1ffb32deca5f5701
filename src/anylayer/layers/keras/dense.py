"""Dense layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._activations import activation
from anylayer.layers.keras._base import KerasLayer
from anylayer.network import Array


@layer("Dense")
class Dense(KerasLayer):
    """Compute activation(x @ kernel + bias) over the last axis.

    (N, ..., channels) to (N, ..., units).
    Weights: kernel (channels, units), bias (units,).
    Source: keras/src/layers/core/dense.py.
    """

    masks = "passes"

    units: int = attribute("int64", doc="number of outputs")
    use_bias: bool = attribute("bool", True, doc="whether a bias is added")
    activation: Any = attribute("any", None, doc="activation function of the output")

    def forward(self, x: Array) -> Any:
        need(len(x.shape) >= 2, f"takes an input of rank 2 or more, got {tuple(x.shape)}")
        y = x @ self.blob(0, (x.shape[-1], self.units), what="kernel")
        if self.use_bias:
            y = y + self.blob(1, (self.units,), what="bias")
        return activation(self.activation, self.dialect)(y)


@layer("EinsumDense")
class EinsumDense(KerasLayer):
    """Compute activation(einsum(equation, x, kernel) + bias).

    The shapes are those of the equation, for example (N, a, c) to (N, a, d) for abc,cd->abd.
    Weights: kernel with the axes of the equation; bias with the axes bias_axes, if given.
    Source: keras/src/layers/core/einsum_dense.py.
    """

    masks = "passes"

    equation: str = attribute("string", doc="for example abc,cd->abd")
    output_shape: Any = attribute("any", doc="shape of the output, without the batch")
    bias_axes: Any = attribute("any", None, doc="letters of the output axes along which the bias varies")
    activation: Any = attribute("any", None, doc="activation function of the output")

    def forward(self, x: Array) -> Any:
        first, kernel, result, sizes_in, sizes_out = self._shapes(x)
        sizes = {**dict(zip(result, sizes_out)), **dict(zip(first, sizes_in))}
        need(
            all(c in sizes for c in kernel),
            f"equation '{self.equation}': input and output_shape do not determine all sizes of '{kernel}'",
        )
        w = self.blob(0, tuple(sizes[c] for c in kernel), what="kernel")
        y = np.einsum(f"{first},{kernel}->{result}", x, w)
        if self.bias_axes:
            need(
                set(self.bias_axes) <= set(result),
                f"bias_axes '{self.bias_axes}' must be among the axes '{result}' of the output",
            )
            first_kept = min(result.index(c) for c in self.bias_axes)
            shape = tuple(sizes[c] if c in self.bias_axes else 1 for c in result[first_kept:])
            y = y + self.blob(1, shape, what="bias")
        return activation(self.activation, self.dialect)(y)

    def _shapes(self, x: Array) -> tuple[str, str, str, tuple[int, ...], tuple[Any, ...]]:
        """Return the letters of input, kernel and output, with `...` expanded, and the known sizes."""
        left, _, result = self.equation.replace(" ", "").partition("->")
        first, _, kernel = left.partition(",")
        rank = len(x.shape)
        free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in self.equation]
        more = "".join(free[: max(rank - len(first.replace("...", "")), 0)])
        first, result = first.replace("...", more), result.replace("...", more)
        need(
            bool(kernel) and kernel.isalpha() and first.isalpha() and len(first) == rank,
            f"equation '{self.equation}' does not fit an input {tuple(x.shape)}",
        )
        shape = self.output_shape if isinstance(self.output_shape, list) else [self.output_shape]
        dimensions = [*([None] * (len(result) - len(shape))), *shape]
        size_of = {c: n for c, n in zip(result, dimensions) if n is not None}
        return first, kernel, result, tuple(x.shape), tuple(size_of.get(c) for c in result)
