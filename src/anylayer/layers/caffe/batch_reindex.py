"""BatchReindex."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, layer, need


@layer("BatchReindex")
class BatchReindex(Layer):
    """Pick samples: x (N, ...) and indices (K,) of 0..N-1, as floats, give (K, ...).

    An index outside 0..N-1 has no meaning (Caffe aborts).
    Source: BVLC/caffe src/caffe/layers/batch_reindex_layer.cpp.
    """

    def forward(self, x: Any, index: Any) -> Any:
        need(
            len(index.shape) == 1,
            f"the second input must be a list of indices (K,), got shape {tuple(index.shape)}",
        )
        return ops.gather(x, index.astype(np.int64))
