"""Convolution and transposed convolution match loops over their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anylayer import ops
from anylayer.network import Array
from tests.ops.harness import agree, noise, numbers, refuses

# input, weights, strides, pads (begins, ends), dilations, group
CASES: dict[str, tuple[Any, ...]] = {
    "plain": ((1, 2, 5, 6), (3, 2, 3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "strided": ((2, 2, 7, 6), (4, 2, 3, 2), (2, 3), (1, 0, 1, 0), (1, 1), 1),
    "uneven pads": ((1, 2, 5, 5), (2, 2, 3, 3), (1, 2), (2, 0, 1, 3), (1, 1), 1),
    "dilated": ((1, 3, 9, 8), (2, 3, 3, 2), (1, 2), (2, 1, 2, 1), (2, 3), 1),
    "grouped": ((2, 6, 5, 5), (4, 3, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
    "depthwise": ((1, 4, 6, 5), (8, 1, 3, 3), (2, 1), (1, 1, 1, 1), (1, 1), 4),
    "point": ((2, 5, 3, 4), (3, 5, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "line": ((2, 3, 9), (4, 3, 4), (2,), (1, 2), (2,), 1),
    "volume": ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1, 0, 1, 1), (1, 1, 2), 1),
}


def by_definition(
    x: Array, w: Array, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], group: int
) -> Array:
    axes = x.ndim - 2
    wide = np.pad(x, [(0, 0), (0, 0), *((pads[a], pads[a + axes]) for a in range(axes))]).astype(np.float64)
    sizes = [(wide.shape[a + 2] - (w.shape[a + 2] - 1) * dilations[a] - 1) // strides[a] + 1 for a in range(axes)]
    inner, outer = w.shape[1], w.shape[0] // group
    y = np.zeros((x.shape[0], w.shape[0], *sizes))
    for m, at, cell in product(range(w.shape[0]), product(*map(range, sizes)), product(*map(range, w.shape[2:]))):
        place = tuple(p * s + c * d for p, s, c, d in zip(at, strides, cell, dilations))
        channels = slice(m // outer * inner, (m // outer + 1) * inner)
        y[(slice(None), m, *at)] += wide[(slice(None), channels, *place)] @ w[(m, slice(None), *cell)]
    return y


@pytest.mark.parametrize("name", CASES)
def test_conv_matches_its_definition(name: str) -> None:
    shape, weights, strides, pads, dilations, group = CASES[name]
    x, w, b = noise(*shape), noise(*weights, seed=1), noise(weights[0], seed=2)
    y = ops.conv(x, w, b, strides=strides, pads=pads, dilations=dilations, group=group)
    expected = by_definition(x, w, strides, pads, dilations, group) + b.reshape(-1, *(1,) * (x.ndim - 2))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_conv_matches_values_computed_by_hand() -> None:
    x = numbers(1, 1, 3, 3)
    w = np.array([[[[1, 0], [0, -1]]]], np.float32)
    assert ops.conv(x, w).tolist() == [[[[-4, -4], [-4, -4]]]]
    assert ops.conv(x, w, pads=(0, 0, 1, 1)).tolist() == [[[[-4, -4, 2], [-4, -4, 5], [6, 7, 8]]]]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_matches_numpy_on_engines(rank: int, group: int) -> None:
    x = noise(2, 4, *(9, 8, 7)[:rank])
    w, b = noise(6, 4 // group, *(3, 2, 2)[:rank], seed=1), noise(6, seed=2)

    def run(x: Array) -> list[Array]:
        return [
            ops.conv(x, w, b, group=group),
            ops.conv(x, w, strides=2, pads=1, group=group),
            ops.conv(x, w, b, dilations=2, pads=tuple(range(2 * rank)), group=group),
        ]

    agree(run, x)


def test_conv_depthwise_and_traced_weights_on_engines() -> None:
    def run(x: Array, w: Array, b: Array) -> list[Array]:
        return [ops.conv(x, w, b, pads=1, group=4), ops.conv(x, w, b, strides=(1, 2), group=4)]

    agree(run, noise(1, 4, 6, 5), noise(8, 1, 3, 3, seed=1), noise(8, seed=2))


def scattered(x: Array, w: Array, strides: Sequence[int], dilations: Sequence[int], group: int) -> Array:
    """Return the uncropped result of a transposed convolution: the sum of what each input value adds."""
    full = [s * (n - 1) + (k - 1) * d + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations)]
    outer = w.shape[1]
    y = np.zeros((x.shape[0], outer * group, *full))
    for c, at, cell in product(
        range(x.shape[1]), product(*map(range, x.shape[2:])), product(*map(range, w.shape[2:]))
    ):
        place = tuple(p * s + k * d for p, s, k, d in zip(at, strides, cell, dilations))
        g = c // (x.shape[1] // group)
        where = (slice(None), slice(g * outer, (g + 1) * outer), *place)
        y[where] += x[(slice(None), c, *at)][:, None] * w[(c, slice(None), *cell)][None]
    return y


@pytest.mark.parametrize(
    ("shape", "weights", "strides", "dilations", "group"),
    [
        ((1, 3, 4, 3), (3, 2, 3, 3), (1, 1), (1, 1), 1),
        ((2, 4, 3, 4), (4, 2, 3, 2), (2, 3), (1, 1), 2),
        ((1, 2, 3, 3), (2, 3, 2, 3), (1, 2), (2, 3), 1),
        ((1, 4, 3, 3), (4, 1, 4, 4), (2, 2), (1, 1), 4),
        ((1, 2, 5), (2, 3, 4), (2,), (1,), 1),
        ((1, 2, 2, 3, 2), (2, 2, 2, 2, 3), (2, 1, 2), (1, 2, 1), 1),
    ],
)
def test_conv_transpose_adds_a_scaled_kernel_per_input_value(
    shape: Sequence[int], weights: Sequence[int], strides: Sequence[int], dilations: Sequence[int], group: int
) -> None:
    x, w = noise(*shape), noise(*weights, seed=1)
    full = scattered(x, w, strides, dilations, group)
    y = ops.conv_transpose(x, w, strides=strides, dilations=dilations, group=group)
    np.testing.assert_allclose(y, full, atol=1e-5)
    axes = x.ndim - 2
    b = noise(full.shape[1], seed=2)
    cropped = full[(..., *(slice(1, n) for n in full.shape[2:]))] + b.reshape(-1, *(1,) * axes)
    pads = [1] * axes + [0] * axes
    y = ops.conv_transpose(x, w, b, strides=strides, dilations=dilations, group=group, pads=pads)
    np.testing.assert_allclose(y, cropped, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2),
    st.integers(1, 3),
)
def test_conv_transpose_is_the_adjoint_of_conv(s: int, d: int, c: int, k: int, pad: int, m: int) -> None:
    """<conv(x), y> = <x, conv_transpose(y)>, where output_padding makes the sizes equal."""
    size = (k - 1) * d + 6
    x, w = noise(1, c, size, size).astype(np.float64), noise(m, c, k, k, seed=1).astype(np.float64)
    y = ops.conv(x, w, strides=s, pads=pad, dilations=d)
    back = noise(*y.shape, seed=2).astype(np.float64)
    extra = size - (s * (y.shape[2] - 1) + (k - 1) * d + 1 - 2 * pad)
    assume(0 <= extra < s)
    z = ops.conv_transpose(back, w, strides=s, pads=pad, dilations=d, output_padding=extra)
    assert z.shape == x.shape
    assert abs((y * back).sum() - (x * z).sum()) <= 1e-12 * np.abs(y * back).sum()


def test_conv_transpose_matches_values_computed_by_hand() -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    w = np.ones((1, 1, 2, 2), np.float32)
    assert ops.conv_transpose(x, w, strides=2)[0, 0].tolist() == [
        [1, 1, 2, 2],
        [1, 1, 2, 2],
        [3, 3, 4, 4],
        [3, 3, 4, 4],
    ]
    assert ops.conv_transpose(x, w, pads=(1, 1, 0, 0))[0, 0].tolist() == [[10, 6], [7, 4]]
    assert ops.conv_transpose(x, w, strides=2, output_padding=(1, 0)).shape == (1, 1, 5, 4)


def test_conv_transpose_matches_numpy_on_engines() -> None:
    w, b, line = noise(4, 3, 3, 3, seed=1), noise(6, seed=2), noise(4, 2, 4, seed=3)
    volume = noise(4, 2, 2, 3, 2, seed=4)

    def run(x: Array, xs: Array, xv: Array) -> list[Array]:
        return [
            ops.conv_transpose(x, w, b, group=2),
            ops.conv_transpose(x, w, strides=2, pads=1, group=2, output_padding=1),
            ops.conv_transpose(x, w, strides=(3, 1), dilations=(1, 2), pads=(0, 1, 2, 0), group=2),
            ops.conv_transpose(xs, line, strides=2, pads=(1, 2)),
            ops.conv_transpose(xv, volume, strides=(1, 2, 1)),
        ]

    agree(run, noise(2, 4, 5, 4), noise(1, 4, 6), noise(1, 4, 3, 3, 4))


def test_conv_of_float64_is_float64() -> None:
    x, w = noise(1, 2, 5, 5).astype(np.float64), noise(2, 2, 3, 3).astype(np.float64)
    assert ops.conv(x, w).dtype == ops.conv_transpose(x, w).dtype == np.float64


def test_conv_refuses_invalid_arguments() -> None:
    x, w = noise(1, 6, 5, 5), noise(4, 6, 3, 3)
    refuses("conv needs an input (N, C, ...) of rank 3 or more, got shape (6, 5)", ops.conv, x[0, :, 0], w)
    refuses("conv needs weights of rank 4 for an input (1, 6, 5, 5), got (4, 6, 3)", ops.conv, x, w[..., 0])
    refuses("group=4 does not divide 6 channels", ops.conv, x, w, group=4)
    refuses("group=3 does not divide 4 outputs", ops.conv, x, w[:, :2], group=3)
    refuses("group must be an integer of at least 1, got 0", ops.conv, x, w, group=0)
    refuses("weights (4, 5, 3, 3) in 1 group need 5 channels, got 6", ops.conv, x, w[:, :5])
    refuses("weights (4, 6, 3, 3) in 2 groups need 12 channels, got 6", ops.conv, x, w, group=2)
    refuses("bias must be of shape (4,), got (3,)", ops.conv, x, w, noise(3))
    refuses("strides must be an integer of at least 1, got 0", ops.conv, x, w, strides=0)
    refuses("strides must be an integer of at least 1, got 1.5", ops.conv, x, w, strides=(1.5, 1))
    refuses("strides must be 1 or 2 numbers, got 3: [1, 1, 1]", ops.conv, x, w, strides=(1, 1, 1))
    refuses("dilations must be an integer of at least 1, got -1", ops.conv, x, w, dilations=-1)
    refuses("pads must be an integer of at least 0, got -1", ops.conv, x, w, pads=-1)
    refuses("pads must be 1, 2 or 4 numbers, got 3: [1, 1, 1]", ops.conv, x, w, pads=(1, 1, 1))
    refuses("kernel must be an integer of at least 1, got 0", ops.conv, x, w[:, :, :0])
    refuses(
        "a kernel of 3 dilated by 3 does not fit spatial axis 0: 5 cells and pads 0 + 0",
        ops.conv,
        x,
        w,
        dilations=3,
    )
    refuses("a kernel of 3 does not fit spatial axis 1: 2 cells and pads 0 + 0", ops.conv, x[..., :2], w)
    refuses("a padded map of shape (2000000005, 2000000005) would have", ops.conv, x, w, pads=10**9)


def test_conv_transpose_refuses_invalid_arguments() -> None:
    x, w = noise(1, 4, 3, 3), noise(4, 2, 3, 3)
    refuses("conv_transpose needs an input (N, C, ...) of rank 3 or more", ops.conv_transpose, x[0, 0], w)
    refuses("conv_transpose needs weights of rank 4 for an input", ops.conv_transpose, x, w[0])
    refuses("group=3 does not divide 4 channels", ops.conv_transpose, x, w, group=3)
    refuses("weights (3, 2, 3, 3) need 3 channels, got 4", ops.conv_transpose, x, w[:3])
    refuses("bias must be of shape (4,), got (2,)", ops.conv_transpose, x, w, noise(2), group=2)
    refuses(
        "pads 3 + 2 leave nothing of the 5 cells of spatial axis 0", ops.conv_transpose, x, w, pads=(3, 0, 2, 0)
    )
    refuses(
        "output_padding=2 of spatial axis 0 must be less than its stride 2",
        ops.conv_transpose,
        x,
        w,
        strides=2,
        output_padding=2,
    )
    refuses(
        "the result of shape (1, 2, 2000000003, 2000000003) would have", ops.conv_transpose, x, w, strides=10**9
    )
