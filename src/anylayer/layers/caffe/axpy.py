"""Axpy (SENet)."""

from __future__ import annotations

from anylayer.layer import Layer, layer, need
from anylayer.network import Array


@layer("Axpy")
class Axpy(Layer):
    """Compute a * x + y with one factor a per channel.

    a (N, C) or (N, C, 1, 1), x and y (N, C, H, W) to (N, C, H, W).
    Source: hujie-frank/SENet src/caffe/layers/axpy_layer.cpp.
    """

    numbers = {"caffe2onnx": 151}

    def forward(self, a: Array, x: Array, y: Array) -> Array:
        need(
            tuple(x.shape) == tuple(y.shape),
            f"inputs 1 and 2 must have one shape, got {tuple(x.shape)} and {tuple(y.shape)}",
        )
        need(len(x.shape) >= 2, f"input 1 must be of shape (N, C, ...), got {tuple(x.shape)}")
        nc = tuple(x.shape[:2])
        need(
            tuple(a.shape[:2]) == nc and all(d == 1 for d in a.shape[2:]),
            f"input 0 must be of shape {nc} or {(*nc, 1, 1)}, one value per channel, got {tuple(a.shape)}",
        )
        return a.reshape(*nc, *(1,) * (len(x.shape) - 2)) * x + y
