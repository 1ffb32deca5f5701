"""Constant: an array that the file holds."""

from __future__ import annotations

from anylayer.errors import need
from anylayer.layer import Layer, layer
from anylayer.network import Array


@layer("Constant")
class Constant(Layer):
    """Return an array that the file holds: an initializer or a Constant operator.

    The output has the array's shape and dtype.
    Source: ONNX operator specification, Constant-1 to Constant-13.
    """

    message = ""

    def forward(self) -> Array:
        need(len(self._blobs) == 1, f"must hold 1 array, got {len(self._blobs)}")
        return self._blobs[0]

    def check_blobs(self) -> None:
        """Do nothing: the only blob is the output."""
