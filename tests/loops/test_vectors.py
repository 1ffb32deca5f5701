"""Forms of loops of which compilers make vector instructions, and loops that are divided among threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anylayer import ops
from anylayer.loops import lower, to_cpp
from anylayer.loops.reciprocals import reciprocals
from anylayer.network import Array
from tests.loops.harness import FLAGS, build, call, needs_compiler, traced

pytestmark = needs_compiler
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 2.0, -3.0])


def noise(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def compiled(function: Callable[..., Array], folder: Path, *inputs: Array) -> tuple[str, Array]:
    """Return the text of a function's loops, and its result, computed in any parts."""
    code = to_cpp(lower(traced(function, *inputs)), "function")
    (got,) = call(build([code], folder, parts=True), code, list(inputs), {}) or [np.zeros(0)]
    return code.text, got


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_extrema_of_several_arrays_are_nan_where_one_is_nan(dtype: type, tmp_path: Path) -> None:
    numbers = SPECIAL if np.issubdtype(dtype, np.floating) else np.arange(-2, 3)
    a, b, c = (x.reshape(-1).astype(dtype) for x in np.meshgrid(numbers, numbers, numbers))
    for extremum in (np.maximum, np.minimum):
        (folder := tmp_path / extremum.__name__).mkdir()
        _, got = compiled(lambda x, y, z, f=extremum: f(f(x, y), z), folder, a, b, c)
        np.testing.assert_array_equal(got, extremum(extremum(a, b), c))


def test_elements_of_few_long_rows_are_divided_among_threads(tmp_path: Path) -> None:
    def normalized(x: Array) -> Array:
        return (x - np.array([1, 2, 3], np.float32)).transpose(2, 0, 1)

    text, got = compiled(normalized, tmp_path, x := noise(70, 90, 3))
    assert "parallel(18900, 18900" in text
    np.testing.assert_array_equal(got, normalized(x))


def test_loops_that_write_an_element_several_times_are_not_divided_among_threads(tmp_path: Path) -> None:
    def histogram(x: Array, places: Array) -> Array:
        updates = np.concatenate([x + 1, 2 * x])  # in two loops
        return ops.scatter_elements(x[:8] * 0, places, updates, reduction="add")

    x, places = np.arange(30_000, dtype=np.float32) % 16, np.arange(60_000) % 7
    text, got = compiled(histogram, tmp_path, x, places)
    assert "30000" in text and "parallel(" not in text
    np.testing.assert_array_equal(got, histogram(x, places))


def test_short_innermost_loop_is_repeated_in_the_loop_around_it(tmp_path: Path) -> None:
    def doubled(x: Array) -> Array:
        return np.repeat(np.repeat(x, 2, axis=1), 2, axis=2) * 3

    text, got = compiled(doubled, tmp_path, x := noise(3, 50, 40))
    assert "< 2;" not in text.split("INDEPENDENT")[1] and text.count("output0[") == 2
    np.testing.assert_array_equal(got, doubled(x))


@pytest.mark.parametrize(("columns", "width"), [(87, "16"), (80, ""), (40, "")])
def test_loop_ends_with_a_whole_vector(columns: int, width: str, tmp_path: Path) -> None:
    def flipped(x: Array) -> tuple[Array, Array]:
        return x[:, ::-1] * 2 + x, np.exp(x[::-1])

    text, got = compiled(lambda x: np.concatenate(flipped(x)), tmp_path, x := noise(30, columns))
    assert ("in_vectors<16>(87, " in text) == bool(width) and ("in_vectors" in text) == bool(width)
    np.testing.assert_allclose(got, np.concatenate(flipped(x)), rtol=1e-6)


def test_sums_of_a_loop_are_added_once(tmp_path: Path) -> None:
    def summed(x: Array) -> Array:
        return x[:, :, ::-1].sum(axis=1)

    text, got = compiled(summed, tmp_path, x := noise(3, 5, 87))
    assert "in_vectors<16>(87, " in text  # the first values, 0
    np.testing.assert_allclose(got, summed(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("k", [-9, -2, 0, 1, 3, 9])
def test_triangle_is_a_comparison_of_indices(k: int, tmp_path: Path) -> None:
    def both(x: Array) -> Array:
        return np.where(np.tri(7, 5, k, dtype=np.bool_), x, 2 * x) + np.triu(x, k)

    text, got = compiled(both, tmp_path, x := noise(7, 5))
    assert "table" not in text
    np.testing.assert_array_equal(got, both(x))


def test_other_matrices_of_booleans_are_tables(tmp_path: Path) -> None:
    mask = np.tri(7, 5, 1, dtype=np.bool_)
    mask[3, 1] = ~mask[3, 1]
    text, got = compiled(lambda x: np.where(mask, x, -x), tmp_path, x := noise(7, 5))
    assert "table" in text
    np.testing.assert_array_equal(got, np.where(mask, x, -x))


def test_parts_of_one_shape_are_written_in_one_loop_after_the_functions_that_follow(tmp_path: Path) -> None:
    def colours(x: Array) -> Array:
        y = np.sqrt(abs(x)) + 1
        parts = [y[0] * 2 + y[1] * 3 - y[2], y[1] - y[2] * y[0], y[2] / y[0] + y[1]]
        return np.clip(np.stack(parts), 0, 9) / 3

    text, got = compiled(colours, tmp_path, x := noise(3, 20, 30))
    assert [loop.count("output0[") for loop in text.split("for (") if "output0[" in loop] == [3]
    np.testing.assert_allclose(got, colours(x), rtol=1e-6)


def test_index_of_a_byte_into_a_table_of_256_is_not_checked(tmp_path: Path) -> None:
    x, table = np.arange(256, dtype=np.uint8).reshape(16, 16), noise(256)
    text, got = compiled(lambda i, t: t[i], tmp_path, x, table)
    assert "inside" not in text
    np.testing.assert_array_equal(got, table[x])
    (folder := tmp_path / "short").mkdir()
    text, _ = compiled(lambda i, t: t[i], folder, x[:8], table[:255])
    assert "inside(" in text


def test_maxima_of_columns_are_independent_of_each_other(tmp_path: Path) -> None:
    text, got = compiled(lambda x: (x * x).max(axis=0), tmp_path, x := noise(30, 40))
    assert "INDEPENDENT\n        for (int64_t j" in text
    np.testing.assert_array_equal(got, (x * x).max(axis=0))


@pytest.mark.parametrize("count", [1, 5, 16, 17])
def test_best_elements_keep_the_order_of_equal_ones(count: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 9, 60).astype(np.float32)
    x[[7, 30]] = np.nan
    _, got = compiled(lambda v: ops.top_k(v, count)[1], tmp_path, x)
    np.testing.assert_array_equal(got, ops.top_k(x, count)[1])


def test_divisions_of_bytes_by_constants_are_exact(tmp_path: Path) -> None:
    divisors = np.array([0.229, 0.224, 0.225, 58.395, 57.12, 57.375, 127.5, 3, 7, 10], np.float32)

    def scaled(x: Array) -> Array:
        y = x.astype(np.float32) / 255
        return (y - np.float32(0.485)) / divisors

    x = np.repeat(np.arange(256, dtype=np.uint8)[:, None], len(divisors), axis=1)
    code = to_cpp(lower(traced(scaled, x)), "scaled")
    assert code.text.count("divided(") == 2
    for name, flags in (("plain", FLAGS), ("fused", [*FLAGS, "-march=native"])):
        (folder := tmp_path / name).mkdir()
        (got,) = call(build([code], folder, flags), code, [x], {}) or [np.zeros(0)]
        np.testing.assert_array_equal(got, scaled(x))


@pytest.mark.parametrize("divisor", [-255, 255, -3, 3, -0.229, 0.229])
def test_divisions_by_constants_keep_the_sign_of_zero(divisor: float, tmp_path: Path) -> None:
    def quotients(x: Array) -> Array:
        y = x.astype(np.float32)
        return np.stack([y / np.float32(divisor), -y / np.float32(divisor)])

    x = np.arange(2, dtype=np.uint8)
    code = to_cpp(lower(traced(quotients, x)), "quotients")
    (got,) = call(build([code], tmp_path, [*FLAGS, "-march=native"]), code, [x], {}) or [np.ones(0)]
    np.testing.assert_array_equal(np.signbit(got), np.signbit(quotients(x)))


def test_divisions_of_numbers_that_may_be_infinite_stay(tmp_path: Path) -> None:
    text, got = compiled(lambda x: x / 255, tmp_path, x := np.array([np.inf, 1, np.nan, -np.inf], np.float32))
    assert "divided(" not in text
    np.testing.assert_array_equal(got, x / 255)


@pytest.mark.parametrize("divisor", [255, 0.229, 3, 1.9999998, 16777213])
def test_reciprocals_in_two_floats_give_every_quotient(divisor: float) -> None:
    found = reciprocals(np.array([divisor], np.float32))
    assert found is not None
    high, low = (part.astype(np.float64) for part in found)
    x = np.random.default_rng(0).integers(2**23, 2**24, 200_000).astype(np.float32)
    products = (x * high + x * low.astype(np.float32)).astype(np.float32)
    np.testing.assert_array_equal(products, x / np.float32(divisor))


@pytest.mark.parametrize("divisor", [0, np.inf, np.nan, 1e-30, 1.9999999])
def test_other_divisors_have_no_reciprocals(divisor: float) -> None:
    assert reciprocals(np.array([2, divisor], np.float32)) is None
