"""Products of matrices."""

from __future__ import annotations

import re

import numpy as np

from anylayer.generators.pytorch.code import Code, first, number
from anylayer.generators.pytorch.operators import writes
from anylayer.graph import Op, Value
from anylayer.network import Array
from anylayer.writers._target import present, require


def _linear(code: Code, weight: Array, bias: Array | None, key: list[Value | None]) -> str:
    """Return the expression of an nn.Linear. `weight` is of shape (outputs, inputs). `key`: modules with the same
    values share their weights."""
    outputs, inputs = weight.shape
    state = {"weight": np.ascontiguousarray(weight)} | ({} if bias is None else {"bias": bias})
    return code.module(f"nn.Linear({inputs}, {outputs}{'' if bias is not None else ', bias=False'})", state, key)


def _matrix(value: Value | None) -> Array | None:
    """Return a constant float32 matrix."""
    if value is None or value.const is None or value.const.ndim != 2 or value.dtype != np.float32:
        return None
    return value.const


@writes("MatMul")
def _matmul(code: Code, op: Op) -> str:
    x, other = first(op), op.inputs[1]
    weight = _matrix(other)
    if weight is not None and x.const is None and code.weights.has(weight):
        return f"{_linear(code, weight.T, None, [other])}({code.tensor(x)})"
    return f"{code.tensor(x, 'matrix')} @ {code.tensor(other, 'matrix')}"


@writes("Gemm")
def _gemm(code: Code, op: Op) -> str:
    a, b, c = op.input(0), op.input(1), op.input(2)
    alpha, beta = (float(op[name]) for name in ("alpha", "beta"))
    weight = _matrix(b)
    bias = None if c is None else c.const
    plain = alpha == 1 and not op["transA"] and a is not None and a.const is None
    if plain and weight is not None and (c is None or beta == 1):
        weight = weight if op["transB"] else weight.T
        if c is None or (bias is not None and bias.shape == weight.shape[:1] and bias.dtype == np.float32):
            return f"{_linear(code, weight, bias, [b, c])}({code.tensor(a)})"
    left = code.tensor(a, "matrix") + (".T" if op["transA"] else "")
    right = code.tensor(b, "matrix") + (".T" if op["transB"] else "")
    text = f"{left} @ {right}" if alpha == 1 else f"{number(np.float32(alpha))} * ({left} @ {right})"
    if c is None:
        return text
    if beta == 1:
        return f"{text} + {code.tensor(c, 'bias')}"
    return f"{text} + {number(np.float32(beta))} * {code.tensor(c, 'bias')}"


@writes("Einsum")
def _einsum(code: Code, op: Op) -> str:
    equation = op["equation"]
    equation = (equation.decode() if isinstance(equation, bytes) else str(equation)).replace(" ", "")
    require(re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", equation), "the equation of an Einsum")
    return f'torch.einsum("{equation}", {", ".join(map(code.tensor, op.inputs))})'


@writes("MatMulInteger")
def _matmul_integer(code: Code, op: Op) -> str:
    """Multiply in float64, which holds the sums of 2^37 products of 8-bit integers exactly."""
    sides = []
    for value, zero in zip(op.inputs[:2], (*op.inputs[2:], None, None)):
        value = present(value)
        text = f"{code.tensor(value, 'matrix')}.double()"
        if zero is not None:
            require(len(zero.shape) == 0 or zero.shape == (1,), "zero points per row or column")
            text = f"({text} - {code.tensor(zero)}.double())"
        sides.append(text)
    return f"({sides[0]} @ {sides[1]}).to(torch.int32)"
