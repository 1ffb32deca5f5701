"""ReverseSequence: reverse each sequence over its own length."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need, need_shape
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.tracing import record
from anylayer.tracing.primitives import cast


@operator
def reverse_sequence(x: Array, lengths: Array, *, time_axis: int = 0, batch_axis: int = 1) -> Array:
    """Reverse the first `lengths[b]` steps of sequence b and keep the rest, in the shape and dtype of `x`.

    `x` is (T, B, ...), or (B, T, ...) with time_axis=1 and batch_axis=0. `lengths` (B,) are integers from 0 to T.
    ONNX ReverseSequence-10. Raises LayerError for other axes or shapes, and for NumPy arrays for other lengths.
    """
    _check(x, lengths, time_axis, batch_axis)
    steps = np.arange(x.shape[time_axis])[:, None]
    need(
        (lengths >= 0).all() and (lengths <= len(steps)).all(), f"lengths must be 0 to {len(steps)}, got {lengths}"
    )
    order = np.where(steps < lengths, lengths - 1 - steps, steps)  # (T, B)
    sequences = np.arange(x.shape[batch_axis])
    if time_axis == 0:
        return x[order, sequences]
    return x[sequences[:, None], order.T]


def _check(x: Array, lengths: Array, time_axis: int, batch_axis: int) -> None:
    need(
        {time_axis, batch_axis} == {0, 1} and len(x.shape) >= 2,
        f"time_axis and batch_axis must be 0 and 1 of two or more axes, got {time_axis} and {batch_axis}",
    )
    batch = x.shape[batch_axis]
    need_shape(lengths, (batch,), "lengths")


@reverse_sequence.form
def _(x: Array, lengths: Array, *, time_axis: int = 0, batch_axis: int = 1) -> Array:
    _check(x, lengths, time_axis, batch_axis)
    lengths = cast(lengths, np.int64)
    return record("ReverseSequence", [x, lengths], x.shape, x.dtype, time_axis=time_axis, batch_axis=batch_axis)
