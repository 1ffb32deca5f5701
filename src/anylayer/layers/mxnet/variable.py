"""The values of arrays in the .params file."""

from __future__ import annotations

from anylayer.layer import Array, layer, need
from anylayer.layers.mxnet._base import MXNetLayer


@layer("null")
class Variable(MXNetLayer):
    """Return an array of the .params file, with its shape and dtype.

    A variable without an array is an input of the network, and no layer.
    Source: src/nnvm/legacy_json_util.cc of MXNet.
    """

    def forward(self) -> Array:
        need(len(self._blobs) == 1, f"a variable needs one array in the file, got {len(self._blobs)}")
        return self.blob(0, self._blobs[0].shape, what="value")
