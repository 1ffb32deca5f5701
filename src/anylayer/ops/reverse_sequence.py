"""Sequences reversed, each over its own length."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.ops._operator import operator
from anylayer.tracing import record
from anylayer.tracing.primitives import cast


@operator
def reverse_sequence(x: Any, lengths: Any, *, time_axis: int = 0, batch_axis: int = 1) -> Any:
    """Reverse the first `lengths[b]` steps of sequence b, and keep the rest (ONNX ReverseSequence-10).

    `x` is (T, B, ...) or (B, T, ...), by `time_axis` and `batch_axis`; `lengths` (B,) are 0 to T.
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


def _check(x: Any, lengths: Any, time_axis: int, batch_axis: int) -> None:
    need(
        {time_axis, batch_axis} == {0, 1} and len(x.shape) >= 2,
        f"time_axis and batch_axis must be 0 and 1 of two or more axes, got {time_axis} and {batch_axis}",
    )
    batch = x.shape[batch_axis]
    need(tuple(lengths.shape) == (batch,), f"lengths must be of shape ({batch},), got {tuple(lengths.shape)}")


@reverse_sequence.form
def _(x: Any, lengths: Any, *, time_axis: int = 0, batch_axis: int = 1) -> Any:
    _check(x, lengths, time_axis, batch_axis)
    lengths = cast(lengths, np.int64)
    return record("ReverseSequence", [x, lengths], x.shape, x.dtype, time_axis=time_axis, batch_axis=batch_axis)
