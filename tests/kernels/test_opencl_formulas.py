"""Formulas of work sizes."""

from __future__ import annotations

import random

import pytest

from anylayer.errors import AnyLayerError, FileError, LayerError
from anylayer.kernels.opencl.formulas import parse_formulas

SIZES = {"B": 2, "F": 3, "Y": 5, "X": 7}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("X,Y,B*F", (7, 5, 6)),
        ("B*F*Y*X,1,1", (210, 1, 1)),
        (" b * f , y ", (6, 5)),
        ("X+Y*B", (17,)),
        ("(X+Y)*B", (24,)),
        ("X-Y-1", (1,)),
        ("X/B", (3,)),
        ("(X-Y-F*F)/B", (-3,)),  # C rounds towards zero, Python's // downwards
        ("(X-Y-F*F)%B", (-1,)),
        ("(X+15)/16*16", (16,)),
        ("X%Y", (2,)),
        ("12", (12,)),
        ("", ()),
        ("  ", ()),
    ],
)
def test_values_are_those_of_c(text: str, want: tuple[int, ...]) -> None:
    assert tuple(f.value(SIZES) for f in parse_formulas(text, 3)) == want


def test_random_formulas_match_python() -> None:
    random_ = random.Random(0)

    def made(depth: int) -> str:
        if not depth:
            return random_.choice([*"BFYX", str(random_.randint(1, 9))])
        return f"({made(depth - 1)}{random_.choice('+-*')}{made(depth - 1)})"

    for _ in range(200):
        text = made(random_.randint(0, 4))
        (formula,) = parse_formulas(text, 1)
        assert formula.value(SIZES) == eval(text, {}, dict(SIZES))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("X,Y,B,F", "has 4 formulas, at most 3 are possible"),
        ("X,,Y", "has an empty formula between commas"),
        ("X,", "has an empty formula between commas"),
        ("X*", r"'X\*' ends where a number or B, F, Y, X must follow"),
        ("X Y", "'X Y' cannot be read at 'Y'"),
        ("-X", "'-X' cannot be read at '-'"),
        ("()", r"'\(\)' cannot be read at '\)'"),
        ("(X", r"'\(X' has a '\(' without a '\)'"),
        ("X)", r"'X\)' has a '\)' without a '\('"),
        ("Z", "'Z' has 'Z'; the names are B, F, Y, X"),
        ("BF", "'BF' has 'BF'"),
        ("__import__('os')", "has '__import__'"),
        ("X**2", r"cannot be read at '\*'"),
        ("X.y", r"has the character '\.'"),
        ("9223372036854775808", "has a number beyond 64 bits"),
        ("9" * 5000, "has 5000 characters, the limit is 1000"),
    ],
)
def test_other_texts_are_refused(text: str, rule: str) -> None:
    with pytest.raises(FileError, match=rule):
        parse_formulas(text, 3)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("X/(Y-5)", r"'X/\(Y-5\)' divides by zero for B=2, F=3, Y=5, X=7"),
        ("X%(Y-5)", "divides by zero"),
        ("9223372036854775807*X/X", "exceeds 64 bits"),
        ("Y-X", "'Y-X' is -2 for B=2, F=3, Y=5, X=7, a size must be positive"),
        ("Y-5", "'Y-5' is 0"),
    ],
)
def test_values_that_are_not_sizes_are_refused(text: str, rule: str) -> None:
    (formula,) = parse_formulas(text, 3)
    with pytest.raises(LayerError, match=rule):
        formula.size(SIZES)


def test_deep_parentheses_are_read_without_recursion() -> None:
    (formula,) = parse_formulas("(" * 499 + "X" + ")" * 499, 1)
    assert formula.value(SIZES) == 7
    with pytest.raises(AnyLayerError):
        parse_formulas("(" * 900, 1)
