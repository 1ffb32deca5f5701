"""Sums of products of bytes on x86 processors without VNNI instructions.

ONNX Runtime (1.32) and OpenVINO (2026.4) saturate them there. They multiply unsigned by signed bytes and add the
products in pairs, in 16 bits (the instruction VPMADDUBSW): 255 * 127 + 255 * 127 becomes 32767. They add products
of two unsigned or of two signed bytes in 32 bits. So the second factor gets the dtype of the first: its numbers
and its zero point move by 128, which changes no difference.
"""

from __future__ import annotations

import numpy as np

from anylayer.corrections.corrector import Corrector
from anylayer.graph import Op, Value
from anylayer.optimize.rules import rule

_PRODUCTS = {"MatMulInteger": (1, 3), "ConvInteger": (1, 3), "QLinearMatMul": (3, 5), "QLinearConv": (3, 5)}
"""Products of quantized numbers, with the indices of their second factor and its zero point."""
_UNSIGNED, _SIGNED = np.dtype(np.uint8), np.dtype(np.int8)


@rule(*_PRODUCTS, kind="must", targets=("onnxruntime",))
def _product(new: Corrector, o: Op) -> list[Value] | None:
    """Compute a product of unsigned and signed bytes with two factors of one dtype."""
    index, zero = _PRODUCTS[o.op]
    first, second = o.inputs[0], o.inputs[index]
    if first is None or second is None or first.dtype == second.dtype or not _onnxruntime_saturates():
        return None
    inputs = [*o.inputs, *[None] * (zero + 1 - len(o.inputs))]
    zeros = inputs[zero] or new.constant(np.zeros((), second.dtype))
    inputs[index], inputs[zero] = _move_zero(new, o, second), _move_zero(new, o, zeros)
    return new.emit(o, o.op, inputs, **o.attrs)


@rule("DequantizeLinear", kind="must", targets=("onnxruntime",))
def _factor_of_onnxruntime(new: Corrector, o: Op) -> list[Value] | None:
    """Make the second factor of a product unsigned: ONNX Runtime fuses DequantizeLinear with the product."""
    return _make_unsigned(new, o) if _is_signed_factor(new, o) and _onnxruntime_saturates() else None


@rule("DequantizeLinear", kind="must", targets=("openvino",))
def _factor_of_openvino(new: Corrector, o: Op) -> list[Value] | None:
    """Make the second factor of a product unsigned. OpenVINO multiplies it in float32 then.

    Constants are in files only, which are right on every processor then. In a transposed convolution of signed
    bytes it stays signed, because OpenVINO computes that of signed and unsigned ones wrongly.
    """
    from anylayer.libraries.openvino import saturates

    if not _is_signed_factor(new, o) or not (o.first.const is not None or saturates()):
        return None
    x = new.maps_of_filters.get(o.outputs[0])  # its producer, where a transposed convolution multiplies both
    return None if x is not None and x.op == o.op and x.first.dtype == _SIGNED else _make_unsigned(new, o)


def _onnxruntime_saturates() -> bool:
    from anylayer.libraries.onnxruntime import saturates

    return saturates()


def _is_signed_factor(new: Corrector, o: Op) -> bool:
    x = o.inputs[0]
    return x is not None and x.dtype == _SIGNED and o.outputs[0] in new.second_factors


def _make_unsigned(new: Corrector, o: Op) -> list[Value] | None:
    x, scale, *rest = o.inputs
    if x is None or scale is None:
        return None
    zeros = rest[0] if rest and rest[0] is not None else new.constant(np.zeros(scale.shape, np.int8))
    return new.emit(o, "DequantizeLinear", [_move_zero(new, o, x), scale, _move_zero(new, o, zeros)], **o.attrs)


def _move_zero(new: Corrector, o: Op, x: Value) -> Value:
    """Return int8 numbers plus 128 as uint8, or uint8 numbers minus 128 as int8."""
    to, step, code = (_UNSIGNED, 128, 2) if x.dtype == _SIGNED else (_SIGNED, -128, 3)
    if x.const is not None:
        return new.constant((x.const.astype(np.int16) + step).astype(to))
    wide = new.step(o, "Cast", [x], x.shape, np.int32, to=6)
    moved = new.step(o, "Add", [wide, new.constant(np.array(step, np.int32))], x.shape, np.int32)
    return new.step(o, "Cast", [moved], x.shape, to, to=code)
