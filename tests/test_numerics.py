"""Differences between arrays, scales and seeded noise."""

from __future__ import annotations

import numpy as np

from anylayer.network import TensorType
from anylayer.numerics import absolute_errors, largest_error, normal_noise, scale_of, uniform_noise

NAN, INF = np.nan, np.inf


def test_equal_infinities_and_nan_have_no_error() -> None:
    odd = np.array([NAN, INF, -INF, 1], np.float32)
    assert absolute_errors(odd, odd.copy()).tolist() == [0, 0, 0, 0]


def test_nan_or_infinity_in_one_array_is_an_infinite_error() -> None:
    got, want = np.array([NAN, 1, INF, INF], np.float32), np.array([1, NAN, 1, -INF], np.float32)
    assert absolute_errors(got, want).tolist() == [INF] * 4


def test_errors_of_integers_and_booleans() -> None:
    assert largest_error(np.array([250], np.uint8), np.array([5], np.uint8)) == 245
    assert largest_error(np.array([True, False]), np.array([True, True])) == 1
    assert largest_error(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)) == 0


def test_scale_is_the_largest_finite_value_and_never_zero() -> None:
    assert scale_of(np.array([1, -4, INF, NAN], np.float32)) == 4
    assert scale_of(np.zeros(3, np.float32)) == scale_of() == 1e-6


def test_noise_is_seeded_and_has_the_dtypes_of_its_types() -> None:
    types = [TensorType((3, 4)), TensorType.of((50,), np.int64), TensorType.of((2,), bool)]
    for noise in (normal_noise, uniform_noise):
        arrays = noise(types, 1)
        assert [(a.dtype.name, a.shape) for a in arrays] == [("float32", (3, 4)), ("int64", (50,)), ("bool", (2,))]
        assert set(arrays[1].tolist()) == {0, 1}
        assert set(noise(types, 1, integers=3)[1].tolist()) == {0, 1, 2}
        assert np.array_equal(arrays[0], noise(types, 1)[0])
        assert not np.array_equal(arrays[0], noise(types, 2)[0])
