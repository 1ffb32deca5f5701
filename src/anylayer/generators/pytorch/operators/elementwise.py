"""Elementwise operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.generators.pytorch.code import Code, dtype_of, first
from anylayer.generators.pytorch.operators import formulas, writes
from anylayer.graph import Op, Value
from anylayer.writers._target import present, require

_ROLES = {"Mul": "scale", "Add": "bias", "Sub": "bias", "Div": "scale"}
_SAME_NAMES = """
Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor IsNaN Log Reciprocal Round Sigmoid Sign Sin Sinh
Sqrt Tan Tanh
"""
"""Operators for which torch has functions of the same names in small letters."""
_FORMULAS = {
    **{name: f"torch.{name.lower()}({{0}})" for name in _SAME_NAMES.split()},
    **{name: f"F.{name.lower()}({{0}})" for name in ("Mish", "Relu", "Softplus", "Softsign", "HardSwish")},
    "Identity": "{0}",
    "Neg": "-{0}",
    "Not": "torch.logical_not({0})",
    "BitwiseNot": "torch.bitwise_not({0})",
    "And": "torch.logical_and({0}, {1})",
    "Or": "torch.logical_or({0}, {1})",
    "Xor": "torch.logical_xor({0}, {1})",
    "LeakyRelu": "F.leaky_relu({0}, {alpha})",
    "Elu": "F.elu({0}, {alpha})",
    "Celu": "F.celu({0}, {alpha})",
    "Selu": "{gamma} * F.elu({0}, {alpha})",
    "ThresholdedRelu": "F.threshold({0}, {alpha}, 0.0)",
    "HardSigmoid": "torch.clamp({alpha} * {0} + {beta}, 0.0, 1.0)",
}
formulas(_FORMULAS)
_INFIX = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Equal": "==",
    "Less": "<",
    "LessOrEqual": "<=",
    "Greater": ">",
    "GreaterOrEqual": ">=",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
}


def operand(code: Code, op: Op, i: int) -> str:
    """Return input `i` of an operator that broadcasts: as a number if only it is a constant scalar."""
    value, other = op.inputs[i], op.inputs[1 - i]
    text = None
    if other is not None and other.const is None and other.dtype.kind != "b":
        text = code.number(value, other.shape)
    return text if text is not None else code.tensor(value, _ROLES.get(op.op, "constant"))


@writes(*_INFIX)
def _infix(code: Code, op: Op) -> str:
    left, right = operand(code, op, 0), operand(code, op, 1)
    return f"{left} {_INFIX[op.op]} {right}"


@writes("Div")
def _divide(code: Code, op: Op) -> str:
    left, right = operand(code, op, 0), operand(code, op, 1)
    if first(op).dtype.kind in "iu":
        left = left if not left.lstrip("-").isdigit() else code.tensor(op.inputs[0])
        return f'torch.div({left}, {right}, rounding_mode="trunc")'
    return f"{left} / {right}"


@writes("Mod")
def _modulo(code: Code, op: Op) -> str:
    left, right = code.tensor(op.inputs[0]), operand(code, op, 1)
    return f"torch.{'fmod' if op['fmod'] else 'remainder'}({left}, {right})"


@writes("Pow")
def _power(code: Code, op: Op) -> str:
    base, exponent = (present(v) for v in op.inputs[:2])
    text = f"torch.pow({operand(code, op, 0)}, {operand(code, op, 1)})"
    same = base.dtype == exponent.dtype
    return text if same else f"{text}.to({dtype_of(op.outputs[0].dtype)})"


@writes("Max", "Min", "Sum", "Mean")
def _several(code: Code, op: Op) -> str:
    found = code.tensor(first(op))
    for value in op.inputs[1:]:
        other = code.tensor(value)
        found = (
            f"{found} + {other}" if op.op in ("Sum", "Mean") else f"torch.{op.op.lower()}imum({found}, {other})"
        )
    return f"({found}) / {len(op.inputs)}" if op.op == "Mean" else found


@writes("Clip")
def _clip(code: Code, op: Op) -> str:
    x = first(op)
    limits = [
        None if v is None else code.number(v, x.shape) or code.tensor(v) for v in (*op.inputs[1:], None, None)[:2]
    ]
    if limits == [None, None]:
        return code.tensor(x)
    if any(text is not None and text.isidentifier() for text in limits):
        found = code.tensor(x)
        for text, function in zip(limits, ("maximum", "minimum")):
            if text is not None:
                limit = text if text.isidentifier() else f"torch.tensor({text}, dtype={dtype_of(x.dtype)})"
                found = f"torch.{function}({found}, {limit})"
        return found
    named = [f"{name}={text}" for name, text in zip(("min", "max"), limits) if text is not None]
    return f"torch.clamp({code.tensor(x)}, {', '.join(named)})"


@writes("Where")
def _where(code: Code, op: Op) -> str:
    condition, a, b = op.inputs
    texts = [code.tensor(condition)]
    for value, other in ((a, b), (b, a)):
        text = None
        if other is not None and other.const is None and (other.dtype.kind == "f" or other.dtype == np.int64):
            text = code.number(value, other.shape)
        texts.append(text if text is not None else code.tensor(value))
    return f"torch.where({', '.join(texts)})"


@writes("Cast", "CastLike", unread=(1,))
def _cast(code: Code, op: Op) -> str:
    source, target = first(op).dtype, op.outputs[0].dtype
    x = code.tensor(first(op))
    if target == np.bool_ and source != np.bool_:
        return f"{x} != 0"
    return f"{x}.to({dtype_of(target)})"


@writes("Dropout", unread=(1, 2))
def _dropout(code: Code, op: Op) -> str:
    training = op.input(2)
    known = training is None or (training.const is not None and not training.const.any())
    require(known and len(op.outputs) == 1, "a Dropout for training")
    return code.tensor(first(op))


@writes("IsInf")
def _is_infinite(code: Code, op: Op) -> str:
    positive, negative = op["detect_positive"], op["detect_negative"]
    function = "isinf" if positive and negative else "isposinf" if positive else "isneginf"
    require(positive or negative, "an IsInf that detects nothing")
    return f"torch.{function}({code.tensor(first(op))})"


@writes("Gelu")
def _gelu(code: Code, op: Op) -> str:
    tanh = op["approximate"] == "tanh"
    return f"F.gelu({code.tensor(first(op))}{', approximate=' + repr('tanh') if tanh else ''})"


@writes("PRelu")
def _prelu(code: Code, op: Op) -> str:
    x, slopes = first(op), present(op.inputs[1])
    weights = _slopes(x, slopes)
    if weights is not None:
        text = f"nn.PReLU({weights.size})"
        return f"{code.module(text, {'weight': weights}, [slopes])}({code.tensor(x)})"
    data = code.tensor(x)
    return f"torch.where({data} >= 0, {data}, {data} * {code.tensor(slopes, 'slopes')})"


def _slopes(x: Value, slopes: Value) -> Any:
    """Return constant slopes, one for all or one per channel, as nn.PReLU stores them; None for others."""
    if slopes.const is None or slopes.dtype != np.float32 or len(x.shape) < 2:
        return None
    if slopes.const.size == 1:
        return slopes.const.reshape(1)
    shape = (1,) * (len(x.shape) - slopes.const.ndim) + slopes.const.shape
    channels = shape[1] == x.shape[1] and slopes.const.size == shape[1]
    return slopes.const.reshape(-1) if channels else None
