"""Elements picked along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._indexing import axis_of, in_range, need_inside, within
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def gather_elements(x: Any, indices: Any, axis: int) -> Any:
    """y[i, j, ...] = x[i, indices[i, j, ...], ...] for `axis` 1, and so on: of the shape of `indices`.

    `indices` has the rank of `x` and is no longer than it on the other axes; negative ones count from the end
    (ONNX GatherElements-13).
    """
    axis = axis_of(axis, len(x.shape))
    need_inside(x, indices, axis, "gather_elements")
    return np.take_along_axis(x[within(indices.shape, axis)], in_range(indices, x.shape[axis], axis), axis)


@gather_elements.form
def _(x: Any, indices: Any, axis: int) -> Any:
    axis = axis_of(axis, len(x.shape))
    need_inside(x, indices, axis, "gather_elements")
    shape = tuple(n if i == axis else m for i, (n, m) in enumerate(zip(x.shape, indices.shape)))
    if shape != tuple(x.shape):  # OpenVINO refuses indices that are shorter than the data
        ends = np.array([np.iinfo(np.int64).max if i == axis else n for i, n in enumerate(shape)])
        x = record("Slice", [x, np.zeros_like(ends), ends], shape, x.dtype)
    return record("GatherElements", [x, indices], indices.shape, x.dtype, axis=axis)
