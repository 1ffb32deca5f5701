"""Operators on quantized numbers that OpenVINO refuses or computes inexactly, as others that it computes
exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.rules import Rewriter, rule

_16_BITS = ("int16", "uint16")
_ENGINES = ("openvino",)
_ELEMENT_TYPE = {"uint8": 2, "int8": 3, "uint16": 4, "int16": 5}
"""TensorProto.DataType of each dtype."""


def _array(value: Value | None) -> Array | None:
    return None if value is None else value.const


def _broadcastable(value: Value | None, x: Value, axis: int) -> Array | None:
    """Return a constant scale or zero point, one number or one per index of an axis, such that it broadcasts to x.

    Returns None where it is computed, or given per block.
    """
    array = _array(value)
    if array is None:
        return None
    if array.size == 1:
        return array.reshape(())
    if array.ndim != 1:
        return None
    return array.reshape([-1 if i == axis % len(x.shape) else 1 for i in range(len(x.shape))])


@rule("QuantizeLinear", engines=_ENGINES, figure="16 bits: OpenVINO's operator returns other values")
def _quantize(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute QuantizeLinear to 16 bits by Div, Round, Add, Clip and Cast."""
    x, scale, zero = (*o.inputs, None)[:3]
    kind = o.outputs[0].dtype
    if x is None or scale is None or kind.name not in _16_BITS:
        return None
    axis = o.attrs.get("axis", 1)
    factor = _broadcastable(scale, x, axis)
    offset = np.zeros((), kind) if zero is None else _broadcastable(zero, x, axis)
    if factor is None or offset is None or o.attrs.get("block_size"):
        return None
    return [_rounded(new, o, x, new.constant(factor), new.constant(offset.astype(np.float32)))]


def _rounded(new: Rewriter, o: Op, x: Value, scale: Value, zero: Value) -> Value:
    """Return round(x / scale) + zero, clipped to the dtype of the first output of `o` and cast to it."""
    kind = o.outputs[0].dtype
    limits = np.iinfo(kind)
    low, high = (new.constant(np.array(v, np.float32)) for v in (limits.min, limits.max))
    y = new.step(o, "Div", [x, scale], dtype=np.float32)
    y = new.step(o, "Round", [y], dtype=np.float32)
    y = new.step(o, "Add", [y, zero], dtype=np.float32)
    y = new.step(o, "Clip", [y, low, high], dtype=np.float32)
    return new.step(o, "Cast", [y], to=_ELEMENT_TYPE[kind.name])


@rule("DequantizeLinear", engines=_ENGINES, figure="16 bits: OpenVINO's operator returns other values")
def _dequantize(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute DequantizeLinear of 16 bits by Cast, Sub and Mul."""
    x, scale, zero = (*o.inputs, None)[:3]
    if x is None or scale is None or x.dtype.name not in _16_BITS or o.attrs.get("block_size"):
        return None
    axis = o.attrs.get("axis", 1)
    factor = _broadcastable(scale, x, axis)
    offset = np.zeros((), x.dtype) if zero is None else _broadcastable(zero, x, axis)
    if factor is None or offset is None or factor.dtype != np.float32:
        return None
    y = new.step(o, "Cast", [x], dtype=np.float32, to=1)
    y = new.step(o, "Sub", [y, new.constant(offset.astype(np.float32))])
    return new.emit(o, "Mul", [y, new.constant(factor)])


@rule("DynamicQuantizeLinear", engines=_ENGINES, figure="OpenVINO's operator rounds differently")
def _dynamic(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute DynamicQuantizeLinear by the formulas of its specification."""
    x = o.inputs[0]
    if x is None or not is_static(x.shape) or math.prod(x.shape) == 0:
        return None

    def scalar(op: str, *inputs: Value, **attrs: Any) -> Value:
        return new.step(o, op, list(inputs), (), np.float32, **attrs)

    zero, top = new.constant(np.zeros((), np.float32)), new.constant(np.array(255, np.float32))
    low = scalar("Min", scalar("ReduceMin", x, keepdims=0), zero)
    high = scalar("Max", scalar("ReduceMax", x, keepdims=0), zero)
    scale = scalar("Div", scalar("Sub", high, low), top)
    is_zero = new.step(o, "Equal", [scale, zero], (), np.bool_)
    scale = scalar("Where", is_zero, new.constant(np.ones((), np.float32)), scale)
    offset = scalar("Clip", scalar("Round", scalar("Sub", zero, scalar("Div", low, scale))), zero, top)
    y = _rounded(new, o, x, scale, offset)
    return [y, scale, new.step(o, "Cast", [offset], (), np.uint8, to=_ELEMENT_TYPE["uint8"])]


@rule("QLinearConv", engines=_ENGINES, figure="OpenVINO refuses scales per channel")
def _conv(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute QLinearConv by DequantizeLinear, Conv and QuantizeLinear."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *rest = o.inputs
    x_factor, w_factor = _array(x_scale), _array(w_scale)
    if x is None or w is None or x_factor is None or w_factor is None or y_scale is None:
        return None
    inputs: list[Value | None] = [
        _dequantized(new, o, x, x_scale, x_zero, 1),
        _dequantized(new, o, w, w_scale, w_zero, 0),
    ]
    bias = rest[0] if rest else None
    if bias is not None:
        if bias.const is None:
            return None
        factor = x_factor.reshape(()) * w_factor.reshape(-1)
        inputs.append(new.constant((bias.const * factor).astype(np.float32)))
    y = new.step(o, "Conv", inputs, dtype=np.float32, **o.attrs)
    return new.emit(o, "QuantizeLinear", [y, y_scale, y_zero])


@rule("QLinearMatMul", engines=_ENGINES, figure="OpenVINO returns other values, or refuses")
def _matmul(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute QLinearMatMul by DequantizeLinear, MatMul and QuantizeLinear."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = o.inputs
    if a is None or b is None or y_scale is None:
        return None
    first = _dequantized(new, o, a, a_scale, a_zero, len(a.shape) - 2)
    second = _dequantized(new, o, b, b_scale, b_zero, len(b.shape) - 1)
    y = new.step(o, "MatMul", [first, second], dtype=np.float32)
    return new.emit(o, "QuantizeLinear", [y, y_scale, y_zero])


def _dequantized(new: Rewriter, o: Op, x: Value, scale: Value | None, zero: Value | None, axis: int) -> Value:
    """Return the real numbers of quantized ones. Those of constants are computed here: with weights of 8 bits
    OpenVINO 2026.4 computes some products in integers wrongly, and refuses others."""
    if x.const is not None and scale is not None and (zero is None or zero.const is not None):
        factor = _broadcastable(scale, x, axis)
        offset = np.zeros((), x.dtype) if zero is None else _broadcastable(zero, x, axis)
        if factor is not None and offset is not None:
            difference = x.const.astype(np.int32) - offset.astype(np.int32)
            return new.constant((difference.astype(np.float32) * factor).astype(np.float32))
    return new.step(o, "DequantizeLinear", [x, scale, zero], x.shape, np.float32, axis=max(axis, 0))
