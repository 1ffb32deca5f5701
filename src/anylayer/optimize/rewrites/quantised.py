"""Operators on quantised numbers as others that OpenVINO computes right: it refuses or miscomputes some forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.optimize.rewrites.matching import step
from anylayer.optimize.simplify import Rewriter, rule

_BYTES = frozenset(("int8", "uint8"))
_ENGINES = ("openvino",)


def _array(value: Value | None) -> Any:
    return None if value is None else value.const


def _wide(value: Value, x: Value, axis: int) -> Any:
    """A constant scale or zero point so that it broadcasts to `x`; None where it is in blocks, or no constant."""
    array = _array(value)
    if array is None:
        return None
    if array.size == 1:
        return array.reshape(())
    if array.ndim != 1:
        return None
    return array.reshape([-1 if i == axis % len(x.shape) else 1 for i in range(len(x.shape))])


@rule("QuantizeLinear", engines=_ENGINES, figure="16 bits: OpenVINO's own gives other values")
def _quantize(new: Rewriter, o: Op) -> list[Value] | None:
    """QuantizeLinear to 16 bits is a division, rounded, shifted and cut."""
    x, scale, zero = (*o.inputs, None)[:3]
    kind = o.outputs[0].dtype
    if x is None or scale is None or kind.name in _BYTES or kind.name not in ("int16", "uint16"):
        return None
    axis = o.attrs.get("axis", 1)
    factor = _wide(scale, x, axis)
    offset = np.zeros((), kind) if zero is None else _wide(zero, x, axis)
    if factor is None or offset is None or o.attrs.get("block_size"):
        return None
    return [_stepped(new, o, x, new.constant(factor), new.constant(offset.astype(np.float32)))]


def _stepped(new: Rewriter, o: Op, x: Value, scale: Value, zero: Value) -> Value:
    """round(x / scale) + zero, held within what `o` gives first."""
    kind = o.outputs[0].dtype
    limits = np.iinfo(kind)
    low, high = (new.constant(np.array(v, np.float32)) for v in (limits.min, limits.max))
    y = step(new, o, "Div", [x, scale], dtype=np.float32)
    y = step(new, o, "Round", [y], dtype=np.float32)
    y = step(new, o, "Add", [y, zero], dtype=np.float32)
    y = step(new, o, "Clip", [y, low, high], dtype=np.float32)
    return step(new, o, "Cast", [y], to=_ELEMENT[kind.name])


_ELEMENT = {"uint8": 2, "int8": 3, "uint16": 4, "int16": 5}
"""ONNX's numbers of dtypes."""


@rule("DequantizeLinear", engines=_ENGINES, figure="16 bits: OpenVINO's own gives other values")
def _dequantize(new: Rewriter, o: Op) -> list[Value] | None:
    """DequantizeLinear of 16 bits is a difference and a product."""
    x, scale, zero = (*o.inputs, None)[:3]
    if x is None or scale is None or x.dtype.name not in ("int16", "uint16") or o.attrs.get("block_size"):
        return None
    axis = o.attrs.get("axis", 1)
    factor = _wide(scale, x, axis)
    offset = np.zeros((), x.dtype) if zero is None else _wide(zero, x, axis)
    if factor is None or offset is None or factor.dtype != np.float32:
        return None
    y = step(new, o, "Cast", [x], dtype=np.float32, to=1)
    y = step(new, o, "Sub", [y, new.constant(offset.astype(np.float32))])
    return new.emit(o, "Mul", [y, new.constant(factor)])


@rule("DynamicQuantizeLinear", engines=_ENGINES, figure="OpenVINO's own rounds otherwise")
def _dynamic(new: Rewriter, o: Op) -> list[Value] | None:
    """DynamicQuantizeLinear is the arithmetic that defines it."""
    x = o.inputs[0]
    if x is None or not is_static(x.shape) or math.prod(x.shape) == 0:
        return None

    def one(op: str, *inputs: Value, **attrs: Any) -> Value:
        return step(new, o, op, list(inputs), (), np.float32, **attrs)

    nothing, top = new.constant(np.zeros((), np.float32)), new.constant(np.array(255, np.float32))
    low = one("Min", one("ReduceMin", x, keepdims=0), nothing)
    high = one("Max", one("ReduceMax", x, keepdims=0), nothing)
    scale = one("Div", one("Sub", high, low), top)
    same = step(new, o, "Equal", [scale, nothing], (), np.bool_)
    scale = one("Where", same, new.constant(np.ones((), np.float32)), scale)
    zero = one("Clip", one("Round", one("Sub", nothing, one("Div", low, scale))), nothing, top)
    y = _stepped(new, o, x, scale, zero)
    return [y, scale, step(new, o, "Cast", [zero], (), np.uint8, to=_ELEMENT["uint8"])]


@rule("QLinearConv", engines=_ENGINES, figure="OpenVINO refuses scales per channel")
def _conv(new: Rewriter, o: Op) -> list[Value] | None:
    """QLinearConv is a convolution of real numbers between DequantizeLinear and QuantizeLinear."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *rest = o.inputs
    if x is None or w is None or _array(x_scale) is None or _array(w_scale) is None or y_scale is None:
        return None
    inputs: list[Value | None] = [
        _real(new, o, x, x_scale, x_zero, 1),
        _real(new, o, w, w_scale, w_zero, 0),
    ]
    bias = rest[0] if rest else None
    if bias is not None:
        if bias.const is None:
            return None
        factor = _array(x_scale).reshape(()) * _array(w_scale).reshape(-1)
        inputs.append(new.constant((bias.const * factor).astype(np.float32)))
    y = step(new, o, "Conv", inputs, dtype=np.float32, **o.attrs)
    return new.emit(o, "QuantizeLinear", [y, y_scale, y_zero])


@rule("QLinearMatMul", engines=_ENGINES, figure="OpenVINO gives other values, or refuses")
def _matmul(new: Rewriter, o: Op) -> list[Value] | None:
    """QLinearMatMul is a product of real numbers between DequantizeLinear and QuantizeLinear."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = o.inputs
    if a is None or b is None or y_scale is None:
        return None
    first = _real(new, o, a, a_scale, a_zero, len(a.shape) - 2)
    second = _real(new, o, b, b_scale, b_zero, len(b.shape) - 1)
    y = step(new, o, "MatMul", [first, second], dtype=np.float32)
    return new.emit(o, "QuantizeLinear", [y, y_scale, y_zero])


def _real(new: Rewriter, o: Op, x: Value, scale: Value | None, zero: Value | None, axis: int) -> Value:
    """The real numbers of quantised ones. Those of constants are computed here: with weights of 8 bits OpenVINO
    2026.4 computes some products in integers wrongly, and refuses others."""
    if x.const is not None and scale is not None and (zero is None or zero.const is not None):
        factor, offset = _wide(scale, x, axis), np.zeros((), x.dtype) if zero is None else _wide(zero, x, axis)
        if factor is not None and offset is not None:
            whole = x.const.astype(np.int32) - offset.astype(np.int32)
            return new.constant((whole.astype(np.float32) * factor).astype(np.float32))
    return step(new, o, "DequantizeLinear", [x, scale, zero], x.shape, np.float32, axis=max(axis, 0))
