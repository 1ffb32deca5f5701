"""NumPy meanings of operators on quantized numbers.

The arithmetic is that of ONNX Runtime: sums of integers are exact, and one float32 factor scales them to the
output.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.errors import TraceError, need
from anylayer.graph import OPSET
from anylayer.layer.arguments import axis_of
from anylayer.layers.onnx._call import NoMeaning, OpCall, is_plain, meaning
from anylayer.layers.onnx._record import recorded
from anylayer.layers.onnx._windows import convolution, explicit
from anylayer.libraries.onnx import helper, least_version
from anylayer.network import Array
from anylayer.tracing import is_traced

_f = np.float32
_INTEGERS = {
    **{f"{sign}int{bits}": None for sign in ("", "u") for bits in (8, 16, 32)},
    "int4": (-8, 7),
    "uint4": (0, 15),
}


def bounds(dtype: Any) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer dtype. Raise Uncovered for another dtype."""
    if dtype.name not in _INTEGERS:
        raise NoMeaning
    stated = _INTEGERS[dtype.name]
    return stated or (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def broadcastable(value: Array, x: Array, axis: int, block: int = 0, what: str = "scale") -> Array:
    """Return a scale or zero point, reshaped so that it broadcasts to `x`.

    It has one number for all, one per slice of `axis`, or one per block of `block` slices.
    """
    rank = len(x.shape)
    if math.prod(value.shape) == 1:
        return value.reshape(())
    axis = axis_of(axis, rank)
    if len(value.shape) == 1 and not block:
        need(
            value.shape[0] == x.shape[axis],
            f"the {what} has {value.shape[0]} numbers, but axis {axis} has size {x.shape[axis]}",
        )
        return value.reshape([-1 if i == axis else 1 for i in range(rank)])
    need(
        block > 0,
        f"the {what} must have one number, or one per slice of axis {axis}, got shape {tuple(value.shape)}",
    )
    blocks = tuple(-(-d // block) if i == axis else d for i, d in enumerate(x.shape))
    need(
        tuple(value.shape) == blocks,
        f"the {what} must have shape {blocks} for block_size={block}, got {tuple(value.shape)}",
    )
    index = np.arange(x.shape[axis]) // block
    return np.take(value, index, axis)


def dequantize(x: Array, scale: Array, zero: Array | None = None, axis: int = 1, block: int = 0) -> Any:
    """Return (x - zero) * scale, recorded as DequantizeLinear when `x` is traced."""
    if is_traced(x):
        return _record("DequantizeLinear", [x, scale, zero], axis, block, scale.dtype)
    factor = broadcastable(scale, x, axis, block)
    kind: Any = np.float32
    if x.dtype.kind in "iu" or x.dtype.name in _INTEGERS:
        bounds(x.dtype)
        kind = np.int32
    values = x.astype(kind)
    if zero is not None:
        values = values - broadcastable(zero, x, axis, block, "zero point").astype(kind)
    return (values.astype(np.float32) * factor.astype(np.float32)).astype(scale.dtype)


def quantize(
    x: Array, scale: Array, zero: Array | None, axis: int = 1, block: int = 0, dtype: Any = None
) -> Array:
    """Return round(x / scale) + zero, with halves rounded to even and the result clipped to its dtype.

    The dtype is that of `zero`, or `dtype`, or uint8. Recorded as QuantizeLinear when `x` is traced.
    """
    kind = zero.dtype if zero is not None else np.dtype(dtype or np.uint8)
    if is_traced(x):
        zero = np.zeros(scale.shape, kind) if zero is None else zero
        return _record("QuantizeLinear", [x, scale, zero], axis, block, kind)
    lowest, highest = bounds(kind)
    steps = np.rint(x.astype(np.float32) / broadcastable(scale, x, axis, block).astype(np.float32))
    offset = _f(0) if zero is None else broadcastable(zero, x, axis, block, "zero point").astype(np.float32)
    held = np.clip(np.nan_to_num(steps, nan=float(lowest)) + offset, lowest, highest)
    return held.astype(kind)


def _record(op: str, inputs: list[Any], axis: int, block: int, kind: Any) -> Array:
    attrs = {"axis": axis, **({"block_size": block} if block else {})}
    inputs = inputs if inputs[2] is not None else inputs[:2]
    version = least_version(op, OPSET, tuple(sorted(attrs)), tuple(x.dtype for x in inputs))
    if version is None or not is_plain(kind):
        raise TraceError(f"{op} of {', '.join(x.dtype.name for x in inputs)} is not supported by engines")
    return recorded(OpCall(op, version, inputs, attrs))[0]


@meaning("DequantizeLinear")
def _dequantize(call: OpCall, x: Array, scale: Array, zero: Array | None = None) -> Any:
    y = dequantize(x, scale, zero, call["axis"], call["block_size"] or 0)
    return y.astype(_output_dtype(call)) if call["output_dtype"] else y


@meaning("QuantizeLinear")
def _quantize(call: OpCall, x: Array, scale: Array, zero: Array | None = None) -> Array:
    dtype = _output_dtype(call) if call["output_dtype"] else None
    return quantize(x, scale, zero, call["axis"], call["block_size"] or 0, dtype)


def _output_dtype(call: OpCall) -> Any:
    return np.dtype(helper.tensor_dtype_to_np_dtype(call["output_dtype"]))


@meaning("DynamicQuantizeLinear")
def _dynamic(call: OpCall, x: Array) -> tuple[Array, Array, Array]:
    """Return `x`, quantized to uint8 by its own range, which includes 0; the scale; and the zero point."""
    low, high = np.minimum(x.min(initial=0), _f(0)), np.maximum(x.max(initial=0), _f(0))
    scale = (high - low) / _f(255)
    scale = np.where(scale == 0, _f(1), scale)
    zero = np.clip(np.rint(_f(0) - low / scale), 0, 255).astype(np.uint8)
    return quantize(x, np.asarray(scale), np.asarray(zero)), np.asarray(scale), np.asarray(zero)


# ------------------------------------------------------------------------------------- convolutions and products


def exact(x: Array, zero: Array | None, axis: int) -> Array:
    """Return x - zero in float64, which holds sums of integers exactly. `axis` is that of several zero points."""
    values = x.astype(np.float64)
    return values if zero is None else values - broadcastable(zero, x, axis, what="zero point").astype(np.float64)


def rescaled(total: Any, factor: Any, zero: Any, kind: Any) -> Any:
    """Return round(total * factor) + zero, clipped to `kind`: sums of integers in steps of the output."""
    lowest, highest = bounds(kind)
    steps = np.rint(total.astype(np.float32) * factor)
    return np.clip(steps + (_f(0) if zero is None else zero.astype(np.float32)), lowest, highest).astype(kind)


@meaning("ConvInteger")
def _conv_integer(
    call: OpCall, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None
) -> Any:
    explicit(call)
    return convolution(call, exact(x, x_zero, 1), exact(w, w_zero, 0)).astype(np.int32)


@meaning("QLinearConv")
def _qlinear_conv(call: OpCall, *inputs: Array) -> Any:
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


def product(a: Array, a_zero: Any, b: Array, b_zero: Any) -> Any:
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
) -> Any:
    return product(a, a_zero, b, b_zero).astype(np.int32)


@meaning("QLinearMatMul")
def _qlinear_matmul(call: OpCall, *inputs: Array) -> Any:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    one = b_scale.reshape(()) if math.prod(b_scale.shape) == 1 else b_scale
    factor = (_rows(a_scale, a) * one / _rows(y_scale, a)).astype(np.float32)
    return rescaled(product(a, a_zero, b, b_zero), factor, _rows(y_zero, a), y_zero.dtype)
