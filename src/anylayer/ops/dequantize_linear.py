"""Real numbers of quantized ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._quantization import broadcastable, is_quantized, need_supported
from anylayer.tracing import record


@operator
def dequantize_linear(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0
) -> Array:
    """Return (x - zero) * scale, in the dtype of `scale` (ONNX DequantizeLinear-21).

    x: integers of 4 to 32 bits, or numbers of 8 bits. scale, zero: one number, one per slice of `axis`, or one per
    block of `block_size` slices, in the shape of `x` except for `axis`. Raises LayerError for other shapes.
    """
    kind: Any = np.int32 if is_quantized(x.dtype) else np.float32
    values = x.astype(kind)
    if zero is not None:
        values = values - broadcastable(zero, x, axis, block_size, "zero point").astype(kind)
    factor = broadcastable(scale, x, axis, block_size).astype(np.float32)
    return (values.astype(np.float32) * factor).astype(scale.dtype)


@dequantize_linear.form
def _(x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0) -> Array:
    need_supported("DequantizeLinear", x.dtype, scale.dtype)
    broadcastable(scale, x, axis, block_size)
    inputs = [x, scale] if zero is None else [x, scale, zero]
    return record("DequantizeLinear", inputs, x.shape, scale.dtype, axis=axis, block_size=block_size or None)
