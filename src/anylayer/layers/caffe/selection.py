"""Layers that select elements, rows or samples."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Layer, field, layer, need, need_shape, samples
from anylayer.layers.caffe._axes import canonical
from anylayer.layers.caffe._messages import FillerParameter, written_filler


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


@layer("BatchReindex")
class BatchReindex(Layer):
    """Select samples by index.

    x (N, ...) and indices (K,) in 0..N-1, stored as floats, to (K, ...). An index out of range is undefined; Caffe
    aborts.
    Source: BVLC/caffe src/caffe/layers/batch_reindex_layer.cpp.
    """

    samples: ClassVar = {1: samples.indices}

    def forward(self, x: Array, index: Array) -> Array:
        need_shape(index, ("K",), "the second input", about=", a list of indices")
        return ops.gather(x, index.astype(np.int64))


@layer("Embed")
class Embed(Layer):
    """Return the row of a table for each integer, plus a bias.

    Integers (...), stored as floats, to (..., num_output). An integer outside 0..input_dim-1 is undefined.
    Weights: the table (input_dim, num_output), the bias (num_output,).
    Source: BVLC/caffe src/caffe/layers/embed_layer.cpp.
    """

    message = "embed_param"
    samples: ClassVar = {0: samples.rows}
    numbers = {"": 137}
    num_output: int = field(1, "uint32", least=1, doc="length of a row")
    input_dim: int = field(2, "uint32", least=1, doc="number of rows")
    bias_term: bool = field(3, "bool", True, doc="add a bias")
    weight_filler: FillerParameter = field(4, FillerParameter, doc="values of the table without a file")
    bias_filler: FillerParameter = field(5, FillerParameter, doc="values of the bias without a file; default 0")

    def forward(self, x: Array) -> Array:
        filler = written_filler(self, "weight_filler")
        table = self.blob(0, (self.input_dim, self.num_output), filler)
        y = ops.gather(table, x.astype(np.int64))
        if not self.bias_term:
            return y
        return y + self.blob(1, (self.num_output,), self.bias_filler, what="bias")


@layer("Filter")
class Filter(Layer):
    """Keep the samples whose selector is not 0.

    Inputs (N, ...), the last of which is the selector (N,), to outputs (K, ...). K is a dynamic size.
    Source: BVLC/caffe src/caffe/layers/filter_layer.cpp.
    """

    def forward(self, *inputs: Array) -> list[Array]:
        need(len(inputs) >= 2, f"takes 2 inputs or more, the last one the selector, got {len(inputs)}")
        *data, selector = inputs
        need(
            self.outputs == len(data), f"{len(data)} inputs to filter need {len(data)} outputs, got {self.outputs}"
        )
        n = selector.shape[0] if selector.shape else 0
        need(
            len(selector.shape) >= 1 and int(np.prod(selector.shape[1:])) == 1,
            f"the selector must have one value per sample (N,), got shape {tuple(selector.shape)}",
        )
        for i, x in enumerate(data):
            need(x.shape[0] == n, f"input {i} has {x.shape[0]} samples, but the selector has {n}")
        is_selected = selector.reshape(n) != 0
        order = np.argsort(np.where(is_selected, np.arange(n), np.arange(n) + n))
        count = is_selected.astype(np.int64).sum()
        return [ops.head(ops.gather(x, order), count) for x in data]
