"""Operators that compute each value alone, or of two arrays that broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.graph import Op, Value
from anylayer.writers.ncnn.builder import RANK, Builder, Form, Params, Shape, Unsupported, natural, require

_UNARY = {"Abs": 0, "Neg": 1, "Floor": 2, "Ceil": 3, "Sqrt": 5, "Exp": 7, "Tanh": 16, "Round": 18}
"""Those whose values are right for all finite inputs. (Log and Reciprocal give NaN at 0, Sin at 1e10.)"""

_SQUARE, _SQRT = 4, 5
_BINARY = {"Add": 0, "Sub": 1, "Mul": 2, "Div": 3, "Max": 4, "Min": 5}
_POWER, _NEVER = 6, -1
_SWAPPED = {0: 0, 1: 7, 2: 2, 3: _NEVER, 4: 4, 5: 5}
"""The operation with its operands exchanged."""

_TINY, _HUGE = 2e-38, 8e37


def _alone(type_: str, params: Params | None = None) -> Form:
    def form(b: Builder, op: Op) -> list[str]:
        x = b.blob(op.inputs[0])
        return [b.one(type_, [x], b.shapes[x], params)]

    return form


def _leaky(b: Builder, op: Op) -> list[str]:
    return _alone("ReLU", {0: float(op.attrs.get("alpha", 0.01))})(b, op)


def _elu(b: Builder, op: Op) -> list[str]:
    return _alone("ELU", {0: float(op.attrs.get("alpha", 1.0))})(b, op)


def _hard_sigmoid(b: Builder, op: Op) -> list[str]:
    return _alone("HardSigmoid", {0: float(op.attrs.get("alpha", 0.2)), 1: float(op.attrs.get("beta", 0.5))})(
        b, op
    )


def _clip(b: Builder, op: Op) -> list[str]:
    limits: dict[int, float] = {}
    for key, value in enumerate(op.inputs[1:]):
        if value is not None:
            number = scalar(value)
            require(number is not None and math.isfinite(number), "a limit that is no finite constant")
            limits[key] = number if number is not None else 0.0
    return _alone("Clip", limits)(b, op)


def _same(b: Builder, op: Op) -> list[str]:
    return [b.blob(op.inputs[0])]


def scalar(value: Value | None) -> float | None:
    """The number a constant of one value holds."""
    if value is None or value.const is None or value.const.size != 1:
        return None
    return float(np.asarray(value.const).reshape(()))


def _binary(b: Builder, op: Op) -> list[str]:
    values = [v for v in op.inputs if v is not None]
    if len(values) == 1:
        return [b.blob(values[0])]
    code = _BINARY[op.op]
    blob, shape = _pair(b, code, values[0], values[1])
    for value in values[2:]:
        shape, rest = np.broadcast_shapes(shape, value.shape), shape
        blob = _broadcast(b, code, (blob, rest), (b.blob(value), value.shape))
    return [blob]


def _pair(b: Builder, code: int, x: Value, y: Value) -> tuple[str, Shape]:
    shape = tuple(np.broadcast_shapes(x.shape, y.shape))
    for value, other, number in ((x, y, code), (y, x, _SWAPPED[code])):
        constant = scalar(other)
        if constant is not None and _is_plain(constant, number) and value.shape == shape:
            blob = b.blob(value)
            return b.one("BinaryOp", [blob], b.shapes[blob], {0: number, 1: 1, 2: constant}), shape
    right = _divisor(b, y) if code == _BINARY["Div"] else b.blob(y)
    return _broadcast(b, code, (b.blob(x), x.shape), (right, y.shape)), shape


def _is_plain(constant: float, code: int) -> bool:
    """Whether an operation with a constant is right in every case."""
    if code == _BINARY["Div"]:
        return _TINY < abs(constant) < _HUGE
    return math.isfinite(constant) and code != _NEVER


def _divisor(b: Builder, value: Value) -> str:
    """A blob to divide by. ncnn does so by way of the reciprocal: where that is no normal number it gives NaN."""
    blob = b.blob(value)
    if value.const is not None:
        sizes = np.abs(value.const)
        require(bool(sizes.min() > _TINY and sizes.max() < _HUGE), "a division by 0 or by more than 8e37")
        return blob
    require(b.intervals.lowest(value) > _TINY, "a division by values that may be 0 or less")
    return b.one("Clip", [blob], b.shapes[blob], {1: _HUGE})


def _broadcast(b: Builder, code: int, x: tuple[str, Sequence[Any]], y: tuple[str, Sequence[Any]]) -> str:
    """Both operands in shapes of one rank, of which an axis of 1 is repeated."""
    if tuple(x[1]) == tuple(y[1]) and b.shapes[x[0]] == b.shapes[y[0]]:
        return b.one("BinaryOp", [x[0], y[0]], b.shapes[x[0]], {0: code})
    left, right = _aligned(x[1], y[1])
    shape = tuple(np.broadcast_shapes(left, right))
    return b.one("BinaryOp", [b.viewed(x[0], left), b.viewed(y[0], right)], shape, {0: code})


def _aligned(x: Sequence[int], y: Sequence[int]) -> tuple[Shape, Shape]:
    """Two shapes with as many axes, as few as it takes where four would not do."""
    rank = max(len(x), len(y), 1)
    left, right = (1,) * (rank - len(x)) + tuple(x), (1,) * (rank - len(y)) + tuple(y)
    if rank > 1 and left[0] == right[0] == 1:
        left, right = left[1:], right[1:]
    if len(left) <= RANK:
        return left, right
    merged: list[list[int]] = []
    last = None
    for m, n in zip(left, right):
        if m == n == 1:
            continue
        kind = (m == 1, n == 1)
        if kind == last:
            merged[-1] = [merged[-1][0] * m, merged[-1][1] * n]
        else:
            merged.append([m, n])
        last = kind
    return tuple(p[0] for p in merged), tuple(p[1] for p in merged)


def _power(b: Builder, op: Op) -> list[str]:
    """ncnn's own power is exp(y log x), which is wrong for x below 0; those here have other ways."""
    x, exponent = b.blob(op.inputs[0]), scalar(op.inputs[1])
    shape = b.shapes[x]
    if exponent is None or op.inputs[0] is None or op.inputs[0].shape != op.outputs[0].shape:
        raise Unsupported("an exponent that is no single constant")
    if exponent == 2:
        return [b.one("UnaryOp", [x], shape, {0: _SQUARE})]
    if exponent == 0.5:
        return [b.one("UnaryOp", [x], shape, {0: _SQRT})]
    positive = b.intervals.lowest(op.inputs[0]) > _TINY and math.isfinite(exponent)
    require(positive, f"exponent {exponent} of values that may be 0 or less")
    return [b.one("BinaryOp", [x], shape, {0: _POWER, 1: 1, 2: exponent})]


def _expand(b: Builder, op: Op) -> list[str]:
    x, out = op.inputs[0], op.outputs[0]
    if x is not None and x.shape == out.shape:
        return [b.blob(x)]
    shape = natural(out.shape)
    require(x is not None and len(shape) <= RANK, f"{len(shape)} axes")
    one = b.memory(np.ones(shape, np.float32), shape)
    return [_broadcast(b, _BINARY["Mul"], (b.blob(x), x.shape if x is not None else ()), (one, out.shape))]


ELEMENTWISE: dict[str, Form] = {
    **{name: _alone("UnaryOp", {0: code}) for name, code in _UNARY.items()},
    **dict.fromkeys(_BINARY, _binary),
    "Relu": _alone("ReLU"),
    "Sigmoid": _alone("Sigmoid"),
    "LeakyRelu": _leaky,
    "Elu": _elu,
    "HardSigmoid": _hard_sigmoid,
    "Clip": _clip,
    "Identity": _same,
    "Expand": _expand,
    "Pow": _power,
}
