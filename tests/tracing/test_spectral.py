"""Fourier transforms, windows by strides, and inverses of small matrices, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from anylayer.errors import TraceError
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.testing import run_graph
from tests.engine_names import GENERAL

from .test_selections import several, traced

_random = np.random.default_rng(4)
SIGNAL = _random.standard_normal(96).astype(np.float32)
MATRICES = (_random.standard_normal((5, 3, 3)) + 2 * np.eye(3)).astype(np.float32)


def power_spectrum(x: Array, m: Array) -> Any:
    z = np.fft.rfft(x.reshape(6, 16), 32)
    return np.abs(z) ** 2 / 32, z.real**2 + z.imag**2, np.angle(z[:, 1:4])


def transforms_of_each_norm(x: Array, m: Array) -> Any:
    results = []
    for norm in (None, "ortho", "forward"):
        z = np.fft.fft(x.reshape(16, 6), axis=0, norm=norm)
        results += [z.real, np.fft.ifft(z, 12, axis=0, norm=norm).imag, np.fft.irfft(z.T, norm=norm)]
    return tuple(results)


def filtered(x: Array, m: Array) -> Any:
    z, w = np.fft.rfft(x), np.fft.rfft(x[::-1])
    return np.fft.irfft(z * np.conj(w)), np.fft.irfft(z * 0.5 - w / 2, 95), (z * (2 - 1j)).imag, abs(z / w)[:5]


def comparisons_and_choices(x: Array, m: Array) -> Any:
    z, w = np.fft.rfft(np.round(x[:4])), np.fft.rfft(x[:4] * 0)
    chosen = np.where(x[:3] > 0, z, 0), np.where(x[:6].reshape(2, 3) > 0, z, x[:3]), np.where(x[:3] > 0, 2, z)
    return w == 0, z != 0, z == z.conj(), *[part for c in chosen for part in (c.real, c.imag)]


def in_place(x: Array, m: Array) -> Any:
    z = np.fft.rfft(x)
    w, first = z, z.real
    z *= 2
    z[1:] += 1j
    z.imag[0] = 5
    z.real *= x[:49]
    c = z.conj()
    c.real[...] = 0
    z[3], z[4] = 1 + 2j, z[5]
    z.imag = z.imag / 2
    total = t = z.sum()
    t += 1
    return w.real, first, z.imag, c.real, c.imag, total.real, t.real


def written_into_zeros(x: Array, m: Array) -> Any:
    z, w = np.zeros(96, complex), np.empty((6, 9), np.complex64)
    z[:48] = x[:48] + 1j * x[48:]
    z[50] = 1 - 2j
    z[60:70] = x[0]
    z[-1] += 3j * x[1]
    z[x > 1] = 7
    for t in range(6):
        w[t] = np.fft.rfft(x[16 * t : 16 * t + 16])
    ones = np.full(3, 2 + 1j) * x[:3]
    like = np.zeros_like(x[:4], dtype=np.complex64)
    like[1:] = x[:3] * 1j
    return z.real, z.imag, np.abs(w), np.angle(w[:, 1]), np.abs(z) ** 2, ones.imag, like.imag


def transform_by_loops(x: Array, m: Array) -> Any:
    z = np.zeros(6, np.complex128)
    for k in range(6):
        for n in range(6):
            z[k] += x[n] * np.exp(-2j * np.pi * k * n / 6)
    return np.abs(z), (z * np.conj(z)).real


def spectrum_in_a_loop_on_data(x: Array, m: Array) -> Any:
    z = np.zeros(96, np.complex64)
    for k in range(96):
        if x[k] > 0.2:
            z[k] = x[k] + 1j * x[95 - k]
        elif x[k] < -1:
            z[k] = -1j
    return z.real, z.imag


def mixed_operands(x: Array, m: Array) -> Any:
    z, y = np.fft.rfft(x[:8]), x[:5]
    sums = y * z, z - y, m[:, 0, :1] + z, np.float32(2) / z, np.arange(5, dtype=np.float32) * z, +z, -z, 1 - z
    wide = z * np.complex128(1j), z * np.array(2.0), z + np.arange(5), z * np.complex64(2j), z * 2.0
    lengths = np.fft.rfft(x[:8], np.int64(6)), z**2
    return tuple(part for c in (*sums, *wide, *lengths) for part in (c.real, c.imag))


def numbers_that_are_complex(x: Array, m: Array) -> Any:
    """Complex arrays that no transform returns: of a complex number, a cast, and a constant array."""
    z = x[:8] + 1j * x[8:16]
    turned = (
        z * np.exp(1j * np.pi * np.arange(8) / 4),
        x[:8].astype(np.complex128) * z,
        (z @ z)[None],
        m[0] @ z[:3],
    )
    grown = np.exp(z / 2), np.log(z + 5), z * z.conj() / (z + 9), np.add(x[:8], 2j), np.exp(1j * x[:8]), 1j - z
    parts = [part for c in (*turned, *grown) for part in (c.real, c.imag)]
    return abs(z), np.sqrt((z * z.conj()).real), np.where(x[:8] > 0, z, 1j).imag, z == 0, *parts


def frames_by_strides(x: Array, m: Array) -> Any:
    step = x.strides[0]
    frames = as_strided(x, shape=(11, 16), strides=(8 * step, step))
    again = np.lib.stride_tricks.as_strided(x, (3, 4), (step, 0))
    return frames * np.hanning(16).astype(np.float32), again


def sliding_windows(x: Array, m: Array) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view
    return windows(x, 5)[::2].max(-1), windows(x.reshape(8, 12), (3, 4)).mean((2, 3)), windows(m, 2, axis=1)


def small_matrices(x: Array, m: Array) -> Any:
    small = m[:, :2, 1:]
    inverses = np.linalg.inv(m), np.linalg.inv(small), np.linalg.det(m), np.linalg.det(small)
    return (
        *inverses,
        np.linalg.solve(m, m[:, :, :2]),
        np.linalg.solve(m[0], x[:3]),
        np.linalg.inv(m[0].astype(int)),
    )


CASES: list[Callable[..., Any]] = [
    power_spectrum, transforms_of_each_norm, filtered, comparisons_and_choices, in_place, mixed_operands,
    numbers_that_are_complex, frames_by_strides, sliding_windows, small_matrices, written_into_zeros,
    transform_by_loops, spectrum_in_a_loop_on_data,
]  # fmt: skip


@cache
def graph_of(function: Callable[..., Any]) -> Graph:
    return traced(function, [TensorType.of(SIGNAL.shape), TensorType.of(MATRICES.shape)])


@pytest.mark.one_per(lambda function, engine: engine if engine == "cpp" else function)
@pytest.mark.parametrize("engine", [*GENERAL, "cpp"])
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_results_equal_numpy(function: Callable[..., Any], engine: str) -> None:
    matrices = np.round(MATRICES * 4) if function is small_matrices else MATRICES
    results = run_graph(graph_of(function), [SIGNAL, matrices], engine)
    for got, want in zip(results, several(function(SIGNAL, matrices)), strict=True):
        assert (got.shape, got.dtype) == (np.shape(want), np.asarray(want).dtype)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_transform_of_float16_is_complex64() -> None:
    x = SIGNAL[:8].astype(np.float16)
    graph = traced(lambda x: np.fft.rfft(x).real, [TensorType.of(x.shape, x.dtype)])
    real, want = run_graph(graph, [x], "onnxruntime")[0], np.fft.rfft(x).real
    assert real.dtype == want.dtype == np.float32
    np.testing.assert_allclose(real, want, rtol=1e-5, atol=1e-5)


def test_a_long_transform_is_as_exact_as_float32() -> None:
    x = np.random.default_rng(1).standard_normal(2048).astype(np.float32)
    graph = traced(lambda x: (np.fft.rfft(x).real, np.fft.rfft(x).imag), [TensorType.of(x.shape)])
    real, imag = run_graph(graph, [x], "onnxruntime")
    exact = np.fft.rfft(x.astype(np.float64))
    assert np.abs(real + 1j * imag - exact).max() <= 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
def test_a_badly_conditioned_float32_matrix_is_inverted_as_well_as_by_numpy(condition: float) -> None:
    random = np.random.default_rng(2)
    q, r = (np.linalg.qr(random.standard_normal((20, 3, 3)))[0] for _ in range(2))
    m = ((q * np.array([1, condition**-0.5, 1 / condition])) @ r).astype(np.float32)
    exact = np.linalg.inv(m.astype(np.float64))
    size = np.abs(exact).max((1, 2))
    graph = traced(np.linalg.inv, [TensorType.of(m.shape)])
    errors = [
        np.abs(y - exact).max((1, 2)) / size for y in (run_graph(graph, [m], "onnxruntime")[0], np.linalg.inv(m))
    ]
    assert errors[0].max() <= max(errors[1].max(), 1e-6)


def test_a_singular_matrix_gives_no_finite_inverse() -> None:
    graph = traced(np.linalg.inv, [TensorType.of((2, 2))])
    assert not np.isfinite(run_graph(graph, [np.ones((2, 2), np.float32)], "onnxruntime")[0]).any()
    assert any("instead of LinAlgError" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, m: np.fft.rfft(x), "complex numbers must end in real ones"),
        (lambda x, m: np.sqrt(np.fft.rfft(x)).real, "np.sqrt of complex numbers"),
        (lambda x, m: np.fft.rfft(x) > 1, "np.greater of complex numbers"),
        (lambda x, m: np.maximum(x, 1j).real, "np.maximum of complex numbers"),
        (lambda x, m: 1 if np.fft.rfft(x) else x, "no truth value"),
        (lambda x, m: np.fft.rfft(x).sum(initial=1).real, "sum.*initial="),
        (lambda x, m: (np.fft.rfft(x) // 2).real, "np.floor_divide of complex numbers"),
        (lambda x, m: np.maximum(x[:49], np.fft.rfft(x)), "np.maximum of complex numbers"),
        (lambda x, m: np.stack([x[:49], np.fft.rfft(x)]), "np.stack of a complex array"),
        (lambda x, m: np.linalg.inv(m.astype(np.float16)), "float16 is unsupported"),
        (lambda x, m: np.abs(np.fft.rfft(x, 5000)), "a length from 1 to 4096"),
        (lambda x, m: as_strided(x, (20, 16), (32, 4)), "reads beyond the array"),
        (lambda x, m: as_strided(m.T, (2, 2), (4, 4)), "not contiguous"),
        (lambda x, m: as_strided(x, (2, 2), (2, 4)), "whole elements"),
        (lambda x, m: np.linalg.inv(x.reshape(6, 4, 4)), "matrices of 2 or 3 rows"),
    ],
)
def test_what_is_not_recorded_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        traced(function, [TensorType.of(SIGNAL.shape), TensorType.of(MATRICES.shape)])


def test_a_write_into_strided_windows_is_refused() -> None:
    def function(x: Array) -> Any:
        windows = as_strided(x, (4, 4), (16, 4))
        windows[0] = 1
        return windows

    with pytest.raises(TraceError, match="as_strided"):
        traced(function, [TensorType.of(SIGNAL.shape)])
