"""Slices picked by coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._indexing import coordinates, nd_shape
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def gather_nd(x: Any, indices: Any) -> Any:
    """y[i, ...] = x[*indices[i]]: the last axis of `indices` names elements, or slices where it is shorter than
    the rank of `x` (ONNX GatherND-13 with batch_dims 0)."""
    nd_shape(x, indices, "gather_nd")
    return np.asarray(x[coordinates(indices, x.shape)])


@gather_nd.form
def _(x: Any, indices: Any) -> Any:
    return record("GatherND", [x, indices], nd_shape(x, indices, "gather_nd"), x.dtype)
