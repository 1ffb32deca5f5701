"""Rewrites that are stated as two NumPy functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.network import Array, TensorType
from anylayer.optimize.order import load_rules
from anylayer.optimize.patterns import Pattern
from anylayer.optimize.rules import RULES, Stated
from anylayer.optimize.simplify import simplify
from anylayer.testing import assert_same, run_graph
from anylayer.tracing import trace

from .rewriting import f, kinds, noise, traced

load_rules("optimize")
NUMBERS = [f(v) for v in (0.25, 0.5, 2, -1.5)]
X = noise(2, 3, 4)


def arguments(declared: Stated) -> list[Any]:
    """Return arrays for the parameters of a rewrite, and numbers for which it applies."""
    count = declared.kinds.count("number")
    for candidate in np.array(np.meshgrid(*[NUMBERS] * count)).reshape(count, -1).T if count else [()]:
        numbers = [f(v) for v in candidate]
        if declared.when is None or declared.when(*map(float, numbers)):
            left = iter(numbers)
            return [
                next(left) if kind == "number" else noise(2, 3, 4, seed=i) for i, kind in enumerate(declared.kinds)
            ]
    raise AssertionError("no numbers found for which the rewrite applies")


STATED = [(r.apply.__name__, r.stated) for r in RULES if r.stated is not None]
BEFORES = [pytest.param(d, b, id=f"{n}-{i}") for n, d in STATED for i, b in enumerate(d.befores)]


@pytest.mark.parametrize(("declared", "before"), BEFORES)
def test_both_functions_compute_the_same(declared: Stated, before: Callable[..., Any]) -> None:
    values = arguments(declared)
    arrays = [v for v, kind in zip(values, declared.kinds) if kind == "array"]

    def computed(function: Callable[..., Any]) -> Array:
        def called(xs: list[Any]) -> list[Any]:
            left = iter(xs)
            return [function(*[next(left) if kind == "array" else v for v, kind in zip(values, declared.kinds)])]

        return np.asarray(run(called, arrays))

    assert_same(computed(declared.after), computed(before), "after and before")


def run(function: Callable[[list[Any]], list[Any]], arrays: list[Array]) -> Array:
    """Return what the operators that a function records compute."""
    graph = trace(function, [TensorType.of(x.shape, x.dtype) for x in arrays])
    return run_graph(graph, arrays, "onnxruntime")[0]


def matches(pattern: Pattern, function: Callable[..., Any], *arrays: Array) -> bool:
    """Return whether a pattern matches at the last operator of a traced function."""
    graph = traced(function, *arrays)
    return pattern.match(graph.producers, graph.ops[-1]) is not None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.minimum(f(3) * x + f(1), x),
        lambda x: np.minimum(f(1) + f(3) * x, x),
        lambda x: np.minimum(x, x * f(3) + f(1)),
    ],
)
def test_operands_of_commutative_operators_match_in_any_order(function: Callable[..., Any]) -> None:
    pattern = Pattern.of(lambda x, c: np.minimum(x, x * c + 1), ("array", "number"))
    assert matches(pattern, function, X)


def test_comparison_matches_with_swapped_operands() -> None:
    pattern = Pattern.of(lambda x: np.where(x > 0, x, f(0)), ("array",))
    assert matches(pattern, lambda x: np.where(np.less(f(0), x), x, f(0)), X)
    assert not matches(pattern, lambda x: np.where(np.less(x, f(0)), x, f(0)), X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.minimum(x, x * f(3) + f(2)),
        lambda x: np.minimum(x, x * f(3) - f(1)),
        lambda x: np.minimum(x, np.abs(x) * f(3) + f(1)),
        lambda x: np.minimum(x, x * np.array([1, 2, 3, 4], np.float32) + f(1)),
        lambda x: np.minimum(x[:, :1], x * f(3) + f(1)),
    ],
)
def test_other_operators_and_constants_do_not_match(function: Callable[..., Any]) -> None:
    pattern = Pattern.of(lambda x, c: np.minimum(x, x * c + 1), ("array", "number"))
    assert not matches(pattern, function, X)


def test_float64_does_not_match() -> None:
    pattern = Pattern.of(lambda x: np.maximum(x, 0), ("array",))
    assert matches(pattern, lambda x: np.maximum(x, 0), X)
    assert not matches(pattern, lambda x: np.maximum(x, 0), X.astype(np.float64))


def test_loose_pattern_matches_inverse_operators() -> None:
    pattern = Pattern.of(lambda x, c, d: np.exp(-x) * c + d, ("array", "number", "number"), loose=True)
    exact = Pattern.of(lambda x, c, d: np.exp(-x) * c + d, ("array", "number", "number"))
    for function in (lambda x: np.exp(-x) / f(4) - f(3), lambda x: f(4) * np.exp(x * f(-1)) - f(3)):
        graph = traced(function, X)
        found = pattern.match(graph.producers, graph.ops[-1])
        assert found is not None
        assert found[2].const == -3
        assert exact.match(graph.producers, graph.ops[-1]) is None


def test_array_constant_matches_any_shape() -> None:
    pattern = Pattern.of(lambda x, s: np.maximum(x, 0) * s, ("array", "constant"))
    assert matches(pattern, lambda x: noise(3, 1) * np.maximum(x, 0), X)
    assert not matches(pattern, lambda x, y: y * np.maximum(x, 0), X, X)


def test_value_with_another_use_is_still_computed() -> None:
    def function(x: Any) -> Any:
        below = np.minimum(x, 0)
        return (ops.relu(x) + f(0.1) * below) * below

    assert kinds(simplify(traced(function, X))) == ["LeakyRelu", "Min", "Mul"]


def test_replacement_keeps_name_place_and_scope() -> None:
    graph = traced(lambda x: np.maximum(x, 0), X)
    graph.ops[0].scope = "node"
    done = simplify(graph)
    assert [(o.op, o.place, o.scope) for o in done.ops] == [("Relu", graph.ops[0].place, "node")]
    assert done.outputs[0].name == graph.outputs[0].name
