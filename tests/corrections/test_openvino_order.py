"""Comparisons and sorts, in OpenVINO."""

from __future__ import annotations

import numpy as np
import pytest

from tests.corrections.harness import run

pytest.importorskip("openvino", reason="openvino is not installed")


@pytest.mark.parametrize("n", [3, 100])
def test_comparisons_with_nan_are_false(n: int) -> None:
    x = np.where(np.arange(n) % 2, np.float32(np.nan), np.float32(1))
    for got, want in zip(
        run("openvino", lambda x: [x > 0, x >= 0, x < 2, x <= 2, ~(x > 0), ~(x < 2)], x),
        [x > 0, x >= 0, x < 2, x <= 2, ~(x > 0), ~(x < 2)],
        strict=True,
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(6000,), (3, 700), (600, 2)])
def test_a_long_sort_keeps_equal_values_in_order(shape: tuple[int, ...]) -> None:
    axis = shape.index(max(shape))
    random = np.random.default_rng(0).random(shape).astype(np.float32)
    for x in (random, np.round(random, 1), np.zeros(shape, np.float32) * np.sign(random - np.float32(0.5))):
        order, ordered = run("openvino", lambda x: [np.argsort(x, axis, kind="stable"), np.sort(x, axis)], x)
        np.testing.assert_array_equal(order, np.argsort(x, axis, kind="stable"))
        np.testing.assert_array_equal(ordered, np.sort(x, axis))
