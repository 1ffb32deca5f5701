"""Conditions on sizes in a file's metadata."""

from __future__ import annotations

import pytest

from anylayer.errors import InputError
from anylayer.graph.open_sizes import StatedSizes, evaluate, parse_sizes
from anylayer.network import TensorType


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("H >= 7", True),
        ("2*(H//2) == H", False),
        ("H % 2 == 0", False),
        ("W % 4 == 1", True),
        ("H % 0 == 1", None),
        ("3 <= H <= 6", False),
        ("max(H, W) - floor((H) / (2)) != 10", True),
        ("(H) ** (0.5) < 3", True),
        ("__import__('os').getpid() == 1", None),
        ("H.real == 1", None),
        ("9**9**9**9 > 1", None),
        ("unknown == 1", None),
        ("H // 0 == 1", None),
        ("(" * 1500, None),
        ("1" * 3000 + " > 0", None),
    ],
)
def test_condition_is_evaluated_or_left_out(text: str, holds: bool | None) -> None:
    assert evaluate(text, {"H": 7, "W": 9}) is holds


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"shapes": 1}', "[" * 90_000, '{"shapes": {}, "conditions": 3}']
)
def test_damaged_statement_is_left_out(text: str) -> None:
    assert StatedSizes.from_json(text) is None


def test_shapes_are_compared_with_the_statement() -> None:
    sizes = parse_sizes({"a": ("N", "32*h"), "b": ("N", "h + 1")})
    assert sizes is not None
    stated = StatedSizes.from_json(StatedSizes(sizes.stated().shapes, ["h >= 2"]).to_json())
    assert stated is not None
    stated.check({"a": TensorType.of((3, 64)), "b": TensorType.of((3, 3))})
    for a, b, message in (
        ((3, 70), (3, 3), r"input 'a': a size must be 32\*h, got 70"),
        ((3, 64), (4, 3), "input 'b': N is 3 at another size, so N must not be 4"),
        ((3, 32), (3, 2), "the file allows only sizes with h >= 2, got N = 3, h = 1"),
    ):
        with pytest.raises(InputError, match=message):
            stated.check({"a": TensorType.of(a), "b": TensorType.of(b)})


def test_conditions_are_stated_in_other_symbols() -> None:
    stated = StatedSizes({"a": ("N", "32*h + 1"), "b": ("w",)}, ["h % 2 == 0", "N >= floor(w / 2)"])
    sizes = parse_sizes({"a": ("2*k", "H")})
    assert sizes is not None
    new = stated.conditions_on({**sizes.shapes, "b": (8,)})
    assert new == ("((H - 1)//32) % 2 == 0", "(2*k) >= floor(8 / 2)")
    assert [evaluate(text, {"k": 2, "H": 97}) for text in new] == [False, True]


@pytest.mark.parametrize("size", ["H>", "3*", "H H", "", "H>=64>=3", "H/2", "f(x)", "100>=H", "64<=2*H"])
def test_size_that_is_not_understood_is_refused(size: str) -> None:
    with pytest.raises(InputError, match=r"input 'x': "):
        parse_sizes({"x": (size,)})


def test_contradictory_ranges_are_refused() -> None:
    with pytest.raises(InputError, match="size 'H' must be at least 64 and at most 32"):
        parse_sizes({"x": ("H>=64", "H<=32")})
