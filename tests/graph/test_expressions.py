"""Expressions of sizes: normal forms, values, bounds."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from anylayer.graph.expressions import Expression, bounds, constant, symbol
from anylayer.graph.guards import Guard, SymbolicTrace, symbolic_trace
from anylayer.graph.symbolic import Size, extreme, new_size

H, W, N = symbol("H"), symbol("W"), symbol("N")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ((H + constant(1)) * constant(2), "2*H + 2"),
        ((constant(2) * H + constant(3)) // constant(2), "H + 1"),
        ((H // constant(2)) // constant(3), "H//6"),
        ((H // constant(2) + constant(1)) // constant(3), "(H + 2)//6"),
        (-(-H // constant(2)), "(H + 1)//2"),
        (H % constant(2), "-2*(H//2) + H"),
        ((N * H * W) // (H * W), "N"),
        ((H * W + H) // (W + constant(1)), "H"),
        (H - H, "0"),
    ],
)
def test_equal_expressions_have_one_form(found: Expression, text: str) -> None:
    assert str(found) == text


def drawn(numbers: random.Random, depth: int) -> tuple[Expression, str]:
    """Return a random expression, and the same as Python code."""
    if depth == 0:
        name = numbers.choice("HWN")
        return symbol(name), name
    a, text = drawn(numbers, depth - 1)
    b, other = drawn(numbers, depth - 1)
    c = numbers.randint(1, 7)
    return numbers.choice(
        [
            (a // constant(c), f"({text})//{c}"),
            (a % constant(c), f"({text})%{c}"),
            (a * b, f"({text})*({other})"),
            (a - b, f"({text})-({other})"),
            (a * constant(c) + constant(c - 4), f"({text})*{c}+({c - 4})"),
        ]
    )


@pytest.mark.parametrize("seed", range(20))
def test_values_are_those_of_python_and_inside_the_bounds(seed: int) -> None:
    numbers = random.Random(seed)
    for _ in range(30):
        e, text = drawn(numbers, numbers.randint(1, 3))
        low, high = bounds(e, {})
        for _ in range(5):
            sizes = {name: numbers.randint(1, 40) for name in "HWN"}
            want = eval(text, {}, dict(sizes))
            assert e.value(sizes) == want, text
            assert low <= want <= high, text


def test_bounds_of_rounding_up_to_a_multiple() -> None:
    assert bounds((H + constant(1)) // constant(2) * constant(2) - H, {}) == (0, 1)


def test_extremum_is_the_argument_that_is_certain() -> None:
    with symbolic_trace({"H": (64, 1000)}):
        h = new_size(70, H)
        assert type(extreme("min", h, 32)) is int and extreme("min", h, 32) == 32
        larger = extreme("max", h - 100, 0)
        assert isinstance(larger, Size) and str(larger.expression) == "max(0, H - 100)"


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (lambda h: h % constant(3), "H % 3 != 0"),
        (lambda h: (h + constant(1)) % constant(2), "(H + 1) % 2 != 0"),
        (lambda h: (constant(2) * h) % constant(5) - constant(4), "2*H % 5 - 4 != 0"),
        (lambda h: h // constant(3), "H//3 != 0"),
    ],
)
def test_condition_is_printed_with_remainders(left: Callable[[Expression], Expression], text: str) -> None:
    guard = Guard(left(symbol("H")), "!=", constant(0))
    assert str(guard) == text
    assert all(guard.holds({"H": h}) == eval(text, {"H": h}) for h in range(1, 20))


@pytest.mark.parametrize(
    ("left", "right", "fixed"),
    [
        (H * W, constant(784), True),
        ((H // constant(4)) * (W // constant(4)) - constant(3) * H, constant(7), True),
        (H, W, False),
        (H * W, N, False),
        (constant(32) * ((H * W) // constant(32)), H * W, False),
        (constant(2) * H + constant(1), W, False),
        (H, constant(28), False),
    ],
)
def test_equation_of_several_sizes_that_fixes_them(left: Expression, right: Expression, fixed: bool) -> None:
    assert Guard(left, "==", right).fixes_sizes() == fixed


def test_answers_follow_ranges_and_facts() -> None:
    trace = SymbolicTrace({"H": (1, 10), "W": (1, 10)})
    at_least_3, difference = symbol("H") - constant(3), symbol("H") - symbol("W")
    assert not trace.not_negative(at_least_3) and not trace.not_negative(difference)
    trace.ranges["H"] = (3, 10)
    trace.assume(Guard(symbol("H"), ">=", symbol("W")))
    assert trace.not_negative(at_least_3) and trace.not_negative(difference)
    trace.facts.clear()
    assert not trace.not_negative(difference)
