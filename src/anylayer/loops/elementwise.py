"""Elementwise operators, as expressions for one element."""

from __future__ import annotations

from functools import reduce

import numpy as np

from anylayer.graph import Op
from anylayer.graph.sized import elements_of
from anylayer.loops.ir import Scalar
from anylayer.loops.lowering import ELEMENTS, Element, Index, Lowering, Unsupported, elements, given
from anylayer.loops.reciprocals import reciprocals

UNARY = {
    **{n: n.lower() for n in ("Neg", "Abs", "Sqrt", "Exp", "Log", "Floor", "Ceil", "Tanh", "Sin", "Cos", "Tan")},
    **{n: n.lower() for n in ("Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Sign")},
    "Round": "round",
    "BitwiseNot": "bitnot",
}
BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Max": "max", "Min": "min", "Sum": "add",
    "BitwiseAnd": "bitand", "BitwiseOr": "bitor", "BitwiseXor": "bitxor",
}  # fmt: skip
TRUTH = {
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge", "And": "and",
    "Or": "or", "Xor": "xor",
}  # fmt: skip


_MAX_DIVISORS = 1024
"""The largest number of elements of an array of divisors whose reciprocals are constants, too."""


def _operands(low: Lowering, op: Op, index: Index, count: int) -> list[Scalar]:
    """Return the elements of the first `count` inputs that are broadcast to an element of the output."""
    return [low.operand(given(op, i), index, op.outputs[0].shape) for i in range(count)]


def _called(name: str) -> Element:
    """Return the function for an operator that calls a function of its inputs, two at a time if there are more."""

    def element(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
        dtype, (first, *others) = op.outputs[0].dtype, _operands(low, op, index, len(op.inputs))
        if op.op in UNARY:
            return low.scalars.call(name, dtype, first)
        return reduce(lambda a, b: low.scalars.call(name, dtype, a, b), others, first)

    return element


ELEMENTS.update({op: _called(name) for op, name in {**UNARY, **BINARY, **TRUTH}.items()})


@elements("Div")
def _quotient(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    """Return a quotient. The reciprocals of a constant divisor are operands, too, where they compute the same."""
    args, divisor = _operands(low, op, index, 2), given(op, 1).const
    small = divisor is not None and elements_of(divisor) is None and 0 < divisor.size <= _MAX_DIVISORS
    if divisor is not None and small and not low.by_element and low.scalars.intervals.of(args[0]) is not None:
        for part in reciprocals(divisor) or ():
            args.append(low.operand(low.graph.constant(part), index, op.outputs[0].shape))
    return low.scalars.call("div", op.outputs[0].dtype, *args)


@elements("Identity", "Dropout")
def _identity(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    if at:
        raise Unsupported("the mask of a Dropout")
    return low.element(given(op), index)


elements("Not")(lambda low, op, at, index: low.scalars.truth("not", low.element(given(op), index)))
elements("Where")(lambda low, op, at, index: low.scalars.choice(*_operands(low, op, index, 3)))


@elements("IsNaN")
def _is_nan(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    x = low.element(given(op), index)
    return low.scalars.truth("ne", x, x)


@elements("IsInf")
def _is_infinite(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    x = low.element(given(op), index)
    tests = [
        low.scalars.truth("eq", x, low.scalars.const(sign * np.inf, x.dtype))
        for sign, name in ((1, "detect_positive"), (-1, "detect_negative"))
        if op[name]
    ]
    if not tests:
        raise Unsupported("an IsInf that detects nothing")
    return tests[0] if len(tests) == 1 else low.scalars.truth("or", *tests)


@elements("Mod")
def _modulo(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    a, b = _operands(low, op, index, 2)
    return low.scalars.call("fmod" if op["fmod"] else "mod", op.outputs[0].dtype, a, b)


@elements("Pow")
def _power(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    """Return a power; a small integer exponent becomes a product."""
    a, b = _operands(low, op, index, 2)
    exponent = b.data if b.op == "const" else b.data.constant if b.op == "index" else None
    if exponent == 2:
        return low.scalars.call("mul", a.dtype, a, a)
    if exponent == 0.5 and a.dtype.kind == "f":
        return low.scalars.call("sqrt", a.dtype, a)
    if a.dtype.kind != "f":
        raise Unsupported("a power of integers")
    return low.scalars.call("pow", a.dtype, a, low.scalars.cast(b, a.dtype))


@elements("Cast", "CastLike")
def _cast(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    return low.scalars.cast(low.element(given(op), index), op.outputs[0].dtype)


@elements("Clip")
def _clip(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    element = low.element(given(op), index)
    for i, name in ((1, "max"), (2, "min")):
        limit = op.input(i)
        if limit is not None:
            element = low.scalars.call(
                name, element.dtype, element, low.operand(limit, index, op.outputs[0].shape)
            )
    return element


@elements("Relu")
def _relu(low: Lowering, op: Op, at: int, index: Index) -> Scalar:
    x = low.element(given(op), index)
    return low.scalars.call("max", x.dtype, x, low.scalars.const(0, x.dtype))
