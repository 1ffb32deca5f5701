"""BatchReindex."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, layer, need, samples
from anylayer.network import Array


@layer("BatchReindex")
class BatchReindex(Layer):
    """Select samples by index.

    x (N, ...) and indices (K,) in 0..N-1, stored as floats, to (K, ...). An index out of range is undefined; Caffe
    aborts.
    Source: BVLC/caffe src/caffe/layers/batch_reindex_layer.cpp.
    """

    samples: ClassVar = {1: samples.indices}

    def forward(self, x: Array, index: Array) -> Array:
        need(
            len(index.shape) == 1,
            f"the second input must be a list of indices (K,), got shape {tuple(index.shape)}",
        )
        return ops.gather(x, index.astype(np.int64))
