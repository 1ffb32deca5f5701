"""Slices put by coordinates."""

from __future__ import annotations

from typing import Any

from anylayer.errors import need
from anylayer.ops._indexing import coordinates, nd_shape, need_reduction, scatter
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    """A copy of `x` with x[*indices[i]] = updates[i]; `updates` are of the shape `gather_nd` gives.

    `reduction` as in `scatter_elements` (ONNX ScatterND-18).
    """
    _check(x, indices, updates, reduction)
    return scatter(x, coordinates(indices, x.shape), updates, reduction)


def _check(x: Any, indices: Any, updates: Any, reduction: str) -> None:
    shape = nd_shape(x, indices, "scatter_nd")
    need(tuple(updates.shape) == shape, f"updates must be of shape {shape}, got {tuple(updates.shape)}")
    need_reduction(reduction)


@scatter_nd.form
def _(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    _check(x, indices, updates, reduction)
    how = None if reduction == "none" else reduction
    return record("ScatterND", [x, indices, updates], x.shape, x.dtype, reduction=how)
