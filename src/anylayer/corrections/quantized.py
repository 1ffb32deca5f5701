"""Operators on quantized numbers that OpenVINO (2026.4) or ONNX Runtime (1.32) refuses or computes wrongly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anylayer.corrections._openvino import keep_apart
from anylayer.corrections.corrector import Corrector, refused
from anylayer.graph import Op, Value
from anylayer.graph.facts import producer_through
from anylayer.graph.operators import AVERAGE_POOLINGS, REARRANGES, REDUCTIONS, VIEWS
from anylayer.network import Array
from anylayer.optimize.rules import rule


def _has_16_bits(value: Value) -> bool:
    return value.dtype.itemsize == 2 and value.dtype.kind in "iu"


def _along(array: Array, x: Array, axis: int) -> Array:
    """Return scales or zero points, one number or one per index of an axis of x, such that they broadcast to x."""
    if len(array.shape) != 1 or array.shape[0] == 1:
        return array.reshape(())
    shape = [1] * len(x.shape)
    shape[axis] = -1
    return array.reshape(shape)


def _is_reduced(new: Corrector, value: Value) -> bool:
    """Return whether a value is the result of a reduction, a view of one, or its maximum with a constant."""
    source = new.producer(value)
    while source is not None and (source in VIEWS or source.op == "Max"):
        source = new.producer(source.inputs[-1] if source.op == "Max" else source.inputs[0])
    return source in REDUCTIONS


@rule("QuantizeLinear", kind="must", targets=("openvino",))
def _quantize(new: Corrector, o: Op) -> list[Value] | None:
    """Compute QuantizeLinear to 16 bits, or after a reduction, by Div, Round and Clip.

    OpenVINO rounds halves differently in 16 bits. It fuses a reduction with QuantizeLinear, even if a maximum is
    between them, and then rounds only the first row.
    """
    x, out = o.first, o.outputs[0]
    if not (_has_16_bits(out) or _is_reduced(new, x)):
        return None
    if o["block_size"]:
        raise refused(o, "block_size with 16 bits or after a reduction")
    axis, info = o["axis"], np.iinfo(out.dtype)

    def quantized(x: Array, scale: Array, zero: Array | None = None) -> Array:
        y = np.rint(x / _along(scale, x, axis))
        y = y if zero is None else y + _along(zero, x, axis).astype(np.float32)
        return np.clip(y, np.float32(info.min), np.float32(info.max)).astype(out.dtype)

    return new.compute(o, quantized)


@rule("DequantizeLinear", kind="must", targets=("openvino",))
def _dequantize(new: Corrector, o: Op) -> list[Value] | None:
    """Compute DequantizeLinear of 16 bits by Cast, Sub and Mul: OpenVINO returns other values."""
    x, scale = o.inputs[:2]
    if x is None or scale is None or not _has_16_bits(x) or scale.dtype != np.float32 or o["block_size"]:
        return None
    axis = o["axis"]

    def dequantized(x: Array, scale: Array, zero: Array | None = None) -> Array:
        y = x.astype(np.int32).astype(np.float32)
        y = y if zero is None else y - _along(zero, x, axis).astype(np.float32)
        return y * _along(scale, x, axis)

    return new.compute(o, dequantized)


@rule(*AVERAGE_POOLINGS, kind="must", targets=("openvino",))
def _mean(new: Corrector, o: Op) -> list[Value] | None:
    """Compute the means of dequantized numbers in float32: OpenVINO rounds them to integers before all else."""
    source = producer_through(new.graph.producers, o.first, REARRANGES)
    if source is None or source.op != "DequantizeLinear":
        return None
    return new.emit(o, o.op, [keep_apart(new, o, o.first), *o.inputs[1:]], **o.attrs)


@rule("DynamicQuantizeLinear", kind="must", targets=("openvino",))
def _quantize_to_range(new: Corrector, o: Op) -> list[Value] | None:
    """Compute DynamicQuantizeLinear by its formulas: OpenVINO rounds some halves differently."""

    def quantized(x: Array) -> list[Array]:
        axes = tuple(range(len(x.shape)))
        low = np.minimum(x.min(axis=axes), np.float32(0))
        high = np.maximum(x.max(axis=axes), np.float32(0))
        scale = (high - low) / np.float32(255)
        scale = np.where(scale == 0, np.float32(1), scale)
        zero = np.clip(np.rint(-low / scale), np.float32(0), np.float32(255))
        y = np.clip(np.rint(x / scale) + zero, np.float32(0), np.float32(255))
        return [y.astype(np.uint8), scale, zero.astype(np.uint8)]

    return new.compute(o, quantized)


@rule("QLinearConv", kind="must", targets=("openvino",))
def _conv(new: Corrector, o: Op) -> list[Value] | None:
    """Compute QLinearConv by DequantizeLinear, Conv and QuantizeLinear: OpenVINO refuses scales per channel."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *rest = o.inputs
    if x is None or w is None or x_scale is None or w_scale is None or y_scale is None:
        return None
    bias = rest[0] if rest else None
    if x_scale.const is None or w_scale.const is None or (bias is not None and bias.const is None):
        return None
    inputs: list[Value | None] = [
        _dequantized(new, o, x, x_scale, x_zero, 1),
        _dequantized(new, o, w, w_scale, w_zero, 0),
    ]
    if bias is not None and bias.const is not None:
        factor = x_scale.const.reshape(()) * w_scale.const.reshape(-1)
        inputs.append(new.constant((bias.const * factor).astype(np.float32)))
    y = new.step(o, "Conv", inputs, dtype=np.float32, **o.attrs)
    return new.emit(o, "QuantizeLinear", [y, y_scale, y_zero])


@rule("QLinearMatMul", kind="must", targets=("openvino",))
def _matmul(new: Corrector, o: Op) -> list[Value] | None:
    """Compute QLinearMatMul in float32, then quantize: OpenVINO returns other values, or refuses."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = o.inputs
    if a is None or b is None or y_scale is None:
        return None
    first = _dequantized(new, o, a, a_scale, a_zero, len(a.shape) - 2)
    second = _dequantized(new, o, b, b_scale, b_zero, len(b.shape) - 1)
    y = new.step(o, "MatMul", [first, second], dtype=np.float32)
    return new.emit(o, "QuantizeLinear", [y, y_scale, y_zero])


def _dequantized(new: Corrector, o: Op, x: Value, scale: Value | None, zero: Value | None, axis: int) -> Value:
    """Return the real numbers of quantized ones. Those of constants are computed here: with weights of 8 bits
    OpenVINO computes some products in integers wrongly, and refuses others."""
    numbers, factors = x.const, None if scale is None else scale.const
    offsets = np.zeros((), x.dtype) if zero is None else zero.const
    if numbers is not None and factors is not None and offsets is not None and factors.ndim < 2:
        shifted = numbers.astype(np.int32) - _along(offsets, numbers, axis).astype(np.int32)
        return new.constant((shifted.astype(np.float32) * _along(factors, numbers, axis)).astype(np.float32))
    return new.step(o, "DequantizeLinear", [x, scale, zero], x.shape, np.float32, axis=max(axis, 0))


@rule("DequantizeLinear", kind="must", targets=("onnxruntime",))
def _without_zero(new: Corrector, o: Op) -> Op | None:
    """Add zero points: without them, ONNX Runtime quantizes moved signed integers to unsigned ones."""
    if o.input(2) is not None or o.first.dtype.kind != "i" or o.first.dtype == np.int32:
        return None
    scale = o.inputs[1]
    zeros = new.constant(np.zeros(() if scale is None else scale.shape, o.first.dtype))
    return replace(o, inputs=[*o.inputs[:2], zeros])
