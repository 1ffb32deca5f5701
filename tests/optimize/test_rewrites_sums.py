"""Inexact rewrites of interpolations, chains of products and sums, powers, sums and norms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anylayer import ops
from anylayer.network import Array
from anylayer.optimize.order import load_rules
from anylayer.optimize.rules import RULES
from anylayer.optimize.simplify import lowered, simplify
from anylayer.testing import run_graph

from .rewriting import ENGINES, Function, check, f, kinds, noise, rewritten, traced

ORT, OV = "onnxruntime", "openvino"


# ------------------------------------------------------------------- interpolation


def neighbours(old: int, new: int, how: str) -> tuple[Any, Any, Any]:
    """Return (low, high, weight): the two cells around each new one, and the weight of the second."""
    i = np.arange(new, dtype=np.float32)
    at = {
        "align_corners": i * f((old - 1) / max(new - 1, 1)),
        "half_pixel": (i + f(0.5)) * f(old / new) - f(0.5),
        "asymmetric": i * f(old / new),
        "bent": i * i * f((old - 1) / max(new - 1, 1) ** 2),
    }[how]
    at = np.clip(at, 0, old - 1).astype(np.float32)
    low = at.astype(int)
    return low, np.minimum(low + 1, old - 1), (at - low).astype(np.float32)


def by_axis(rows: int, columns: int, how: str) -> Function:
    """Compute (1 - f) a + f b along the columns, then along the rows."""

    def function(x: Any) -> Any:
        low, high, part = neighbours(x.shape[3], columns, how)
        x = (1 - part) * np.take(x, low, 3) + part * np.take(x, high, 3)
        low, high, part = neighbours(x.shape[2], rows, how)
        return (1 - part)[:, None] * np.take(x, low, 2) + part[:, None] * np.take(x, high, 2)

    return function


def lerp(rows: int, columns: int, how: str) -> Function:
    """Compute a + (b - a) f along the rows, then along the columns."""

    def function(x: Any) -> Any:
        low, high, part = neighbours(x.shape[2], rows, how)
        x = x[:, :, low] + (x[:, :, high] - x[:, :, low]) * part[:, None]
        low, high, part = neighbours(x.shape[3], columns, how)
        return x[..., low] + (x[..., high] - x[..., low]) * part

    return function


def taps(rows: int, columns: int, how: str, mesh: bool = False) -> Function:
    """Add up the four neighbours, each with its own weight."""

    def function(x: Any) -> Any:
        y0, y1, fy = neighbours(x.shape[2], rows, how)
        x0, x1, fx = neighbours(x.shape[3], columns, how)
        weights = [a[:, None] * b for a in (1 - fy, fy) for b in (1 - fx, fx)]
        total: Any = 0
        for weight, (ys, xs) in zip(weights, [(y0, x0), (y0, x1), (y1, x0), (y1, x1)]):
            ys, xs = np.meshgrid(ys, xs, indexing="ij") if mesh else (ys[:, None], xs)
            total = total + x[:, :, ys, xs] * weight
        return total

    return function


WAYS = [by_axis, lerp, taps, lambda *a: taps(*a, mesh=True)]


@pytest.mark.breadth
@given(
    st.sampled_from(WAYS),
    st.integers(1, 40),
    st.sampled_from(["align_corners", "half_pixel", "asymmetric", "bent"]),
    st.tuples(st.integers(2, 12), st.integers(2, 12)),
    st.tuples(st.integers(4, 24), st.integers(4, 24)),
)
@settings(max_examples=60, deadline=None)
def test_every_spelling_of_interpolation_becomes_products(
    way: Any, channels: int, how: str, old: Any, new: Any
) -> None:
    function, x = way(*new, how), noise(1, channels, *old)
    for engine in ENGINES:
        left = {"Gather", "Mul"} & set(rewritten(function, x, engine=engine))
        assert not left or old[0] == new[0] or old[1] == new[1]
    check(function, x)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["align_corners", "half_pixel", "asymmetric"])
def test_interpolation_along_long_axes_becomes_resize(way: Any, how: str) -> None:
    long, many = noise(1, 2, 60, 52), noise(1, 33, 7, 8)
    assert rewritten(way(100, 90, how), long, engine=ORT) == ["Resize"]
    assert rewritten(way(13, 16, how), many, engine=ORT) == ["MatMul", "MatMul"]
    assert rewritten(way(13, 16, how), many, engine=OV) == ["Resize"]
    check(way(100, 90, how), long)
    check(way(13, 16, how), many)


def test_other_sums_along_long_axes_stay() -> None:
    x = noise(1, 2, 80, 80)
    for engine in ENGINES:
        assert not {"MatMul", "Resize"} & set(rewritten(by_axis(90, 90, "bent"), x, engine=engine))
    check(by_axis(90, 90, "bent"), x)


def test_each_target_lowers_resize() -> None:
    few, many, long = noise(1, 3, 65, 65), noise(1, 40, 65, 65), noise(1, 3, 80, 80)
    products = ["MatMul", "MatMul"]

    def lowered(x: Any, exact: bool, **how: Any) -> list[list[str]]:
        function = partial(ops.resize, size=(129, 129), **how)
        return [rewritten(function, x, engine=engine, exact=exact) for engine in (None, ORT, OV)]

    for exact in (False, True):
        assert lowered(few, exact) == [["Resize"], ["Resize"], products]
        assert lowered(many, exact) == [["Resize"], ["Resize"], ["Resize"]]
        assert lowered(few[..., :20, :20], exact) == [["Resize"], products, products]
        assert lowered(many[..., :20, :20], exact) == [["Resize"], products, ["Resize"]]
        assert lowered(long, exact) == [["Resize"], ["Resize"], ["Resize"]]
        assert lowered(long, exact, mode="cubic") == [["Resize"], products, products]
        assert lowered(long, exact, antialias=True) == [["Resize"], products, products]
        assert lowered(long, exact, mode="nearest")[0] == ["Resize"]
        assert all("Resize" not in left for left in lowered(long, exact, mode="nearest")[1:])


@pytest.mark.parametrize("how", ["align_corners", "half_pixel", "asymmetric", "half_pixel_symmetric"])
@pytest.mark.parametrize("size", [(9, 14), (7, 8), (3, 20)])
def test_products_of_ops_resize(how: str, size: tuple[int, int]) -> None:
    many = noise(1, 40, 7, 8)
    long = noise(1, 3, 50, 60)
    both = rewritten(lambda x: ops.resize(x, size, coordinates=how), many, engine=OV)
    assert both in (["Resize"], ["MatMul"], [], ["Identity"])
    for x in (many, long):
        check(lambda x: ops.resize(x, size, coordinates=how), x)
    check(lambda x: ops.resize(x, size, mode="cubic", coordinates=how), many)


STAY: list[Function] = [
    lambda x: x[..., 1:] - x[..., :-1],  # no picks
    lambda x: f(0.5) * x[:, :, [0, 0, 1, 2]] + f(0.5) * x[:, :, [1, 2, 2, 3]],  # rows alone
    lambda x: f(0.5) * x[:, [0, 2, 1]] + f(0.5) * x[:, [1, 2, 0]],  # channels
    lambda x: x[..., [0, 2, 5]] + (x + 1)[..., [1, 3, 4]],  # of two arrays
    lambda x: x[..., [0, 2, 5]] + f(1),
    lambda x: x[..., [0, 2, 5]] * noise(1, 3, 6, 3) + x[..., [1, 1, 0]],  # weights by channel
    lambda x: x[..., [0, 2, 5]] + x[:, :, :, [1, 3, 4]][:, :, ::-1],  # rows and columns do not separate
]


@pytest.mark.parametrize("function", STAY)
def test_other_sums_do_not_become_products(function: Function) -> None:
    x = noise(1, 3, 6, 6)
    for engine in ENGINES:
        assert "MatMul" not in rewritten(function, x, engine=engine)
    check(function, x)


def test_weighted_sum_with_reversed_columns_and_negative_weights() -> None:
    def function(x: Any) -> Any:
        return -x[..., [0, 2, 5, 1]] / f(3) + x[..., 3::-1] * np.array([1, -2, 3, 0.5], np.float32)

    x = noise(2, 3, 6)
    for engine in ENGINES:
        assert rewritten(function, x, engine=engine) == ["MatMul"]
    check(function, x)


def test_exact_leaves_out_inexact_rules() -> None:
    x = noise(1, 33, 7, 8)
    for way in WAYS:
        for engine in ENGINES:
            assert not {"MatMul", "Resize"} & set(
                rewritten(way(13, 16, "half_pixel"), x, engine=engine, exact=True)
            )
        check(way(13, 16, "half_pixel"), x, exact=True)


# ------------------------------------------------------------- products, sums, powers

X = noise(2, 5, 6, 7)
C = np.linspace(-2, 3, 5, dtype=np.float32)[:, None, None] + f(0.1)

CHAINS: list[Function] = [
    lambda x: (x - C) / C,
    lambda x: (x - 3) / 7,
    lambda x: x * C + C,
    lambda x: (x * C - C) * f(2) + 1,
    lambda x: ((x - C) / C * C * f(2) + C) / f(0.5),
    lambda x: (x * C[None] + np.float32(1)) * C,
]


@pytest.mark.parametrize("function", CHAINS)
def test_chains_with_constants_become_one_operator(function: Function) -> None:
    assert rewritten(function, X, engine=ORT) == ["BatchNormalization"]
    assert "BatchNormalization" not in rewritten(function, X, engine=OV)
    assert "BatchNormalization" not in rewritten(function, X, engine=ORT, exact=True)
    check(function, X)


APART: list[Function] = [
    lambda x: (x - C[0]) * x,
    lambda x: (x - np.linspace(0, 1, 7, dtype=np.float32)) / f(3),  # by column
    lambda x: np.floor((x - C) / C),  # a step follows
    lambda x: np.where(((x - C) / C + 1) > 1, f(1), x),
    lambda x: (x - f(5000)) / f(3),  # digits would cancel
    lambda x: x[:, :, :2, :2] * C + C,  # small
    lambda x: x[0, 0] * f(3) + f(2),  # no channels
    lambda x: (x * f(3) + f(2)).astype(np.int32),
    lambda x: f(3) / (x * x + 1),
]


@pytest.mark.parametrize("function", APART)
def test_other_chains_stay(function: Function) -> None:
    assert "BatchNormalization" not in rewritten(function, X, engine=ORT)
    check(function, X, engines=[ORT])


@given(
    st.lists(st.tuples(st.sampled_from("+-*/"), st.booleans(), st.integers(0, 99)), min_size=2, max_size=6),
    st.integers(1, 4),
)
@settings(max_examples=40, deadline=None)
def test_random_chains_match_numpy(steps: list[tuple[str, bool, int]], channels: int) -> None:
    def function(x: Any) -> Any:
        for op, scalar, seed in steps:
            c = np.random.default_rng(seed).uniform(0.5, 1.5, 1 if scalar else (channels, 1, 1)).astype(np.float32)
            c = c[0] if scalar else c
            x = x + c if op == "+" else x - c if op == "-" else x * c if op == "*" else x / c
        return x

    x = noise(1, channels, 4, 5)
    assert rewritten(function, x, engine=ORT) == ["BatchNormalization"]
    check(function, x)


def test_quotient_by_constant_becomes_product_unless_a_step_follows() -> None:
    assert rewritten(lambda x: x / f(7), X, engine=ORT) == ["Mul"]
    assert rewritten(lambda x: x / f(7), X, engine=OV) == ["Div"]
    assert rewritten(lambda x: x / f(7), X, engine=ORT, exact=True) == ["Div"]
    assert "Div" in rewritten(lambda x: np.floor(x / f(7)), X, engine=ORT)
    assert "Div" in rewritten(lambda x: (x / f(7)).reshape(-1).argmax(), X, engine=ORT)
    assert "Div" in rewritten(lambda x: x / f(1e-44), X, engine=ORT)
    assert "Div" in rewritten(lambda x: (x / f(7)).astype(np.int64), X, engine=ORT)
    assert "Mul" in rewritten(lambda x: ((x / f(7)) @ noise(7, 3)).argmax(-1), X, engine=ORT)
    check(lambda x: x / f(7), X)


@given(st.integers(-12, 12).filter(bool))
@settings(max_examples=24, deadline=None)
def test_powers_of_quarters_become_square_roots(quarters: int) -> None:
    def function(x: Any) -> Any:
        return (1 + x * x) ** f(quarters / 4)

    for engine in ENGINES:
        assert "Pow" not in rewritten(function, X, engine=engine) or quarters % 4 == 0
    check(function, X)


@pytest.mark.parametrize("power", [0.3, 3.25, -0.1, 7.5])
def test_other_powers_stay(power: float) -> None:
    for engine in ENGINES:
        assert "Pow" in rewritten(lambda x: (1 + x * x) ** f(power), X, engine=engine)
    check(lambda x: (1 + x * x) ** f(power), X)


@pytest.mark.parametrize("shape", [(1, 7, 10, 10), (2, 30, 11, 13), (3, 5, 200), (1, 512, 101)])
@pytest.mark.parametrize("keep", [True, False])
def test_sums_along_outer_axis_become_matmul(shape: tuple[int, ...], keep: bool) -> None:
    x = noise(*shape)
    for function in (lambda x: x.sum(axis=1, keepdims=keep), lambda x: x.mean(axis=1, keepdims=keep)):
        found = rewritten(function, x, engine=ORT)
        assert "MatMul" in found and not {"ReduceSum", "ReduceMean"} & set(found)
        assert "MatMul" not in rewritten(function, x, engine=OV)
        assert "MatMul" not in rewritten(function, x, engine=ORT, exact=True)
        check(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(axis=3),
        lambda x: x.sum(axis=(1, 2)),
        lambda x: x[:, :, :5, :5].sum(axis=1),
        lambda x: x.max(axis=1),
        lambda x: x[:, :1].sum(axis=1),
        lambda x: x.astype(np.int64).sum(axis=1),
    ],
)
def test_other_sums_stay(function: Function) -> None:
    x = noise(2, 3, 12, 12)
    assert "MatMul" not in rewritten(function, x, engine=ORT)
    check(function, x)


def softmax(x: Any, axis: int, keep: bool = True, moved: bool = True) -> Any:
    """Compute softmax by several operators."""

    def wide(v: Any) -> Any:
        return v if keep else np.expand_dims(v, axis)

    e = np.exp(x - wide(x.max(axis=axis, keepdims=keep))) if moved else np.exp(x)
    return e / wide(e.sum(axis=axis, keepdims=keep))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize(("shape", "axis"), [((2, 5, 6, 7), -1), ((3, 5), 1), ((3, 5, 1, 1), 1)])
def test_softmax_along_last_axis(keep: bool, moved: bool, shape: tuple[int, ...], axis: int) -> None:
    x = noise(*shape)

    def function(x: Any) -> Any:
        return softmax(x, axis, keep, moved)

    assert "Softmax" in rewritten(function, x, engine=ORT)
    assert "Softmax" not in rewritten(function, x, engine=OV)
    assert "Softmax" not in rewritten(function, x, engine=ORT, exact=True)
    check(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: softmax(x, 1),  # an inner axis: ONNX Runtime transposes
        lambda x: np.exp(x) / np.exp(x + 1).sum(axis=-1, keepdims=True),
        lambda x: np.exp(x) / np.exp(x).sum(axis=(2, 3), keepdims=True),
        lambda x: np.exp(x) / np.exp(x).max(axis=-1, keepdims=True),
    ],
)
def test_expressions_like_softmax_stay(function: Function) -> None:
    assert "Softmax" not in rewritten(function, X, engine=ORT)
    check(function, X)


def test_softmax_with_other_shift_becomes_softmax() -> None:
    def function(x: Any) -> Any:
        e = np.exp(x - x.max(axis=(2, 3), keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    assert "Softmax" in rewritten(function, X, engine=ORT)
    check(function, X)


@pytest.mark.parametrize("shape", [(1, 400, 2), (3, 70, 1, 2), (250, 2)])
def test_softmax_of_pairs_becomes_exponentials_of_differences(shape: tuple[int, ...]) -> None:
    x = noise(*shape)
    x[..., 0] += np.where(x[..., 0] > 0, 60, 0)  # the second result of such a pair is about 1e-26

    def function(x: Any) -> Any:
        return ops.softmax(x, axis=-1)

    for engine in (ORT, OV):
        assert "Softmax" not in rewritten(function, x, engine=engine)
        assert "Softmax" in rewritten(function, x, engine=engine, exact=True)
        (small,) = run_graph(simplify(traced(function, x), engine), [x], engine)
        np.testing.assert_allclose(small, function(x), 1e-5)
    check(function, x)


@pytest.mark.parametrize("shape", [(1, 400, 3), (1, 199, 2)])
def test_softmax_of_more_values_or_few_pairs_stays(shape: tuple[int, ...]) -> None:
    for engine in (ORT, OV):
        assert rewritten(lambda x: ops.softmax(x, axis=-1), noise(*shape), engine=engine) == ["Softmax"]


def test_norms_become_reduce_l2_on_openvino() -> None:
    assert rewritten(lambda x: np.linalg.norm(x, axis=1, keepdims=True), X, engine=OV) == ["ReduceL2"]
    assert "ReduceL2" not in rewritten(lambda x: np.linalg.norm(x, axis=1), X, engine=OV, exact=True)
    assert "ReduceL2" not in rewritten(lambda x: np.sqrt((x * C).sum(axis=1)), X, engine=OV)
    check(lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), X)


# --------------------------------------------------------------------------- whole


def test_inputs_and_outputs_keep_order_and_types() -> None:
    def function(x: Any, y: Any) -> list[Any]:
        return [y, np.maximum(x, 0) / f(3), x, np.maximum(x, 0)]

    from anylayer.network import TensorType
    from anylayer.tracing import trace

    x, y = noise(1, 2, 3, 4), noise(2, 3, seed=1)
    graph = trace(lambda a: function(*a), [TensorType.of(v.shape, v.dtype) for v in (x, y)])
    for engine in (None, *ENGINES):
        simple = simplify(graph, engine)
        assert [v.name for v in simple.inputs] == [v.name for v in graph.inputs]
        assert [v.type for v in simple.outputs] == [v.type for v in graph.outputs]
        for got, want in zip(run_graph(simple, [x, y], engine or ORT), function(x, y)):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_given_graph_is_not_changed() -> None:
    graph = traced(by_axis(13, 16, "half_pixel"), noise(1, 2, 7, 8))
    before = str(graph)
    for engine in ENGINES:
        simplify(graph, engine)
    assert str(graph) == before


def test_replaced_value_with_other_uses_is_still_computed() -> None:
    from anylayer.network import TensorType
    from anylayer.tracing import trace

    def function(x: Any) -> list[Any]:
        e = np.exp(-x)
        return [1 / (1 + e), e]

    graph = simplify(trace(lambda a: function(a[0]), [TensorType.of(X.shape, X.dtype)]), ORT)
    assert kinds(graph) == ["Exp", "Neg", "Sigmoid"]
    for got, want in zip(run_graph(graph, [X], ORT), function(X)):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_every_rule_has_a_figure() -> None:
    load_rules("optimize")
    measured = [r for r in RULES if r.kind == "faster" or (r.kind == "exact" and r.targets)]
    bare = [r.apply.__name__ for r in measured if not r.figure]
    assert not bare


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("shape", [(7, 9), (3, 20, 30), (1, 2, 3, 7, 9)])
def test_resize_of_two_axes_is_lowered_for_every_rank(shape: tuple[int, ...], mode: Any) -> None:
    def resized(x: Array) -> Array:
        return ops.resize(x, (8, 12), axes=(-2, -1), mode=mode)

    x = noise(*shape)
    assert rewritten(resized, x, engine=OV) == ["Gather" if mode == "nearest" else "MatMul"] * 2
    check(resized, x, engines=[OV])


@pytest.mark.parametrize("target", ["caffe", "ncnn", "openvino", "tensorrt"])
@pytest.mark.parametrize("more", [{"size": 4}, {"size": 3, "bias": -1.0}])
def test_lrn_of_even_size_or_without_a_positive_bias_is_spelled_out(more: Any, target: str) -> None:
    assert "LRN" not in kinds(lowered(traced(lambda x: ops.lrn(x, **more), noise(1, 6, 3, 3)), target))
