"""Conditions on sizes as text, such as "2*(H//2) == H", which are evaluated without running code."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

_MAX_LENGTH = 2000
"""The largest number of characters of a condition that are read."""
_OPERATIONS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.USub: operator.neg,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sqrt": math.sqrt,
    "abs": abs,
}


def evaluate(text: str, symbols: Mapping[str, int]) -> bool | None:
    """Return whether a condition holds for these values, or None where it cannot be evaluated."""
    try:
        tree = ast.parse(text, mode="eval").body if len(text) <= _MAX_LENGTH else None
        return bool(_value(tree, symbols)) if isinstance(tree, ast.Compare) else None
    except (SyntaxError, ValueError, ArithmeticError, KeyError, TypeError, RecursionError, MemoryError):
        return None


def _value(node: ast.AST, symbols: Mapping[str, int]) -> Any:
    """Return the value of a node. Raises ValueError for what is not arithmetic, KeyError for an unknown name."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.Name):
        return symbols[node.id]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _power(_value(node.left, symbols), _value(node.right, symbols))
    if isinstance(node, ast.BinOp):
        return _OPERATIONS[type(node.op)](_value(node.left, symbols), _value(node.right, symbols))
    if isinstance(node, ast.UnaryOp):
        return _OPERATIONS[type(node.op)](_value(node.operand, symbols))
    if isinstance(node, ast.Compare):
        values = [_value(n, symbols) for n in (node.left, *node.comparators)]
        return all(_OPERATIONS[type(o)](a, b) for o, a, b in zip(node.ops, values, values[1:]))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _FUNCTIONS[node.func.id](*(_value(n, symbols) for n in node.args))
    raise ValueError(type(node).__name__)


def _power(base: Any, exponent: Any) -> Any:
    """Return a power of a float, or a small power of an integer."""
    if isinstance(base, int) and not (isinstance(exponent, int) and 0 <= exponent <= 4):
        base = float(base)
    return base**exponent
