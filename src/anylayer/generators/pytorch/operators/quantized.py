"""Operators that convert between floats and quantized integers."""

from __future__ import annotations

import numpy as np

from anylayer.generators.pytorch.code import Code, dtype_of, first
from anylayer.generators.pytorch.operators import writes
from anylayer.graph import Op, Value
from anylayer.writers._target import present, require


def _along(code: Code, op: Op, value: Value | None, role: str) -> str:
    """Return a scale or a zero point, broadcast along the operator's axis."""
    value = present(value)
    require(len(value.shape) <= 1 and not op["block_size"], "a scale per block")
    text = code.tensor(value, role)
    if len(value.shape) == 0 or value.shape == (1,):
        return text
    shape = [1] * len(first(op).shape)
    shape[op["axis"]] = -1
    return f"{text}.reshape({tuple(shape)})"


@writes("DequantizeLinear")
def _dequantize(code: Code, op: Op) -> str:
    data = f"{code.tensor(first(op))}.to({dtype_of(op.outputs[0].dtype)})"
    zero = op.input(2)
    if zero is not None:
        data = f"({data} - {_along(code, op, zero, 'zero')}.to({dtype_of(op.outputs[0].dtype)}))"
    return f"{data} * {_along(code, op, op.inputs[1], 'scale')}"


@writes("QuantizeLinear")
def _quantize(code: Code, op: Op) -> str:
    """Round halves to even, add the zero point, and saturate."""
    y = op.outputs[0]
    require(y.dtype.kind in "iu" and first(op).dtype == np.float32, f"a quantization to {y.dtype.name}")
    limits, zero = np.iinfo(y.dtype), op.input(2)
    text = f"torch.round({code.tensor(first(op))} / {_along(code, op, op.inputs[1], 'scale')})"
    text = text if zero is None else f"{text} + {_along(code, op, zero, 'zero')}.float()"
    return f"torch.clamp({text}, {limits.min}, {limits.max}).to({dtype_of(y.dtype)})"
