"""Two traces with different batch sizes make one graph with a symbolic batch size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.compile.batch import with_symbolic_batch
from anylayer.errors import TraceError
from anylayer.graph import Dim, Graph
from anylayer.optimize.layout import propagate_layouts
from anylayer.testing import assert_same, run_graph
from tests.optimize.rewriting import ENGINES, Function, f, kinds, noise, traced

W, W2, DENSE = noise(4, 3, 3, 3), noise(2, 4, 1, 1), noise(4 * 4 * 3, 5)


def unified(function: Function, *shape: int, arranged: bool = False) -> Graph:
    """Return the graph with a symbolic batch, from traces with batch sizes 2 and 3 of this sample shape."""
    first, second = (traced(function, noise(n, *shape)) for n in (2, 3))
    if arranged:
        first, second = propagate_layouts(first), propagate_layouts(second)
    return with_symbolic_batch(first, second)


def runs(function: Function, *shape: int, arranged: bool = False) -> Graph:
    """Check the graph with a symbolic batch at batch sizes 1, 2 and 5; return it."""
    graph = unified(function, *shape, arranged=arranged)
    assert isinstance(graph.inputs[0].shape[0], Dim)
    for engine in ENGINES:
        for n in (1, 2, 5):
            x = noise(n, *shape)
            assert_same(run_graph(graph, [x], engine)[0], np.asarray(function(x)), f"{engine}, {n} samples")
    return graph


def last(x: Any) -> Any:
    """Compute a small channels-last network."""
    y = ops.relu(ops.conv(x.transpose(0, 3, 1, 2), W).transpose(0, 2, 3, 1))
    gate = ops.sigmoid(y.mean((1, 2)).reshape(-1, 1, 1, 4))
    return (y * gate).reshape(y.shape[0], -1) @ DENSE


FUNCTIONS: list[Function] = [
    lambda x: ops.conv(x, W).reshape(x.shape[0], -1),
    lambda x: x.reshape(x.shape[0], 3, 5, 6).mean((2, 3)),
    lambda x: x.reshape(-1, 5) @ noise(5, 2),
    lambda x: x.transpose(2, 3, 0, 1).reshape(6, 5, -1),
    lambda x: x.reshape(-1, 6 * 5).reshape(-1, 3, 6, 5),
    lambda x: x + np.zeros(x.shape, np.float32) + np.arange(5, dtype=np.float32),
    lambda x: np.concatenate([x, np.ones((x.shape[0], 1, 6, 5), np.float32)], axis=1),
    lambda x: np.concatenate([x, x * f(2)], axis=0)[: x.shape[0]],
    lambda x: np.tile(x, (1, 2, 1, 1)),
    lambda x: np.broadcast_to(x.mean((2, 3), keepdims=True), x.shape),
    lambda x: ops.resize(x, (12, 10), mode="nearest"),
    lambda x: np.where(x > 0, x, np.zeros_like(x)),
    lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 0))),
    lambda x: ops.softmax(x.reshape(x.shape[0], -1)),
    lambda x: x.reshape(2 * x.shape[0], -1).max(1),
]
"""Functions of an array (N, 3, 6, 5) that compute the same for each sample, whatever N is."""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_graph_matches_numpy_at_every_batch_size(function: Function) -> None:
    runs(function, 3, 6, 5)


def test_channels_last_network_keeps_one_transpose() -> None:
    graph = runs(last, 6, 5, 3, arranged=True)
    assert kinds(graph).count("Transpose") == 1
    assert "Shape" not in kinds(graph)


def test_shapes_keep_fixed_sizes() -> None:
    graph = unified(lambda x: x.reshape(x.shape[0], -1), 3, 4)
    assert [d if isinstance(d, int) else d.name for d in graph.outputs[0].shape] == ["N", 12]
    target = graph.ops[0].inputs[1]
    assert target is not None
    assert target.const is not None
    assert target.const.tolist() == [0, 12]
    graph = unified(lambda x: x.reshape(-1, 2), 3, 4)
    assert [d if isinstance(d, int) else d.name for d in graph.outputs[0].shape] == ["6*N", 2]


def test_inferred_size_beside_the_batch_stays_inferred() -> None:
    target = unified(lambda x: ops.relu(x).reshape(x.shape[0], -1), 3, 4).ops[1].inputs[1]
    assert target is not None and target.const is not None and target.const.tolist() == [0, 12]


def test_multiple_of_the_batch_divides_back() -> None:
    graph = unified(lambda x: x.reshape(-1, 2), 3, 4)
    assert graph.outputs[0].shape[0] // 6 is graph.inputs[0].shape[0]


def test_input_without_batch_keeps_its_shape() -> None:
    def function(x: Any, c: Any) -> Any:
        return x * c

    graph = with_symbolic_batch(traced(function, noise(2, 3), noise(3)), traced(function, noise(3, 3), noise(3)))
    assert graph.inputs[1].shape == (3,)
    assert len({id(d) for d in (graph.inputs[0].shape[0], graph.outputs[0].shape[0])}) == 1


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda x: x + np.arange(x.shape[0], dtype=np.float32)[:, None],
            "node '' computes something else with batch size 2 than with 3: a constant float32[2, 1] is not the "
            "same for every sample. So the batch cannot be symbolic; give a number",
        ),
        (lambda x: ops.relu(x) if x.shape[0] == 2 else np.exp(x), "operators Relu and Exp"),
        (lambda x: x if x.shape[0] == 2 else np.exp(x), "operators nothing and Exp"),
        (lambda x: ops.leaky_relu(x, 0.1 * x.shape[0]), "LeakyRelu with {'alpha': 0.2}, then with {'alpha':"),
        (lambda x: x * f(x.shape[0]), "a constant float32[] has other values than float32[]"),
        (lambda x: np.concatenate([x] * x.shape[0]), "Concat of 2 arrays, then of 3"),
        (lambda x: np.pad(x, ((0, 1), (0, 0))), "a size is 3, then 4"),
    ],
)
def test_dependence_on_the_batch_size_is_refused(function: Function, text: str) -> None:
    with pytest.raises(TraceError) as caught:
        unified(function, 4)
    assert text in str(caught.value)


def test_traces_with_equal_shapes_are_refused() -> None:
    graph = traced(lambda x: x + f(1), noise(2, 3))
    with pytest.raises(TraceError, match="both traces have the same input shapes"):
        with_symbolic_batch(graph, graph)
