"""Max pooling that also says where each value was."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.ops._pooling import pooling
from anylayer.ops._spatial import padded, taps
from anylayer.ops.max_pool import attributes, lowest
from anylayer.tracing import record, record_many


@operator
def max_pool_with_indices(
    x: Any, kernel: Any, *, strides: Any = 1, pads: Any = 0, dilations: Any = 1, ceil_mode: bool = False
) -> Any:
    """`max_pool`, and the index (int64) of each value within its plane: (y, indices), both (N, C, ...).

    An index counts the cells of one channel's map, row by row, without padding; of equal values the first.
    """
    plan = pooling(x, kernel, strides, pads, dilations, ceil_mode, "max_pool_with_indices")
    data = padded(x, plan.grown, lowest(x.dtype))
    plane = np.arange(np.prod(x.shape[2:]), dtype=np.int64).reshape(1, 1, *x.shape[2:])
    numbers = padded(plane, plan.grown)
    y: Any = None
    for _, where in taps(plan.kernel, plan.strides, plan.dilations, plan.counts):
        if y is None:
            y, indices = data[where].copy(), np.broadcast_to(numbers[where], data[where].shape).copy()
        else:
            better = data[where] > y
            y = np.where(better, data[where], y)
            indices = np.where(better, numbers[where], indices)
    return y, indices


@max_pool_with_indices.form
def _(x: Any, kernel: Any, *, strides: Any = 1, pads: Any = 0, dilations: Any = 1, ceil_mode: bool = False) -> Any:
    plan = pooling(x, kernel, strides, pads, dilations, ceil_mode, "max_pool_with_indices")
    shape = (*x.shape[:2], *plan.counts)
    y, indices = record_many("MaxPool", [x], [(shape, x.dtype), (shape, np.int64)], **attributes(plan))
    cells = int(np.prod(x.shape[2:]))
    planes = np.arange(x.shape[0] * x.shape[1], dtype=np.int64).reshape(*x.shape[:2], *(1,) * len(plan.kernel))
    return y, record("Sub", [indices, planes * cells], shape, np.int64)  # ONNX counts through the whole tensor
