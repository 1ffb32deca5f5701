"""ArgMax."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.network import Array


@layer("ArgMax")
class ArgMax(Layer):
    """Return the indices of the `top_k` largest values, as floats; of equal values the larger index first.

    With `axis`, that axis shrinks to `top_k` indices, or values with `out_max_val`. Without it, each (N, ...) is
    one flat row, and the output is (N, 1, top_k), or (N, 2, top_k) of indices and values with `out_max_val`, with
    as many axes as the input, but at least 3.
    Source: BVLC/caffe src/caffe/layers/argmax_layer.cpp.
    """

    message = "argmax_param"
    numbers = {"": 103}
    out_max_val: bool = field(
        1, "bool", False, doc="return the values: besides the indices, or with axis instead of them"
    )
    top_k: int = field(2, "uint32", 1, doc="number of the largest values")
    axis: int | None = field(3, "int32", None, doc="axis to search; default: all but the first, as one row")

    def forward(self, x: Array) -> Array:
        if self.axis is None:
            rows = x.reshape(x.shape[0], -1)
            index, value = self._largest(rows, 1)
            index, value = index[:, None], value[:, None]
            y = np.concatenate([index, value], 1) if self.out_max_val else index
            return y.reshape(*y.shape, *(1,) * (len(x.shape) - 3))
        index, value = self._largest(x, canonical(self.axis, x))
        return value if self.out_max_val else index

    def _largest(self, x: Array, axis: int) -> tuple[Array, Array]:
        """Return indices and values.

        The axis is searched from its end, so that of equal values the larger index comes first.
        """
        n = x.shape[axis]
        need(
            1 <= self.top_k <= n,
            f"top_k must lie in 1..{n}, the values there are to choose from, got {self.top_k}",
        )
        turned = np.flip(x, axis)
        if self.top_k == 1:
            index = np.expand_dims(np.argmax(turned, axis=axis), axis)
            value = x.max(axis=axis, keepdims=True)
        else:
            value, index = ops.top_k(turned, self.top_k, axis=axis)
        return (n - 1 - index).astype(x.dtype), value
