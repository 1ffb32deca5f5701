"""Quantized numbers of real ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._quantization import bounds, broadcastable, need_supported
from anylayer.tracing import record


@operator
def quantize_linear(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0, dtype: Any = np.uint8
) -> Array:
    """Return round(x / scale) + zero, halves rounded to even, clipped to the integers (ONNX QuantizeLinear-21).

    The result has the dtype of `zero`, or `dtype` without it. scale, zero: one number, one per slice of `axis`, or
    one per block of `block_size` slices, in the shape of `x` except for `axis`. Raises LayerError for other
    shapes, and if the dtype is not an integer of 4 to 32 bits.
    """
    kind = np.dtype(dtype) if zero is None else zero.dtype
    lowest, highest = bounds(kind)
    steps = np.rint(x.astype(np.float32) / broadcastable(scale, x, axis, block_size).astype(np.float32))
    offset: Any = np.float32(0)
    if zero is not None:
        offset = broadcastable(zero, x, axis, block_size, "zero point").astype(np.float32)
    return np.clip(np.nan_to_num(steps, nan=float(lowest)) + offset, lowest, highest).astype(kind)


@quantize_linear.form
def _(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0, dtype: Any = np.uint8
) -> Array:
    zero = np.zeros(scale.shape, dtype) if zero is None else zero
    need_supported("QuantizeLinear", zero.dtype, x.dtype)
    broadcastable(scale, x, axis, block_size)
    return record(
        "QuantizeLinear", [x, scale, zero], x.shape, zero.dtype, axis=axis, block_size=block_size or None
    )
