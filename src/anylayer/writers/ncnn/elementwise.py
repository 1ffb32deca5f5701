"""Elementwise operators with one input, and with inputs that broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import number
from anylayer.network import Shape
from anylayer.writers._target import NotInTarget, present, require
from anylayer.writers.ncnn.builder import RANK, NcnnBuilder, NcnnLowering, NcnnParams, without_batch

_UNARY = {"Abs": 0, "Neg": 1, "Floor": 2, "Ceil": 3, "Sqrt": 5, "Exp": 7, "Tanh": 16, "Round": 18}
"""op_type of UnaryOp for operators that ncnn computes correctly for all finite inputs.

Log and Reciprocal give NaN at 0, Sin at 1e10; they are left out."""

_SQUARE, _SQRT = 4, 5
_BINARY = {"Add": 0, "Sub": 1, "Mul": 2, "Div": 3, "Max": 4, "Min": 5}
_POWER, _NO_TYPE = 6, -1
_SWAPPED = {0: 0, 1: 7, 2: 2, 3: _NO_TYPE, 4: 4, 5: 5}
"""The op_type of BinaryOp with exchanged operands."""

_TINY, _HUGE = 2e-38, 8e37
"""Numbers between these have a reciprocal that is a normal float32."""


def _layer(type_: str, *attributes: str, params: NcnnParams | None = None) -> NcnnLowering:
    """Return the lowering of an operator to one layer of the same shape, whose params are attributes, or given."""

    def lower(b: NcnnBuilder, op: Op) -> list[str]:
        x = b.blob(op.inputs[0])
        return [b.add(type_, [x], b.shapes[x], params or {i: float(op[n]) for i, n in enumerate(attributes)})]

    return lower


def _clip(b: NcnnBuilder, op: Op) -> list[str]:
    limits: dict[int, float] = {}
    for key, value in enumerate(op.inputs[1:]):
        if value is not None:
            limits[key] = present(number(value), "a limit that is not a finite constant")
            require(math.isfinite(limits[key]), "a limit that is not a finite constant")
    return _layer("Clip", params=limits)(b, op)


def _binary(b: NcnnBuilder, op: Op) -> list[str]:
    values = [v for v in op.inputs if v is not None]
    if len(values) == 1:
        return [b.blob(values[0])]
    code = _BINARY[op.op]
    blob, shape = _binary_layer(b, code, values[0], values[1])
    for value in values[2:]:
        shape, rest = np.broadcast_shapes(shape, value.shape), shape
        blob = _broadcast(b, code, (blob, rest), (b.blob(value), value.shape))
    return [blob]


def _binary_layer(b: NcnnBuilder, code: int, x: Value, y: Value) -> tuple[str, Shape]:
    """Add a BinaryOp with op_type `code` and return its blob and the broadcast shape."""
    shape = tuple(np.broadcast_shapes(x.shape, y.shape))
    for value, other, kind in ((x, y, code), (y, x, _SWAPPED[code])):
        constant = number(other)
        if constant is not None and _is_exact(constant, kind) and value.shape == shape:
            blob = b.blob(value)
            return b.add("BinaryOp", [blob], b.shapes[blob], {0: kind, 1: 1, 2: constant}), shape
    right = _divisor(b, y) if code == _BINARY["Div"] else b.blob(y)
    return _broadcast(b, code, (b.blob(x), x.shape), (right, y.shape)), shape


def _is_exact(constant: float, code: int) -> bool:
    """Return whether ncnn computes an operation with this constant correctly for all inputs."""
    if code == _BINARY["Div"]:
        return _TINY < abs(constant) < _HUGE
    return math.isfinite(constant) and code != _NO_TYPE


def _divisor(b: NcnnBuilder, value: Value) -> str:
    """Return a blob to divide by.

    ncnn multiplies by the reciprocal, and gives NaN where that is not a normal float32. So values are limited, and
    NotInTarget is raised where they may be 0 or negative.
    """
    blob = b.blob(value)
    if value.const is not None:
        sizes = np.abs(value.const)
        require(bool(sizes.min() > _TINY and sizes.max() < _HUGE), "a division by 0 or by more than 8e37")
        return blob
    require(b.intervals.lowest(value) > _TINY, "a division by values that may be 0 or less")
    return b.add("Clip", [blob], b.shapes[blob], {1: _HUGE})


def _broadcast(b: NcnnBuilder, code: int, x: tuple[str, Sequence[int]], y: tuple[str, Sequence[int]]) -> str:
    """Add a BinaryOp on two blobs with the shapes of their values, which are broadcast."""
    if tuple(x[1]) == tuple(y[1]) and b.shapes[x[0]] == b.shapes[y[0]]:
        return b.add("BinaryOp", [x[0], y[0]], b.shapes[x[0]], {0: code})
    left, right = _align_ranks(x[1], y[1])
    shape = tuple(np.broadcast_shapes(left, right))
    return b.add("BinaryOp", [b.reshape(x[0], left), b.reshape(y[0], right)], shape, {0: code})


def _align_ranks(x: Sequence[int], y: Sequence[int]) -> tuple[Shape, Shape]:
    """Return both shapes with the same rank. Merge adjacent axes where the rank would be more than four."""
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
        pattern = (m == 1, n == 1)
        if pattern == last:
            merged[-1] = [merged[-1][0] * m, merged[-1][1] * n]
        else:
            merged.append([m, n])
        last = pattern
    return tuple(p[0] for p in merged), tuple(p[1] for p in merged)


def _power(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a square, a square root, or ncnn's power exp(y * log(x)), which needs a positive x."""
    x, exponent = b.blob(op.inputs[0]), number(op.inputs[1])
    shape = b.shapes[x]
    if exponent is None or op.first.shape != op.outputs[0].shape:
        raise NotInTarget("an exponent that is not a constant number")
    if exponent == 2:
        return [b.add("UnaryOp", [x], shape, {0: _SQUARE})]
    if exponent == 0.5:
        return [b.add("UnaryOp", [x], shape, {0: _SQRT})]
    positive = b.intervals.lowest(op.first) > _TINY and math.isfinite(exponent)
    require(positive, f"exponent {exponent} of values that may be 0 or less")
    return [b.add("BinaryOp", [x], shape, {0: _POWER, 1: 1, 2: exponent})]


def _expand(b: NcnnBuilder, op: Op) -> list[str]:
    x, out = op.inputs[0], op.outputs[0]
    if x is not None and x.shape == out.shape:
        return [b.blob(x)]
    shape = without_batch(out.shape)
    require(x is not None and len(shape) <= RANK, f"{len(shape)} axes (at most {RANK} are possible)")
    ones = b.constant(np.ones(shape, np.float32), shape)
    return [_broadcast(b, _BINARY["Mul"], (b.blob(x), x.shape if x is not None else ()), (ones, out.shape))]


ELEMENTWISE: dict[str, NcnnLowering] = {
    **{name: _layer("UnaryOp", params={0: code}) for name, code in _UNARY.items()},
    **dict.fromkeys(_BINARY, _binary),
    "Relu": _layer("ReLU"),
    "Sigmoid": _layer("Sigmoid"),
    "LeakyRelu": _layer("ReLU", "alpha"),
    "Elu": _layer("ELU", "alpha"),
    "HardSigmoid": _layer("HardSigmoid", "alpha", "beta"),
    "Clip": _clip,
    "Expand": _expand,
    "Pow": _power,
}
