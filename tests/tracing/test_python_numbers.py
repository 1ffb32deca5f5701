"""Python's numbers of data, such as int(x): every case matches NumPy on both engines, or is refused by name."""

from __future__ import annotations

import math
import warnings
from functools import cache
from math import floor, sqrt
from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.graph import Graph
from anylayer.network import Array
from tests.engine_names import GENERAL, program_of

from .test_decisions import Function, traced

CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of an array (3, 4) to the cases."""
    CASES.append(function)
    return function


@case
def truncates_towards_zero(x: Array) -> Any:
    return x * int(x[0, 0]), np.array([int(v) for v in x[1]])


@case
def rounds_half_to_even(x: Array) -> Any:
    return np.array([round(v) for v in x[0]]), x + round(x[1, 1])


@case
def rounds_to_digits(x: Array) -> Any:
    return x * round(x[0, 1], 2)


@case
def rounds_a_python_float(x: Array) -> Any:
    return round(float(x[0, 0]) * 2), round(x[1, 1].item() / 2)


@case
def keeps_the_dtype_of_an_array(x: Array) -> Any:
    n, f = int(x[0, 0] * 3), float(x[0, 1])
    return x * n, x + f, x.astype(np.float16) * f, x.astype(np.int32) + n, n * np.arange(3), x[0].astype(int) * f


@case
def keeps_the_dtype_of_a_scalar(x: Array) -> Any:
    f = float(x[0, 0])
    return x.sum() * f, np.float32(2) * f, f * np.float64(2), np.float32(f) * 3, np.int32(4) * int(x[0, 1])


@case
def is_float64_alone(x: Array) -> Any:
    f = float(x[0, 0])
    return f, np.sqrt(abs(f)), np.array(f), np.array([f, 1]), int(f), np.asarray(int(f)), f > 1


@case
def integer_arithmetic(x: Array) -> Any:
    a, b = int(x[0, 0] * 7), int(x[1, 1] * 5)
    return a // 3, a % 3, a // -3, a % -3, divmod(a, 4), a * b - b, -a, +a, ~a, abs(b), a & 6, a | b, a ^ 3


@case
def divides_by_data(x: Array) -> Any:
    n = int(abs(x[0, 0]) * 4) + 1
    return 7 / n, -7 // n, -7 % n, 7.5 // n, n / 3, x / n, float(x[0, 1]) % n


@case
def mixes_floats(x: Array) -> Any:
    a, b = float(x[0, 0]), float(x[1, 1])
    return a + b, a * 2, 3 - a, a // 0.75, a % 0.75, b % -2.0, abs(a), -b, a / (b * b + 1), (a * a) ** 0.25, 2.0**a


@case
def powers_of_integers(x: Array) -> Any:
    n = int(x[0, 0] * 9)
    return n**2, n**3, n**0, n**0.5 if n > 0 else 0.0, float(n) ** 3, (n * n + 1) ** -1


@case
def adds_comparisons(x: Array) -> Any:
    a, b = float(x[0, 0]), float(x[0, 1])
    both = (a > 0) + (b > 0)
    return (
        both,
        x * both,
        (a > b) & (b > 0),
        (a > b) | True,
        ~(a > 0),
        -(b > 0),
        (a > 0) * 2.5,
        sum(float(v) > 0 for v in x[2]),
    )


@case
def bool_of_data(x: Array) -> Any:
    t = x[0, 0] > 0
    return int(t), float(t) * x, t.item() + t.item(), int(t) * 3, x * int(x[1, 1] > 0)


@case
def indexes(x: Array) -> Any:
    i = int(abs(x[0, 0]) * 10) % 3
    return x[i], x[i, 1], x[-1 - i], x[i, i], x[[i, 0]], x[:, i]


@case
def slices_of_one_size(x: Array) -> Any:
    i = int(abs(x[0, 0]) * 10) % 3
    return x[i:].sum(), x[: i + 1].sum(axis=0)


@case
def writes(x: Array) -> Any:
    y, i = x.copy(), int(abs(x[0, 0]) * 10) % 3
    y[i] = int(x[0, 1] * 3)
    y[i, 2] = float(x[1, 1])
    z = np.zeros(4, np.int64)
    z[i] = float(x[0, 0]) * 2
    z[3] = int(x[0, 2])
    return y, z


@case
def clamps_a_box(x: Array) -> Any:
    x1, y1 = max(0, int(x[0, 0] * 3)), max(0, round(x[0, 1] * 2))
    x2, y2 = min(4, int(x[1, 0] * 4)), min(3, math.ceil(x[1, 1] * 3))
    return np.array([x1, y1, x2, y2]), max(x2 - x1, 0) * max(y2 - y1, 0)


@case
def clamps_four_scalars(x: Array) -> Any:
    a, b = max(min(x[0, 0], 2), -1), max(min(x[0, 1], 2.0), 0)
    c, d = min(max(x[1, 0], 0), 1), max(x[1, 1], x[1, 2], x[2, 0])
    return x * a + b, c * d


@case
def extremes_of_python_numbers(x: Array) -> Any:
    a, b, n = float(x[0, 0]), float(x[0, 1]), int(x[1, 1])
    return max(a, b, 0.5), min(a, b), max([a, b]), max(n, 2), min(n, -1, int(x[1, 2])), max(n, n + 1)


@case
def extremes_with_a_key(x: Array) -> Any:
    return max(float(x[0, 0]), float(x[0, 1]), key=abs), min((), default=3), max(3, 4) * x


@case
def uses_math(x: Array) -> Any:
    a, b = abs(x[0, 0]) + 0.1, float(x[0, 1])
    y = math.sqrt(a), math.exp(b / 40), math.log(a), math.log(a, 2), math.log2(a), math.log10(a), math.log1p(a)
    return (
        *y,
        math.sin(b),
        math.cos(b),
        math.atan2(b, a),
        math.hypot(a, b),
        math.tanh(b),
        math.atan(b),
        math.pi * a,
    )


@case
def uses_names_of_math(x: Array) -> Any:
    return (
        x * sqrt(x[0, 0] ** 2),
        floor(x[0, 1]),
        math.floor(x[0, 2]),
        math.ceil(x[0, 3]),
        math.trunc(float(x[1, 1])),
    )


@case
def floors_of_products(x: Array) -> Any:
    f = float(x[0, 0]) * 3
    return (
        math.floor(f),
        math.ceil(f),
        math.trunc(f),
        f.is_integer(),
        math.fabs(f),
        math.copysign(2, f),
        math.degrees(f),
    )


@case
def asks_for_nan(x: Array) -> Any:
    f = float(x[0, 0] / (x[0, 1] + (x[0, 1] == 0)))
    return math.isnan(f) * 1, math.isfinite(f) + 1, x if math.isinf(f) else x * 2


@case
def items_and_lists(x: Array) -> Any:
    a, b, c, d = x[0].tolist()
    return a + b, x * c, np.array(x[1].tolist()), x.item(5) * 2, x.item(1, 2), x[:, 0].tolist()[1] + d


@case
def decides(x: Array) -> Any:
    n = int(x[0, 0])
    if n > 1:
        return x * n
    if not n:
        return x + 1
    return x - 1 if -3 < n <= 0 else x


@case
def returns_early(x: Array) -> Any:
    area = float(x[0, 0] * x[0, 1])
    if area <= 0:
        return np.float64(0)
    overlap = float(min(x[1, 0], x[1, 1]))
    return overlap / area


@case
def intersection_over_union(x: Array) -> Any:
    def area(b: Any) -> Any:
        return max(0.0, float(b[2] - b[0])) * max(0.0, float(b[3] - b[1]))

    left, top = max(x[0, 0], x[1, 0]), max(x[0, 1], x[1, 1])
    inter = max(0.0, float(min(x[0, 2], x[1, 2]) - left)) * max(0.0, float(min(x[0, 3], x[1, 3]) - top))
    return inter / (area(x[0]) + area(x[1]) - inter + 1e-6)


@case
def catches_a_division(x: Array) -> Any:
    try:
        return 1 / int(x[0, 0])
    except ZeroDivisionError:
        return 0.5


@case
def catches_a_root(x: Array) -> Any:
    try:
        y = math.sqrt(x[0, 0])
    except ValueError:
        y = -1.0
    return x * y


@case
def catches_nan(x: Array) -> Any:
    with np.errstate(all="ignore"):
        y = np.log(x[0, 0])
    try:
        n = int(y)
    except (ValueError, OverflowError):
        n = 7
    return x * n


@case
def catches_an_index(x: Array) -> Any:
    n = int(x[0, 0] * 2)
    try:
        return x[n]
    except IndexError:
        return x[0] * 0


@case
def catches_an_index_of_an_array(x: Array) -> Any:
    i = (x[0, 0] * 2).astype(np.int64)
    try:
        return x[i, 1]
    except IndexError:
        return x[0, 0]


@case
def checks_types(x: Array) -> Any:
    n, f = int(x[0, 0]), float(x[0, 1])
    kinds = (
        isinstance(n, int),
        isinstance(f, float),
        type(n) is int,
        type(f) in (float,),
        isinstance(f, int),
        type(n > 1) is bool,
    )
    return n * sum(kinds), x * f


@case
def where_and_clip(x: Array) -> Any:
    n, f = int(x[0, 0]), float(x[0, 1])
    return (
        np.where(x > 0, n, x),
        np.where(x > f, f, 0),
        np.clip(x, -abs(f), abs(f)),
        np.maximum(x, n),
        x.clip(n, None),
    )


@case
def compares_small_integers(x: Array) -> Any:
    u = np.clip(np.abs(x) * 100, 0, 255).astype(np.uint8)
    n = int(x[0, 0] * 200)
    return u > n, n <= u, u == n, u.astype(np.int32) + n, u * min(max(n, 0), 255) // 7, u + min(abs(n), 3)


@case
def compares_large_integers(x: Array) -> Any:
    n = int(x[0, 0] * 1e6) + 16777217
    return n, n - 16777216, n * 2, x * n


@case
def numpy_scalars(x: Array) -> Any:
    a, b = np.float32(x[0, 0]), np.int64(x[0, 1] * 3)
    return a * 2, b + 1, np.float64(a) * x, np.int32(b) // 2, np.float32(int(a)) + x, np.float32(x)


@case
def full_arrays(x: Array) -> Any:
    n, f = int(x[0, 0]), float(x[0, 1])
    return np.full((2, 2), f), np.full(3, n), np.full_like(x, n), np.full((2,), f, np.float32), np.zeros(2) + n


@case
def counts_in_a_loop(x: Array) -> Any:
    count = 0
    for v in x.ravel().tolist():
        count += v > 0
    return count, x * count


@case
def sums_in_a_loop(x: Array) -> Any:
    total, most = 0.0, -math.inf
    for row in x:
        total += float(row[0]) * 2
        most = max(most, float(row[1]))
    return total, most, x / (abs(total) + 1)


@case
def sums_built_in(x: Array) -> Any:
    return sum(float(v) for v in x[0]), sum(x[1].tolist()), sum([int(v) for v in x[2]])


@case
def swaps_in_order(x: Array) -> Any:
    a, b = int(x[0, 0] * 2), int(x[0, 1] * 2)
    if a > b:
        a, b = b, a
    return np.array([a, b]), b - a


@case
def negative_zero(x: Array) -> Any:
    z = float(x[0, 0]) * 0.0
    return math.copysign(1, z), 1.0 / (z + 1), abs(z), max(z, 0.0), min(0.0, z), int(z), round(z)


@case
def rolls_and_takes(x: Array) -> Any:
    i = int(abs(x[0, 0]) * 10) % 3
    return np.take(x, i, axis=0), np.concatenate([x, x])[i], np.stack([x, x * 2])[i % 2]


@case
def a_size_with_a_bound(x: Array) -> Any:
    n = min(max(int(x[0, 0] * 3), 0), 5)
    return np.zeros(n).sum() + np.arange(n).sum()


@case
def counts_a_mask(x: Array) -> Any:
    n = int((x > 0).sum())
    return x / max(n, 1), n / x.size, float((x > 0).mean())


@case
def means_of_a_selection(x: Array) -> Any:
    y = x[x > 0]
    mean = float(y.mean()) if len(y) else 0.0
    return x - mean


@case
def first_place(x: Array) -> Any:
    i, j = int(x[0].argmax()), int(np.argmin(x[:, 0]))
    return x[j, i], i * 4 + j, x[:, i] - x[j, 0], divmod(int(x.argmax()), 4)


@case
def keeps_numbers_in_containers(x: Array) -> Any:
    box = {"x": int(x[0, 0]), "y": float(x[0, 1])}
    pair = (box["x"], box["y"])
    return x * pair[0], pair[1], [v * 2 for v in pair]


@case
def chained_comparisons(x: Array) -> Any:
    a, b = float(x[0, 0]), int(x[0, 1])
    inside = (0 <= a < 2 and b != 1) or not (a > b)
    return x if inside else -x, (a or 3.0) * 2, (b and 5) * 1


@case
def halves_of_ints(x: Array) -> Any:
    n = int(x[0, 0] * 10)
    return n >> 1, n << 3, n / 2, n * 0.5, int(n / 2), round(n / 2), round(n / 4 + 0.25)


@case
def compares_with_containers(x: Array) -> Any:
    n = int(x[0, 0])
    return x * (n in (1, 2, 3)), x * (n in range(3)), n is not None, n != "a", n < math.inf


@case
def sorts_numbers(x: Array) -> Any:
    return np.array(sorted([float(x[0, 0]), float(x[0, 1]), float(x[0, 2])]))


@case
def arrays_of_numbers(x: Array) -> Any:
    numbers = [float(v) * 2 for v in x[0]]
    y = (
        np.concatenate([x[0], [float(x[1, 1])]]),
        np.array(numbers, np.float32),
        np.mean(numbers),
        np.argmax(numbers),
    )
    return (*y, np.outer(x[0], [numbers[0], 1.0]), list(map(round, x[2])), np.array(list(map(int, x[0]))))


@case
def changes_arrays_in_place(x: Array) -> Any:
    y, z = x.copy(), (x * 3).astype(np.int32)
    y *= float(x[0, 0])
    y[1:] -= float(x[1, 1])
    y[:, 1] /= 2.0 + abs(float(x[0, 0]))
    z += int(x[0, 1])
    z *= int(x[0, 0])
    z //= 3
    return y, z


@case
def converts_integers(x: Array) -> Any:
    i = (x * 3).astype(np.int32)
    y = int(i[0, 0]) + i, float(i[0, 1]) * x, int(i.sum()), i.max().item() // 2
    return (*y, np.abs(x).astype(np.uint8)[0, 0].item() + 1, int(np.sign(x[0, 1])) * 2)


@case
def fixed_windows(x: Array) -> Any:
    i, j = max(0, min(int(x[0, 0]), 1)), max(0, min(int(x[0, 1]), 2))
    y = x.copy()
    y[i : i + 2] = 0
    return x[i : i + 2], x[i : i + 2, j : j + 2].sum(), y


@case
def any_and_all(x: Array) -> Any:
    return x * any(float(v) > 1 for v in x[0]), x * all(v > 0 for v in x[1])


@case
def closures_and_lambdas(x: Array) -> Any:
    def plus_one(v: Any) -> Any:
        return int(v) + 1

    return (
        x * plus_one(x[0, 0]),
        (lambda n: x * n)(round(x[0, 1])),
        sum(float(a) * float(b) for a, b in zip(x[0], x[1])),
    )


@case
def catches_an_empty_maximum(x: Array) -> Any:
    try:
        largest = x[x > 1].max()
    except ValueError:
        largest = np.float32(-1)
    try:
        rows = x[x[:, 0] > 0]
        i = (rows * 2)[:, 1].argmax()
        row = rows[i]
    except ValueError:
        row = x[0] * 0
    return largest, row


@case
def catches_a_missing_element(x: Array) -> Any:
    try:
        return x[np.where(x[:, 0] > 0)[0][0]]
    except IndexError:
        return x[2] * 0


@case
def catches_in_a_helper(x: Array) -> Any:
    def ratio(a: Any, b: Any) -> Any:
        return float(a) / int(b)

    try:
        return ratio(x[0, 0], x[0, 1])
    except ArithmeticError:
        return -1.0


def inputs() -> list[Array]:
    """Return arrays with positive, negative, large and half values, zeros, ties and numbers near integers."""
    r = np.random.default_rng(5)
    noise = [r.standard_normal((3, 4)) * scale + shift for scale in (0.3, 1, 4, 30) for shift in (-2, 0, 2)]
    halves = [np.rint(r.standard_normal((3, 4)) * 4) / 2 for _ in range(6)]
    special = [np.zeros((3, 4)), -np.zeros((3, 4)), np.ones((3, 4)), np.full((3, 4), -1.5), np.full((3, 4), 2.5)]
    return [x.astype(np.float32) for x in (*noise, *halves, *special)]


def flat(result: Any) -> list[Array]:
    """Return the arrays in nested tuples and lists."""
    return [y for v in result for y in flat(v)] if isinstance(result, (tuple, list)) else [result]


def value(function: Function, x: Array) -> list[Array] | None:
    """Return NumPy's results, or None where the function raises an exception."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [np.asarray(v) for v in flat(function(x.copy()))]
    except (ArithmeticError, ValueError, IndexError):
        return None


@cache
def graph_of(function: Function) -> Graph:
    """Return the trace of a case, which serves all engines."""
    return traced(lambda x: tuple(flat(function(x))))


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_matches_numpy(function: Function, engine: str) -> None:
    run, compared = program_of(graph_of(function), engine), 0
    for x in inputs():
        want = value(function, x)
        if want is None:
            continue
        compared += 1
        got = run([x])
        assert len(got) == len(want)
        for i, (g, w) in enumerate(zip(got, want)):
            assert g.shape == w.shape and g.dtype == w.dtype, (i, g.dtype, w.dtype)
            rtol = 2e-3 if g.dtype == np.float16 else 2e-6
            np.testing.assert_allclose(g, w, rtol=rtol, atol=1e-6, err_msg=f"output {i} for {x!r}")
    assert compared >= 5


REFUSED: list[tuple[Function, str]] = [
    (lambda x: x * sum(range(int(x[0, 0]))), r"range\(\) needs the values"),
    (lambda x: x * {0: 1, 1: 2}.get(int(x[0, 0]), 3), "cannot be a key of a dict"),
    (lambda x: x * (int(x[0, 0]) in {1, 2}), "cannot be a key of a dict"),
    (lambda x: x * len(["a", "bb", "c"][int(x[0, 0])]), r"write np.asarray\(a, like=x\)\[i\]"),
    (lambda x: x * len(str(int(x[0, 0]))), r"str\(\), print\(\) or an f-string needs the values"),
    (lambda x: x * len(f"{float(x[0, 0]):.2f}"), r"str\(\), print\(\) or an f-string needs the values"),
    (lambda x: np.zeros(int(x[0, 0])), r"write min\(max\(n, 0\), 100\)"),
    (lambda x: np.array([1.0] * int(x[0, 0])), "needs the values"),
    (lambda x: x.reshape(int(x[0, 0]), -1), "needs the values"),
    (lambda x: x * 2 ** int(x[0, 0]), r"more than 64 bits; write float\(a\) \*\* b"),
    (lambda x: x * int(x[0, 0]) ** 9, r"more than 64 bits; write float\(a\) \*\* b"),
    (lambda x: x * (1 << int(x[0, 0])), r"write float\(a\) \* 2.0 \*\* b"),
    (lambda x: x * (int(x[0, 0]) * 10**30), "has more than 64 bits; compute with floats"),
    (lambda x: x * round(float(x[0, 0]), 2), r"write np.round\(x, digits\)"),
    (lambda x: np.abs(x).astype(np.uint8) + int(x[0, 0]), r"write min\(max\(int\(x\), 0\), 255\)"),
    (lambda x: x * int(x[0, 0]).bit_length(), "int.bit_length of a number that depends on data"),
    (lambda x: x * math.gcd(int(x[0, 0]), 4), "needs the values"),
    (lambda x: x * math.erf(x[0, 0]), "needs the values"),
    (lambda x: x * int(x.astype(np.uint64)[0, 0]), r"write x.astype\(np.int64\)"),
]


@pytest.mark.parametrize(("function", "rule"), REFUSED)
def test_what_needs_the_value_is_refused(function: Function, rule: str) -> None:
    with pytest.raises(TraceError, match=rule):
        traced(function)
