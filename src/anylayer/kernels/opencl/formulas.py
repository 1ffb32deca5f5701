"""Formulas of work sizes: integers, B, F, Y, X and + - * / %. They are parsed, never evaluated as code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anylayer.errors import FileError, need

AXES = "BFYX"
_MAX_LENGTH = 1000
"""Characters that the formulas of one attribute may have."""
_MAX_VALUE = 2**63 - 1  # of a number in a formula, and of its value
_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|([-+*/%()])|(\S))")


def _quotient(a: int, b: int) -> int:
    """Return the quotient, rounded towards zero as in C."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - _quotient(a, b) * b,
}
_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula. `steps` is its postfix form: numbers, names of axes, operators."""

    text: str
    steps: tuple[int | str, ...]

    def value(self, sizes: Mapping[str, int]) -> int:
        """Return the value for these sizes. Raise LayerError for a division by zero or more than 64 bits."""
        stack: list[int] = []
        for step in self.steps:
            if isinstance(step, int):
                stack.append(step)
            elif step in AXES:
                stack.append(sizes[step])
            else:
                right, left = stack.pop(), stack.pop()
                need(right or step not in "/%", f"'{self.text}' divides by zero{_where(sizes)}")
                stack.append(_OPERATIONS[step](left, right))
            need(abs(stack[-1]) <= _MAX_VALUE, f"'{self.text}' exceeds 64 bits{_where(sizes)}")
        return stack[0]

    def size(self, sizes: Mapping[str, int]) -> int:
        """Return the value. Raise LayerError unless it is positive."""
        value = self.value(sizes)
        need(value > 0, f"'{self.text}' is {value}{_where(sizes)}, a size must be positive")
        return value


def _where(sizes: Mapping[str, int]) -> str:
    return f" for {', '.join(f'{axis}={sizes[axis]}' for axis in AXES)}"


def parse_formulas(text: str, limit: int) -> tuple[Formula, ...]:
    """Return the formulas between commas. Raise FileError for anything else and for more than `limit`."""
    need(len(text) <= _MAX_LENGTH, f"has {len(text)} characters, the limit is {_MAX_LENGTH}", FileError)
    if not text.strip():
        return ()
    parts = text.split(",")
    need(len(parts) <= limit, f"has {len(parts)} formulas, at most {limit} are possible", FileError)
    return tuple(_parse_formula(part.strip()) for part in parts)


def _parse_formula(text: str) -> Formula:
    """Parse one formula with two stacks (Dijkstra's shunting yard)."""
    need(text, "has an empty formula between commas", FileError)
    steps: list[int | str] = []
    waiting: list[str] = []
    operand = True  # whether an operand comes next
    for number, name, sign, other in _TOKEN.findall(text):
        need(not other, f"'{text}' has the character {other!r}; formulas have + - * / % ( )", FileError)
        misplaced = f"'{text}' cannot be read at '{number or name or sign}'"
        need(operand == bool(number or name or sign == "("), misplaced, FileError)
        if number or name:
            steps.append(_number(number, text) if number else _axis(name, text))
            operand = False
        elif sign == "(":
            waiting.append(sign)
        elif sign == ")":
            while waiting and waiting[-1] != "(":
                steps.append(waiting.pop())
            need(waiting, f"'{text}' has a ')' without a '('", FileError)
            waiting.pop()
        else:
            while waiting and _STRENGTH.get(waiting[-1], 0) >= _STRENGTH[sign]:
                steps.append(waiting.pop())
            waiting.append(sign)
            operand = True
    need(not operand, f"'{text}' ends where a number or B, F, Y, X must follow", FileError)
    need("(" not in waiting, f"'{text}' has a '(' without a ')'", FileError)
    return Formula(text, (*steps, *reversed(waiting)))


def _number(digits: str, text: str) -> int:
    need(len(digits) < 20 and int(digits) <= _MAX_VALUE, f"'{text}' has a number beyond 64 bits", FileError)
    return int(digits)


def _axis(name: str, text: str) -> str:
    need(name.upper() in AXES and len(name) == 1, f"'{text}' has '{name}'; the names are B, F, Y, X", FileError)
    return name.upper()
