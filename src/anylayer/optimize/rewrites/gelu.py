"""GELU in pieces, in whatever order its factors are written."""

from __future__ import annotations

import math

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.network import Array
from anylayer.optimize.rewrites.matching import made, number, plain, with_number
from anylayer.optimize.simplify import Rewriter, rule

_DEPTH = 8
_ROOT = math.sqrt(2 / math.pi)
_INSIDE = {
    "Erf": np.array([0, math.sqrt(0.5), 0, 0]),
    "Tanh": np.array([0, _ROOT, 0, 0.044715 * _ROOT]),
}
_NAMES = {"Erf": "none", "Tanh": "tanh"}


@rule(
    "Mul",
    "Div",
    engines=("onnxruntime",),
    inexact=True,
    figure="by tanh, us: 96x55x55 363 -> 153, 128x768 142 -> 62; by erf 128x768 77 -> 47, 96x55x55 285 -> 197; "
    "OpenVINO finds it itself",
)
def _gelu(new: Rewriter, o: Op) -> list[Value] | None:
    """x / 2 * (1 + erf(x / sqrt(2))), or its approximation by tanh, is Gelu."""
    if not plain(o):
        return None
    values, factor = _factors(new, o, _DEPTH)
    if len(values) != 2 or abs(factor - 0.5) > 1e-6:
        return None
    for x, gate in (values, values[::-1]):
        more = with_number(new, gate, "Add")
        for op, wanted in _INSIDE.items():
            wave = made(new, more[0], op) if more is not None and more[1] == 1 else None
            inside = _polynomial(new, wave[0], x, _DEPTH) if wave is not None else None
            if inside is not None and _close(inside, wanted) and x.shape == o.outputs[0].shape:
                return new.emit(o, "Gelu", [x], approximate=_NAMES[op])
    return None


def _factors(new: Rewriter, source: Op | Value, depth: int) -> tuple[list[Value], float]:
    """What is multiplied to give `source`, and the product of the numbers among it."""
    parts = made(new, source, "Mul") if depth else None
    if parts is None:
        quotient = made(new, source, "Div") if depth else None
        below = number(quotient[1]) if quotient is not None else None
        if quotient is None or not below:
            return ([source] if isinstance(source, Value) else []), 1.0
        values, factor = _factors(new, quotient[0], depth - 1)
        return values, factor / below
    found: list[Value] = []
    total = 1.0
    for part in parts:
        n = number(part)
        values, factor = ([], n) if n is not None else _factors(new, part, depth - 1)
        found, total = found + values, total * factor
    return found, total


def _polynomial(new: Rewriter, value: Value, x: Value, depth: int) -> Array | None:
    """The coefficients of the polynomial of x that a value is: of 1, x, x^2 and x^3."""
    if value is x:
        return np.array([0.0, 1, 0, 0])
    n, maker = number(value), new.maker(value)
    if n is not None:
        return np.array([n, 0, 0, 0])
    if maker is None or not depth or len(maker.inputs) != 2:
        return None
    a, b = (_polynomial(new, v, x, depth - 1) if v is not None else None for v in maker.inputs)
    if a is None or b is None:
        return None
    if maker.op in ("Add", "Sub"):
        total: Array = a + b if maker.op == "Add" else a - b
        return total
    if maker.op == "Div":
        return a / b[0] if b[0] and not b[1:].any() else None
    product: Array = np.convolve(a, b)
    return product[:4] if maker.op == "Mul" and not product[4:].any() else None


def _close(a: Array, b: Array) -> bool:
    return bool((np.abs(a - b) <= 1e-6 * np.abs(b)).all())
