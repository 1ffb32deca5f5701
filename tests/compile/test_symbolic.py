"""Two traces at different sizes make one graph for every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.errors import TraceError
from anylayer.graph import Graph
from anylayer.graph.expressions import symbol
from anylayer.graph.guards import symbolic_trace
from anylayer.graph.symbolic import extreme, new_size
from tests.compile.open_sizes import batches, check_sizes, traces, unified
from tests.optimize.rewriting import Function, kinds, noise

F, linspace = np.float32, np.linspace
"""Functions of NumPy under names of their own."""
W, DENSE, KERNEL = noise(4, 3, 3, 3), noise(4 * 4 * 3, 5), noise(2, 1, 3, 3)


def pinned(size: int) -> np.ndarray[Any, Any]:
    """Return a size as an array that does not keep its expression."""
    return np.frombuffer(np.float32(float.fromhex(float(str(size)).hex())).tobytes(), np.float32)


def unified_batch(function: Function, *shape: int) -> Graph:
    """Return the graph with an open batch, from traces with batch sizes 2 and 3 of this sample shape."""
    return unified(function, ("N", *shape), first={"N": 2}, second={"N": 3})[0]


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
    lambda x: np.concatenate([x, x * np.float32(2)], axis=0)[: x.shape[0]],
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
    batches(function, 3, 6, 5)


SIZED: list[Function] = [
    lambda x: np.tile(DENSE[:2, :3], (x.shape[0], 1)) + x.sum(),
    lambda x: np.tile(DENSE[:1, :1], (x.shape[0], x.shape[1])) + x,
    lambda x: np.tile(np.array([0.5, 1.5], F), (*x.shape, 1)) + x[..., None],
    lambda x: np.tile([F(1), F(2)], x.shape[1] // 2) * x.sum(),
    lambda x: np.tile(DENSE[0], np.array([x.shape[0], 2])) + x.sum(),
    lambda x: np.repeat(DENSE[:2, :3], x.shape[0], axis=1) + x.sum(),
    lambda x: np.repeat(F(5), x.shape[0])[:, None] * x,
    lambda x: np.repeat(np.arange(4), x.shape[1]).astype(F) + x.sum(),
    lambda x: np.repeat(DENSE[:2], [x.shape[0], 3], axis=0) + x.sum(),
    lambda x: np.repeat(x, x.shape[0], axis=1),
    lambda x: np.resize(DENSE[0], x.shape) + x,
    lambda x: np.triu(np.ones((x.shape[1], x.shape[1]), F), 1)[: x.shape[0]] + np.tril(x),
    lambda x: (np.indices(x.shape) * x).sum((1, 2)),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 1).max(-1),
]
"""Functions of an array (H, W) that make arrays of a length that a size says."""


@pytest.mark.parametrize("function", SIZED)
def test_array_has_the_length_of_an_open_size(function: Function) -> None:
    others = [{"H": 1, "W": 2}, {"H": 7, "W": 13}]
    check_sizes(function, ("H", "W"), first={"H": 2, "W": 6}, second={"H": 3, "W": 9}, others=others)


def test_channels_last_network_keeps_one_transpose() -> None:
    graph = batches(last, 6, 5, 3)
    assert kinds(graph).count("Transpose") == 1
    assert "Shape" not in kinds(graph)


def test_shapes_keep_fixed_sizes() -> None:
    graph = unified_batch(lambda x: x.reshape(x.shape[0], -1), 3, 4)
    assert [d if isinstance(d, int) else d.name for d in graph.outputs[0].shape] == ["N", 12]
    target = graph.ops[0].inputs[1]
    assert target is not None
    assert target.const is not None
    assert target.const.tolist() == [0, 12]
    graph = unified_batch(lambda x: x.reshape(-1, 2), 3, 4)
    assert [d if isinstance(d, int) else d.name for d in graph.outputs[0].shape] == ["6*N", 2]


def test_inferred_size_beside_the_batch_stays_inferred() -> None:
    target = unified_batch(lambda x: ops.relu(x).reshape(x.shape[0], -1), 3, 4).ops[1].inputs[1]
    assert target is not None and target.const is not None and target.const.tolist() == [0, 12]


def test_multiple_of_the_batch_divides_back() -> None:
    graph = unified_batch(lambda x: x.reshape(-1, 2), 3, 4)
    assert graph.outputs[0].shape[0] // 6 is graph.inputs[0].shape[0]


def test_input_without_batch_keeps_its_shape() -> None:
    graph, _ = unified(lambda x, c: x * c, ("N", 3), (3,), first={"N": 2}, second={"N": 3})
    assert graph.inputs[1].shape == (3,)
    assert graph.inputs[0].shape[0] is graph.outputs[0].shape[0]


H, W8 = {"H": 6, "W": 9}, {"H": 11, "W": 8}
OTHERS: list[Any] = [{"H": h, "W": w} for h, w in ((3, 2), (7, 5), (8, 16), (13, 11), (40, 33))]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + np.arange(x.shape[0], dtype=np.float32)[:, None],
        lambda x: x * np.linspace(0, 1, x.shape[1]).astype(np.float32),
        lambda x: x[: x.shape[0] // 2 + 1, 1:],
        lambda x: x[::-1, ::2],
        lambda x: x[-1] + x[1],
        lambda x: x.reshape(-1) * np.float32(x.shape[0] * 0.5),
        lambda x: x / (x.shape[0] * x.shape[1]),
        lambda x: x * int(x.shape[1] / 3 + 0.5),
        lambda x: x + max(x.shape) + min(x.shape[0], 7),
        lambda x: np.pad(x, ((0, -x.shape[0] % 4), (1, 0))),
        lambda x: np.pad(x, 1, mode="edge"),
        lambda x: np.concatenate([x, x[:, :2]], axis=1).sum(0),
        lambda x: np.zeros((x.shape[1], x.shape[0]), np.float32) + x.T,
        lambda x: np.repeat(x, 2, axis=0),
        lambda x: np.tile(x, (2, 1)),
        lambda x: x[:, np.arange(x.shape[1])[::-1]],
        lambda x: np.where(np.arange(x.shape[1]) % 2 == 0, x, -x),
        lambda x: np.ceil(x.shape[0] / 4) * x,
        lambda x: x.mean(axis=0, keepdims=True) - x.max(),
        lambda x: ops.resize(x[None, None], (x.shape[0] * 2, x.shape[1] * 2), mode="nearest")[0, 0],
        lambda x: ops.resize(x[None, None], (2 * x.shape[0] - 1, 7), mode="linear", coordinates="align_corners"),
        lambda x: ops.max_pool(x[None, None], 3, strides=2, pads=1, ceil_mode=True)[0, 0],
        lambda x: ops.average_pool(x[None, None], 2, strides=2, ceil_mode=True)[0, 0],
        lambda x: ops.conv(x[None, None], KERNEL, strides=2, pads=[x.shape[0] % 2, 1, 1, 1]),
        lambda x: x[np.arange(4) * x.shape[0] // 4],
        lambda x: x[:, np.clip(np.arange(4), 0, x.shape[1] - 1)],
        lambda x: x * F(x.shape[0]) + linspace(0, 1, x.shape[1]).astype(F),
        lambda x: np.pad(x, ((2, 1), (0, 3)), mode="symmetric"),
        lambda x: np.pad(x, ((0, 5), (4, 0)), mode="wrap"),
        lambda x: np.pad(x, 1, mode="reflect"),
        lambda x: np.eye(x.shape[0], dtype=np.float32) @ x,
        lambda x: np.eye(3, x.shape[0], 1, np.float32) @ x,
        lambda x: np.broadcast_to(np.float32(2), x.shape) * x,
        lambda x: np.broadcast_to(np.arange(4, dtype=F)[:, None], shape=(4, x.shape[0])) @ x,
        lambda x: np.broadcast_arrays(np.float32(2), x)[0] - x,
        lambda x: np.tri(x.shape[0], x.shape[1], -1, np.float32) * x,
    ],
)
def test_graph_matches_numpy_at_sizes_that_were_not_traced(function: Function) -> None:
    check_sizes(function, ("H", "W"), first=H, second=W8, others=OTHERS)


def test_writes_into_new_array_of_open_size() -> None:
    def function(x: Any) -> Any:
        out = np.zeros((x.shape[0] + 2, x.shape[1]), np.float32)
        out[1:-1] = x
        out[0, ::2] = 1
        return out

    check_sizes(function, ("H", "W"), first=H, second=W8, others=OTHERS)


def test_sum_and_multiple_of_names_are_sizes() -> None:
    others: list[Any] = [{"h": 2}, {"h": 5}]
    graph = check_sizes(
        lambda x, y: x.reshape(-1, 4).sum(0) + y[:4],
        ("4*h", 3),
        ("h + 3",),
        first={"h": 3},
        second={"h": 4},
        others=others,
    )
    assert [d.name for d in (graph.inputs[0].shape[0], graph.inputs[1].shape[0])] == ["4*h", "h + 3"]


def test_comparison_of_size_is_guard() -> None:
    def function(x: Any) -> Any:
        return x if x.shape[0] == x.shape[1] - 3 else -x

    assert unified(function, ("H", "W"), first=H, second={"H": 8, "W": 11})[1] == ["H == W - 3"]


def test_least_size_narrows_range() -> None:
    (a, _), ranges = traces(lambda x: x[2:] + (0 if x.shape[0] >= 5 else 1), [("H",)], {"H": 6}, {"H": 9})
    assert a.guards == ()
    assert ranges == {"H": (5, 2**31 - 1)}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: ops.relu(x) if x.shape[0] == 2 else np.exp(x), "operators Relu and Exp"),
        (lambda x: x if x.shape[0] == 2 else np.exp(x), "operators nothing and Exp"),
        (lambda x: ops.leaky_relu(x, 0.1 * x.shape[0]), "LeakyRelu with alpha=0.2, then with alpha="),
        (
            lambda x: x * pinned(x.shape[0]),
            "a constant is [2.0], then [3.0]. It was computed from a size as a plain",
        ),
        (lambda x: np.concatenate([x] * x.shape[0]), "Concat of 2 arrays, then of 3"),
    ],
)
def test_dependence_on_the_batch_size_is_refused(function: Function, text: str) -> None:
    with pytest.raises(TraceError) as caught:
        unified_batch(function, 4)
    assert text in str(caught.value)


def test_loop_over_open_size_records_a_least_size_and_no_conditions() -> None:
    with symbolic_trace({"H": (1, 2**31 - 1)}) as trace:
        height: Any = new_size(40, symbol("H"))
        first = extreme("min", 1, height) - 0
        for i in range(1, 40):
            assert extreme("min", i + 1, height) - extreme("min", i, height) == first
    assert (trace.ranges["H"], list(trace.guards), list(trace.facts)) == ((40, 2**31 - 1), [], [])


def test_conditions_that_differ_in_a_number_are_one_fact() -> None:
    with symbolic_trace({}) as trace:
        cells: Any = new_size(1200, symbol("H") * symbol("W"))
        for i in range(1, 40):
            assert extreme("min", i, cells) == i
        assert [str(f) for f in trace.facts.values()] == ["H*W - 39"]
        assert cells >= 39 and len(trace.guards) == 38
