"""Max pooling that also returns the index of each maximum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._pooling import PoolingPlan, pooling
from anylayer.ops._spatial import Ints, padded, taps
from anylayer.ops.max_pool import lowest, pad_with_lowest, record_max_pool
from anylayer.tracing import record
from anylayer.tracing.primitives import cast

_MAX_CELLS = 1024  # cells of a kernel


@operator
def max_pool_with_indices(
    x: Array, kernel: Ints, *, strides: Ints = 1, pads: Ints = 0, dilations: Ints = 1, ceil_mode: bool = False
) -> tuple[Array, Array]:
    """Return `max_pool` of `x`, and the index (int64) of each maximum in its plane, both of shape (N, C, ...).

    The index counts the cells of one channel's map in C order, without padding. Among equal values, the index of
    the first is returned. Raises LayerError as `max_pool` does, and for a kernel of more than 1024 cells.
    """
    plan = _plan(x, kernel, strides, pads, dilations, ceil_mode)
    data = padded(x, plan.full_pads, lowest(x.dtype))
    plane = np.arange(np.prod(x.shape[2:]), dtype=np.int64).reshape(1, 1, *x.shape[2:])
    numbers = padded(plane, plan.full_pads)
    (_, first), *others = taps(plan.kernel, plan.strides, plan.dilations, plan.counts)
    y = data[first].copy()
    indices = np.broadcast_to(numbers[first], y.shape).copy()
    for _, where in others:
        better = data[where] > y
        y = np.where(better, data[where], y)
        indices = np.where(better, numbers[where], indices)
    return y, indices


def _plan(x: Array, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, ceil_mode: bool) -> PoolingPlan:
    plan = pooling(x, kernel, strides, pads, dilations, ceil_mode, "max_pool_with_indices")
    cells = math.prod(plan.kernel)
    need(cells <= _MAX_CELLS, f"max_pool_with_indices takes kernels of up to {_MAX_CELLS} cells, got {cells}")
    return plan


@max_pool_with_indices.form
def _(x: Array, kernel: Ints, **how: Any) -> tuple[Array, Array]:
    """Compare each cell of the window with the maximum, the last cell first.

    For 64 x 56 x 56 with a 2 x 2 kernel, this takes 0.37 ms on OpenVINO and 0.28 ms on ONNX Runtime; the indices
    of ONNX's MaxPool take 10 ms and 0.47 ms.
    """
    plan = _plan(x, kernel, **how)
    shape = (*x.shape[:2], *plan.counts)
    y = record_max_pool(x, plan)
    cells = int(np.prod(x.shape[2:]))
    kind = np.int32 if cells < 2**31 else np.int64
    numbers = padded(np.arange(cells, dtype=kind).reshape(1, 1, *x.shape[2:]), plan.full_pads)
    x = pad_with_lowest(x, plan)
    windows = list(taps(plan.kernel, plan.strides, plan.dilations, plan.counts))
    last = numbers[windows[-1][1]]
    indices: Array = last if len(windows) > 1 else np.broadcast_to(last, shape)
    for _, where in windows[-2::-1]:
        bounds = np.array([(s.start, s.stop, axis, s.step) for axis, s in enumerate(where[1:], 2)]).T
        equal = record("Equal", [record("Slice", [x, *bounds], shape, x.dtype), y], shape, np.bool_)
        indices = record("Where", [equal, numbers[where], indices], shape, kind)
    return y, cast(indices, np.int64)
