"""NumPy meanings of operators on quantized numbers.

The arithmetic is that of ONNX Runtime: sums of integers are exact, and one float32 factor scales them to the
output.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.onnx._call import NoMeaning, OpCall, meaning
from anylayer.layers.onnx._windows import convolution, explicit
from anylayer.libraries.onnx import TensorProto, helper
from anylayer.network import Array
from anylayer.ops._quantization import bounds, broadcastable, is_quantized

_f = np.float32


@meaning("DequantizeLinear")
def _dequantize(call: OpCall, x: Array, scale: Array, zero: Array | None = None) -> Array:
    y = ops.dequantize_linear(x, scale, zero, axis=call["axis"], block_size=call["block_size"] or 0)
    return y.astype(_dtype(call["output_dtype"])) if call["output_dtype"] else y


@meaning("QuantizeLinear")
def _quantize(call: OpCall, x: Array, scale: Array, zero: Array | None = None) -> Array:
    dtype = zero.dtype if zero is not None else _dtype(call["output_dtype"] or TensorProto.UINT8)
    if not is_quantized(dtype):
        raise NoMeaning
    return ops.quantize_linear(x, scale, zero, axis=call["axis"], block_size=call["block_size"] or 0, dtype=dtype)


def _dtype(number: int) -> Any:
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


@meaning("DynamicQuantizeLinear")
def _dynamic(call: OpCall, x: Array) -> tuple[Array, Array, Array]:
    """Return `x`, quantized to uint8 by its own range, which includes 0; the scale; and the zero point."""
    low, high = np.minimum(x.min(initial=0), _f(0)), np.maximum(x.max(initial=0), _f(0))
    scale = (high - low) / _f(255)
    scale = np.where(scale == 0, _f(1), scale)
    zero = np.clip(np.rint(_f(0) - low / scale), 0, 255).astype(np.uint8)
    return ops.quantize_linear(x, np.asarray(scale), np.asarray(zero)), np.asarray(scale), np.asarray(zero)


# ------------------------------------------------------------------------------------- convolutions and products


def exact(x: Array, zero: Array | None, axis: int) -> Array:
    """Return x - zero in float64, which holds sums of integers exactly. `axis` is that of several zero points."""
    values = x.astype(np.float64)
    return values if zero is None else values - broadcastable(zero, x, axis, what="zero point").astype(np.float64)


def rescaled(total: Any, factor: Any, zero: Any, kind: Any) -> Array:
    """Return round(total * factor) + zero, clipped to `kind`: sums of integers in steps of the output."""
    lowest, highest = bounds(kind)
    steps = np.rint(total.astype(np.float32) * factor)
    return np.clip(steps + (_f(0) if zero is None else zero.astype(np.float32)), lowest, highest).astype(kind)


@meaning("ConvInteger")
def _conv_integer(
    call: OpCall, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None
) -> Array:
    explicit(call)
    return convolution(call, exact(x, x_zero, 1), exact(w, w_zero, 0)).astype(np.int32)


@meaning("QLinearConv")
def _qlinear_conv(call: OpCall, *inputs: Array) -> Array:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = inputs
    explicit(call)
    total = convolution(call, exact(x, x_zero, 1), exact(w, w_zero, 0))
    wide = [1, -1, *[1] * (len(x.shape) - 2)]
    for b in bias:
        total = total + b.reshape(wide)
    factor = x_scale.reshape(()) * w_scale.reshape(-1) / y_scale.reshape(())
    return rescaled(total, factor.reshape(wide if factor.size > 1 else ()), y_zero.reshape(()), y_zero.dtype)


def _rows(value: Array, x: Array) -> Array:
    """Return a scale or zero point of the first factor of a product: one for all, or one per row."""
    if value is None or math.prod(value.shape) == 1:
        return value if value is None else value.reshape(())
    return value.reshape(-1, 1) if len(value.shape) == 1 and len(x.shape) > 1 else value


def product(a: Array, a_zero: Any, b: Array, b_zero: Any) -> Array:
    """Return the exact sums of a matrix product of quantized numbers, in float64."""
    first, second = a.astype(np.float64), b.astype(np.float64)
    if a_zero is not None:
        first = first - _rows(a_zero, a).astype(np.float64)
    if b_zero is not None:  # one for all, or one per column
        second = second - (b_zero.reshape(()) if math.prod(b_zero.shape) == 1 else b_zero).astype(np.float64)
    return first @ second


@meaning("MatMulInteger")
def _matmul_integer(
    call: OpCall, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
) -> Array:
    return product(a, a_zero, b, b_zero).astype(np.int32)


@meaning("QLinearMatMul")
def _qlinear_matmul(call: OpCall, *inputs: Array) -> Array:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    one = b_scale.reshape(()) if math.prod(b_scale.shape) == 1 else b_scale
    factor = (_rows(a_scale, a) * one / _rows(y_scale, a)).astype(np.float32)
    return rescaled(product(a, a_zero, b, b_zero), factor, _rows(y_zero, a), y_zero.dtype)
