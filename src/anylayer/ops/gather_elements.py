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
    for other, n in enumerate(indices.shape):
        if (
            other != axis and n != x.shape[other]
        ):  # OpenVINO wants them equal, and removes a Slice that makes them so
            shape = (*x.shape[:other], n, *x.shape[other + 1 :])
            x = record("Gather", [x, np.arange(n)], shape, x.dtype, axis=other)
    return record("GatherElements", [x, indices], indices.shape, x.dtype, axis=axis)
