"""Functions of numbers in generated code: their errors over all exponents, and their special values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from anylayer import ops
from anylayer.loops import CppFunction, lower, to_cpp
from anylayer.network import Array
from tests.loops.harness import build, call, needs_compiler, traced

pytestmark = needs_compiler

SPECIAL = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 89.5, -104.5, 1e-40, -1e-40, -1], np.float32)
TOLERANCE = 2e-7
CLOSE = 1e-7  # sin, cos and pow are computed in doubles
FAST = ("-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")


def numbers(name: str) -> Array:
    """Return numbers of all exponents: those for which the result is a normal number."""
    found = np.random.default_rng(0).integers(0, 2**31, 200_000).astype(np.uint32).view(np.float32)
    found = np.concatenate([found[np.isfinite(found)], np.linspace(1e-3, 87, 200_000, dtype=np.float32)])
    if name == "log":
        return found[found > 1.2e-38]
    found = found if name in ("sin", "cos") else found[found < 87]
    return np.concatenate([found, -found])


@pytest.mark.parametrize("flags", [["-O1"], [*FAST], [*FAST, "-march=native"]], ids=["slow", "fast", "native"])
def test_functions_are_exact_to_the_last_bits(flags: Sequence[str], tmp_path: Path) -> None:
    functions: dict[str, Callable[[Array], Array]] = {
        "exp": np.exp,
        "log": np.log,
        "tanh": np.tanh,
        "erf": ops.erf,
        "sin": np.sin,
        "cos": np.cos,
    }
    inputs = {name: numbers(name) for name in functions}
    codes: dict[str, CppFunction] = {}
    for name, function in functions.items():
        for case, x in ((name, inputs[name]), (f"{name}_special", SPECIAL)):
            codes[case] = to_cpp(lower(traced(function, x)), f"of_{case}")
    library = build(list(codes.values()), tmp_path, flags)
    for name, function in functions.items():
        (got,) = call(library, codes[name], [inputs[name]], {}) or [np.zeros(0)]
        want = function(inputs[name].astype(np.float64))
        normal = np.abs(want) > 1.2e-38
        assert normal.mean() > 0.9
        tolerance = CLOSE if name in ("sin", "cos") else TOLERANCE
        assert (np.abs(got - want)[normal] <= tolerance * np.abs(want)[normal]).all(), name
        with np.errstate(all="ignore"):
            want = function(SPECIAL)
        (got,) = call(library, codes[f"{name}_special"], [SPECIAL], {}) or [np.zeros(0)]
        np.testing.assert_allclose(got, want, rtol=TOLERANCE, atol=1e-44)
        assert np.array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


@pytest.mark.parametrize("flags", [["-O1"], [*FAST], [*FAST, "-march=native"]], ids=["slow", "fast", "native"])
def test_powers_are_exact_to_the_last_bit_with_numpy_special_values(flags: Sequence[str], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([np.exp2(random.uniform(-149, 128, 200_000)), random.uniform(0.5, 2, 200_000)])
    y = np.concatenate([random.uniform(-3, 3, 200_000), random.uniform(-130, 130, 200_000)])
    whole = np.array([2, -2, 3, -3, 0.5, 16777215, 16777216, -16777217, 33554434, 1, 3e38], np.float32)
    special = np.concatenate([SPECIAL, whole])
    pairs = [part.reshape(-1) for part in np.meshgrid(special, special)]
    cases = {"powers": (x.astype(np.float32), y.astype(np.float32)), "special": (pairs[0], pairs[1])}
    codes = {name: to_cpp(lower(traced(np.power, *given)), name) for name, given in cases.items()}
    library = build(list(codes.values()), tmp_path, flags)
    with np.errstate(all="ignore"):
        want = np.power(*(part.astype(np.float64) for part in cases["powers"]))
        wants = np.power(*cases["special"])
        rounded = want.astype(np.float32)
    (got,) = call(library, codes["powers"], [*cases["powers"]], {}) or [np.zeros(0)]
    normal = (want > 1.2e-38) & np.isfinite(rounded)
    assert normal.mean() > 0.7 and np.array_equal(np.isinf(got), np.isinf(rounded))
    assert (np.abs(got - want)[normal] <= CLOSE * want[normal]).all()
    np.testing.assert_allclose(got[~normal], rounded[~normal], rtol=0, atol=2e-45)
    (got,) = call(library, codes["special"], [*cases["special"]], {}) or [np.zeros(0)]
    np.testing.assert_allclose(got, wants, rtol=TOLERANCE, atol=2e-45)
    assert np.array_equal(np.signbit(got)[~np.isnan(wants)], np.signbit(wants)[~np.isnan(wants)])


@pytest.mark.parametrize("flags", [["-O1"], [*FAST], [*FAST, "-march=native"]], ids=["slow", "fast", "native"])
def test_powers_with_small_constant_exponents_are_exact_to_the_last_bits(
    flags: Sequence[str], tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([np.exp2(random.uniform(-149, 128, 100_000)), random.uniform(0.5, 2, 100_000), SPECIAL])
    x = np.concatenate([x, -x]).astype(np.float32)
    exponents = [np.float32(e) for e in (0.4545, -0.4545, 1 / 3, 0.75, 1.8, -2.2, 2.5, 1, -1)]
    codes = [to_cpp(lower(traced(lambda a, e=e: a**e, x)), f"power{i}") for i, e in enumerate(exponents)]
    assert "small_power(" in codes[0].text
    library = build(codes, tmp_path, flags)
    for exponent, code in zip(exponents, codes):
        with np.errstate(all="ignore"):
            want = np.power(x.astype(np.float64), np.float64(exponent))
            rounded = want.astype(np.float32)
        (got,) = call(library, code, [x], {}) or [np.zeros(0)]
        normal = (np.abs(want) > 1.2e-38) & np.isfinite(rounded)
        error = np.abs(got[normal] - want[normal]) / np.abs(want[normal])
        assert normal.mean() > 0.3 and error.max() <= 3e-7, exponent
        np.testing.assert_allclose(got[~normal], rounded[~normal], rtol=0, atol=2e-45)
        assert np.array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


def test_constant_arrays_may_hold_infinities_and_nan(tmp_path: Path) -> None:
    mask, x = SPECIAL.reshape(2, 5), np.ones((3, 2, 5), np.float32)
    code = to_cpp(lower(traced(lambda a: a + mask, x)), "masked")
    (got,) = call(build([code], tmp_path), code, [x], {}) or [np.zeros(0)]
    np.testing.assert_array_equal(got, x + mask)
