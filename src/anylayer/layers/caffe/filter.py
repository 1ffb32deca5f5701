"""Filter."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, layer, need
from anylayer.network import Array


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
