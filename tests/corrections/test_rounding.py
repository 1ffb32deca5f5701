"""Floors, comparisons and casts that depend on last bits, on OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.corrections import corrected
from anylayer.network import Array
from anylayer.optimize.simplify import simplify
from anylayer.testing import run_graph
from anylayer.tracing import record_many
from tests.corrections.harness import noise, run, traced

ov = pytest.importorskip("openvino", reason="openvino is not installed")

F = np.float32
RANDOM = np.random.default_rng(0)
K = np.arange(3000).astype(F)
Y = RANDOM.integers(1, 50, 3000).astype(F)
X = K * Y
A, B, C = ((RANDOM.integers(1, 200, 3000) / 16).astype(F) for _ in range(3))
THIRD = (A / F(3)).astype(F)


def _first_replaced(x: Any) -> Any:
    """Return the array with 100 in place of its first elements, which ScatterElements writes when traced."""
    y = x.copy()
    y[np.array([0, 1])] = 100
    return y


STEPS = pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x, y: np.floor(x / y), (X, Y)),
        (lambda x, y: x // y, (X, Y)),
        (lambda x, y: np.ceil(x / y).astype(np.int64), (X, Y)),
        (lambda x, y: (x / y).astype(np.int32), (X, Y)),
        (lambda x, y, k: x / y == k, (X, Y, K)),
        (lambda x, y: np.where(x / y >= np.round(x / y), F(1), F(0)), (X, Y)),
        (lambda a, b: np.ceil(a * F(3) - b), (THIRD, B)),
        (lambda a, b, c: np.floor(a * b + c), (THIRD, B, C)),
        (lambda a: np.floor((a + F(0.5)) * F(3) - F(0.5)), (THIRD,)),
        (lambda a: np.round(a * F(0.1) * F(2.5)), (K,)),
        (lambda a, b: (a * F(3) - b) > (A - B), (THIRD, B)),
        (lambda a, b: (a * b - b * a).astype(bool), (THIRD, Y)),
        (lambda a, b: _first_replaced(a * b - b * a) != 0, (THIRD, Y)),
    ],
)


@STEPS
@pytest.mark.parametrize("simplified", [False, True])
def test_steps_match_numpy(function: Callable[..., Any], inputs: tuple[Any, ...], simplified: bool) -> None:
    graph = traced(function, *inputs)
    graph = simplify(graph, "openvino") if simplified else graph
    assert np.array_equal(run_graph(graph, inputs, "openvino")[0], function(*inputs))


def in_file(path: Path, function: Callable[..., Any], inputs: tuple[Any, ...]) -> Array:
    """Return what OpenVINO computes from the file of a function."""
    anylayer.export(function, *inputs, path=path)
    compiled = ov.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    result: Array = compiled([*inputs])[0]
    return result


@STEPS
def test_steps_in_files_match_numpy(tmp_path: Path, function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    assert np.array_equal(in_file(tmp_path / "n.xml", function, inputs), function(*inputs))


def test_divisions_in_files_are_rounded_once(tmp_path: Path) -> None:
    """Comparisons make the last bits of quotients count. No promise is made for those below 1e-22."""
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1]
    pairs = np.array([(a, b) for a in special for b in special], F)
    x, y = (RANDOM.uniform(1, 2, (2, 20000)) * 10.0 ** RANDOM.integers(-10, 10, (2, 20000))).astype(F)
    x, y = np.concatenate([x, pairs[:, 0]]), np.concatenate([y, pairs[:, 1]])

    def rounded(x: Any, y: Any, quotients: Any) -> Any:
        """Return where the quotients are those of x and y."""
        with np.errstate(all="ignore"):
            return (x / y <= quotients) & (x / y >= quotients)

    with np.errstate(all="ignore"):
        inputs = (x, y, x / y)
    assert np.array_equal(in_file(tmp_path / "n.xml", rounded, inputs), ~np.isnan(inputs[2]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.ldexp(x, 255),
        lambda x: x * F(1e30) * F(1e30),
        lambda x: F(1e30) * (x * np.array([1e30, 1, 0], F)),
    ],
)
@pytest.mark.parametrize("simplified", [False, True])
def test_product_of_factors_beyond_float32(function: Callable[..., Any], simplified: bool) -> None:
    x = np.array([[0, 1, -1], [1e-30, 3, 1e-30]], F)
    with np.errstate(all="ignore"):
        want = function(x)
    graph = traced(function, x)
    graph = simplify(graph, "openvino") if simplified else graph
    assert np.allclose(run_graph(graph, [x], "openvino")[0], want, 1e-5, 0, equal_nan=True)


def test_arithmetic_without_a_step_stays_fused() -> None:
    graph = traced(lambda a, b: a * b + b, A, B)
    assert [o.op for o in corrected(graph, "openvino").graph.ops] == ["Mul", "Add"]
    assert corrected(graph, "openvino").divisions == []


def test_nan_and_infinity_stay() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 2.5], F)

    def function(x: Any) -> Any:
        return np.floor(x * F(3) + F(1))

    assert np.array_equal(run("openvino", function, x)[0], function(x), equal_nan=True)


@pytest.mark.parametrize("seed", [4, 5])
def test_bins_that_end_on_edges_of_cells(tmp_path: Path, seed: int) -> None:
    """Regions whose bins end on the edge of a cell: with a fused multiply-add they end in the next one."""
    path = tmp_path / "n.prototxt"
    path.write_text(
        'input: "x" input_shape { dim: 1 dim: 18 dim: 14 dim: 18 }\n'
        'input: "r" input_shape { dim: 300 dim: 5 }\n'
        'layer { name: "p" type: "PSROIPooling" bottom: "x" bottom: "r" top: "p" '
        "psroi_pooling_param { spatial_scale: 0.0625 output_dim: 2 group_size: 3 } }\n"
    )
    random = np.random.default_rng(seed)
    x = random.standard_normal((1, 18, 14, 18)).astype(F)
    a, b = (np.sort(random.integers(0, size, (300, 2)), axis=1) for size in (18 * 16, 14 * 16))
    regions = np.stack([np.zeros(300), a[:, 0], b[:, 0], a[:, 1], b[:, 1]], axis=1).astype(F)
    net, inputs = anylayer.read(path), {"x": x, "r": regions}
    want, got = (net.compile(e, threads=1)(inputs)["p"] for e in ("numpy", "openvino"))
    assert np.allclose(got, want, atol=1e-5)
    (check,) = net.write(tmp_path / "n.xml", verify=inputs).checks
    assert check.ok and check.error < 1e-5


def test_quantization_to_the_range_of_the_data() -> None:
    x = np.array([0, 2, -3, -2.5, 1.34, 0.5], F)

    def recorded(x: Any) -> Any:
        return record_many("DynamicQuantizeLinear", [x], [(x.shape, np.uint8), ((), F), ((), np.uint8)])

    for got, want in zip(run("openvino", recorded, x), run("onnxruntime", recorded, x)):
        assert got.dtype == want.dtype and np.allclose(got, want, 1e-6)
    assert run("openvino", recorded, x)[0].tolist() == [153, 255, 0, 26, 221, 179]


def test_extremes_without_infinite_constants_are_not_corrected() -> None:
    """The sum before them is, since its last bit may decide the index."""
    for function, want in (
        (lambda x: np.argmax(x, axis=1), ["ArgMax"]),
        (lambda x: np.argmax(x * F(2) + F(1), axis=1), ["Mul", "Max", "Add", "ArgMax"]),
        (lambda x: np.max(x * F(2) + F(1), axis=1), ["Mul", "Add", "ReduceMax"]),
    ):
        assert [o.op for o in corrected(traced(function, noise(3, 4)), "openvino").graph.ops] == want
