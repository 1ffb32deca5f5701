"""Layout propagation: a channels-last network keeps one Transpose at each end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anylayer import ops
from anylayer.graph import Graph
from anylayer.optimize.layout import propagate_layouts
from anylayer.optimize.simplify import simplify
from anylayer.testing import assert_same, run_graph

from .rewriting import ENGINES, Function, f, kinds, noise, traced

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def conv(x: Any, w: Any, **how: Any) -> Any:
    """Convolve a channels-last array."""
    return ops.conv(x.transpose(FIRST), w, **how).transpose(LAST)


def transposes(graph: Graph) -> int:
    """Return the number of Transposes."""
    return kinds(graph).count("Transpose")


def transposes_left(function: Function, *inputs: Any, exact: bool = False) -> int:
    """Return the number of Transposes that are left, after comparing each engine with NumPy."""
    want = np.asarray(function(*inputs))
    graph = traced(function, *inputs)
    for engine in ENGINES:
        got = run_graph(simplify(graph, engine, exact=exact), inputs, engine)[0]
        if exact:
            np.testing.assert_array_equal(got, want, err_msg=engine)
        else:
            assert_same(got, want, engine)
    return transposes(simplify(graph, exact=exact))


def around(inner: Function, *, channels: int = 4, keep: bool = True) -> Function:
    """Return `inner`, a function of a channels-last array, between two convolutions."""
    w1, w2 = noise(channels, 3, 1, 1, seed=1), noise(2, channels, 1, 1, seed=2)

    def function(x: Any) -> Any:
        y = inner(conv(x, w1))
        return conv(y, w2) if keep else y

    return function


def _shuffled(y: Any) -> Any:
    """Interleave the two halves of the channels."""
    return y.reshape(*y.shape[:3], 2, -1).swapaxes(3, 4).reshape(y.shape)


IMAGE = noise(2, 6, 5, 3)
TALL = noise(4, seed=3)


@pytest.mark.parametrize(
    "inner",
    [
        lambda y: y * TALL + f(1),
        lambda y: np.clip(y, 0, 6),
        lambda y: y * np.clip(y + f(3), 0, 6) / f(6),
        lambda y: np.where(y > TALL, y, y * TALL),
        lambda y: y + noise(6, 5, 1),
        lambda y: y * noise(6, 1, 4),
        lambda y: y - y.mean((1, 2), keepdims=True),
        lambda y: y * ops.sigmoid(y.mean((1, 2)).reshape(-1, 1, 1, 4)),
        lambda y: y / (y * y).sum(-1, keepdims=True),
        lambda y: np.concatenate([y, noise(2, 6, 5, 2)], axis=-1)[..., 1:5],
        lambda y: np.concatenate(np.split(y, 2, axis=3)[::-1], axis=3),
        lambda y: y[:, ::-1, 1:, ::2].repeat(2, axis=3),
        lambda y: np.pad(y, ((0, 0), (1, 2), (0, 1), (0, 0)), constant_values=f(2)),
        lambda y: np.pad(y, ((0, 0), (1, 2), (0, 1), (0, 0)), mode="reflect"),
        lambda y: y[:, :, :, [2, 0, 3, 1]],
        lambda y: np.broadcast_to(y.mean((1, 2), keepdims=True), y.shape),
        lambda y: np.tile(y, (1, 2, 1, 1)),
        lambda y: np.cumsum(y, axis=3),
        lambda y: y * (y == y.max(-1, keepdims=True)),
        lambda y: y.repeat(2, axis=1).repeat(2, axis=2),
        lambda y: ops.batch_normalization(y.transpose(FIRST), TALL, TALL, TALL, TALL**2).transpose(LAST),
        lambda y: ops.max_pool(y.transpose(FIRST), 2).transpose(LAST),
        lambda y: ops.resize(y.transpose(FIRST), (12, 10), mode="nearest").transpose(LAST),
        lambda y: y.reshape(2, 30, 4).max(1).reshape(2, 1, 1, 4) + y,
        lambda y: y.reshape(2, 6, 5, 2, 2).max(3).repeat(2, axis=3),
        lambda y: ops.dequantize_linear(ops.quantize_linear(y, f(0.5)), f(0.5)),
        lambda y: ops.dequantize_linear(ops.quantize_linear(y, TALL**2 + f(1), axis=3), TALL**2 + f(1), axis=-1),
        lambda y: (y.reshape(2, 30, 4) * TALL).reshape(2, 6, 5, 4),
    ],
)
def test_one_transpose_is_left_at_each_end(inner: Function) -> None:
    assert transposes_left(around(inner), IMAGE) == 2


@pytest.mark.parametrize(
    "inner",
    [
        lambda y: np.concatenate([_shuffled(y), _shuffled(y)], axis=3)[..., 2:6],
        lambda y: np.concatenate([_shuffled(y), y], axis=3)[..., 2:6],
    ],
)
def test_concat_of_shuffled_channels_adds_one_transpose(inner: Function) -> None:
    """One Transpose is left at each end, and one shuffles the channels."""
    assert transposes_left(around(inner), IMAGE) == 3


@pytest.mark.parametrize(
    "inner",
    [
        lambda y: y.reshape(2, -1) @ noise(120, 7),
        lambda y: np.maximum(y.reshape(2, -1), 0) @ noise(120, 7),
        lambda y: ops.gemm(y.reshape(2, -1), noise(7, 120), noise(7), trans_b=True),
        lambda y: y.mean((1, 2)) @ noise(4, 7),
        lambda y: y.max((1, 2)),
    ],
)
def test_one_transpose_is_left_before_dense_layer(inner: Function) -> None:
    assert transposes_left(around(inner, keep=False), IMAGE) == 1


def test_large_weights_are_not_permuted() -> None:
    few, many = np.zeros((2048, 1024), np.float32), np.zeros((2048, 5000), np.float32)
    for weights, count in ((few, 1), (many, 2)):
        graph = simplify(traced(lambda x, w=weights: around(np.tanh)(x).reshape(1, -1) @ w, noise(1, 32, 32, 3)))
        assert transposes(graph) == count
        product = next(o for o in graph.ops if o.op == "MatMul")
        assert product.inputs[1] is not None
        assert (product.inputs[1].const is weights) == (count == 2)


def test_pad_of_input_is_folded_into_conv() -> None:
    w = noise(4, 3, 3, 3)

    def function(x: Any) -> Any:
        return conv(np.pad(x, ((0, 0), (1, 2), (3, 0), (0, 0))), w)

    assert transposes_left(function, IMAGE) == 2
    assert kinds(simplify(traced(function, IMAGE))) == ["Conv", "Transpose", "Transpose"]


def test_pad_with_other_uses_stays() -> None:
    def function(x: Any) -> Any:
        y = np.pad(x, ((0, 0), (1, 2), (3, 0), (0, 0)))
        return np.concatenate([y.reshape(2, -1), ops.softmax(y.transpose(FIRST)).reshape(2, -1)], axis=1)

    assert [o.op for o in simplify(traced(function, IMAGE)).ops].index("Pad") == 0
    assert transposes_left(function, IMAGE) == 1


def test_slice_of_shuffled_channels_adds_one_transpose() -> None:
    def shuffle(y: Any) -> Any:
        return y.reshape(*y.shape[:3], 2, 2).swapaxes(3, 4).reshape(y.shape)[..., 1:]

    w = noise(2, 3, 1, 1)
    assert transposes_left(lambda x: conv(shuffle(around(lambda y: y, keep=False)(x)), w), IMAGE) == 3


def test_maps_of_one_pixel_need_no_transpose() -> None:
    w1, w2 = noise(4, 3, 6, 5), noise(2, 4, 1, 1)

    def function(x: Any) -> Any:
        return ops.sigmoid(conv(ops.relu(conv(x, w1)), w2)).reshape(2, 2)

    assert transposes_left(function, IMAGE) == 1
    found = [o.op for o in simplify(traced(function, IMAGE)).ops]
    assert found == ["Transpose", "Conv", "Relu", "Conv", "Sigmoid", "Reshape"]


def test_softmax_stays_along_innermost_axis() -> None:
    assert transposes_left(around(lambda y: ops.softmax(y), keep=False), IMAGE) == 2


def test_value_with_two_uses_is_transposed_once() -> None:
    def function(x: Any) -> Any:
        y = x.transpose(FIRST)
        return y.transpose(LAST).reshape(2, -1)[:, 1:] + np.flip(y.transpose(0, 2, 3, 1), 1).reshape(2, -1)[:, 1:]

    assert transposes_left(function, IMAGE, exact=True) == 0

    def other(x: Any) -> Any:
        y = x.transpose(FIRST)
        return np.concatenate([ops.softmax(y).reshape(2, -1), y.reshape(2, -1)], axis=1)

    assert transposes_left(other, IMAGE) == 1


def test_smaller_operand_is_transposed() -> None:
    big, small = noise(2, 8, 6, 5), noise(1, 6, 5, 1)
    graph = simplify(traced(lambda a, b: np.exp(a.transpose(LAST)) + np.exp(b) * f(2), big, small))
    assert [v.shape for o in graph.ops if o.op == "Transpose" for v in o.outputs] == [(2, 6, 5, 8)]


def test_exact_keeps_order_of_sums() -> None:
    def function(x: Any) -> Any:
        return np.exp(x.transpose(LAST)).sum((1, 2))

    x = noise(2, 3, 4, 5)
    assert kinds(simplify(traced(function, x), exact=True)) == ["Exp", "ReduceSum", "Transpose"]
    assert kinds(simplify(traced(function, x))) == ["Exp", "ReduceSum"]


def test_graph_without_transposes_is_returned() -> None:
    graph = traced(lambda x: x.reshape(2, -1) * f(2), IMAGE)
    assert propagate_layouts(graph) is graph


def test_outputs_keep_their_names() -> None:
    graph = traced(around(lambda y: np.maximum(y, 0)), IMAGE)
    assert [v.name for v in propagate_layouts(graph).outputs] == [v.name for v in graph.outputs]


def after_transpose(op: str, shape: tuple[int, ...], *constants: Any, **attrs: Any) -> Graph:
    """Return a graph of an operator after a Transpose, with constants as its other inputs."""
    graph = Graph()
    x = graph.input("x", (2, 3, 4, 5), np.dtype(np.float32))
    transposed = graph.emit("Transpose", [x], [((2, 4, 5, 3), x.dtype)], {"perm": [0, 2, 3, 1]})
    inputs = [*transposed, *(None if c is None else graph.constant(np.asarray(c)) for c in constants)]
    outputs = graph.emit(op, inputs, [(shape, x.dtype)], attrs)
    graph.outputs = [graph.emit("Neg", outputs, [(shape, x.dtype)])[0]]
    return graph


@pytest.mark.parametrize(
    "graph",
    [
        after_transpose("ReduceMax", (1, 1, 1, 1), np.zeros(0, np.int64)),
        after_transpose("ReduceMax", (1, 1, 1, 1)),
        after_transpose("ReduceMax", (2, 4, 5, 3), np.zeros(0, np.int64), noop_with_empty_axes=1),
        after_transpose("ReduceMin", (2, 4, 1, 3), np.array([-2])),
        after_transpose("ArgMin", (2, 4, 5), axis=-1, keepdims=0),
        after_transpose("Softmax", (2, 4, 5, 3)),
        after_transpose("Split", (2, 4, 5, 2), np.array([2, 1]), axis=-1),
        after_transpose("Pad", (2, 4, 6, 3), np.array([1, 0]), np.float32(3), np.array([2])),
        after_transpose("Pad", (2, 4, 6, 3), np.array([0, 0, 1, 0, 0, 0, 0, 0]), np.float32(3)),
        after_transpose("Slice", (2, 2, 5, 3), np.array([1]), np.array([3]), np.array([-3])),
        after_transpose("Slice", (1, 3, 5, 3), np.array([1, 1]), np.array([2, 9])),
        after_transpose("Expand", (2, 2, 4, 5, 3), np.array([2, 1, 1, 1, 1])),
        after_transpose("Gather", (4, 5, 3), np.int64(1)),
        after_transpose("Resize", (2, 8, 5, 3), None, np.array([1, 2, 1, 1], np.float32), mode="nearest"),
        after_transpose("Resize", (2, 8, 5, 3), None, None, np.array([8]), mode="nearest", axes=[1]),
        after_transpose("CumSum", (2, 4, 5, 3), np.array(-1), reverse=1),
    ],
    ids=lambda g: g.ops[1].op,
)
def test_optional_arguments_of_operators(graph: Graph) -> None:
    if graph.ops[1].op == "ArgMin":
        for o in graph.ops[1:]:
            o.outputs[0].dtype = np.dtype(np.int64)
    if graph.ops[1].op == "Split":
        graph.ops[1].outputs.append(graph.emit("Neg", [graph.inputs[0]], [((2, 4, 5, 1), np.float32)])[0])
        graph.ops.pop()
    x = noise(2, 3, 4, 5)
    want, got = (run_graph(g, [x], "onnxruntime")[0] for g in (graph, propagate_layouts(graph)))
    np.testing.assert_array_equal(got, want)


# ------------------------------------------------------------------------- random graphs

Step = Callable[[Any], Any]


def _transposed(seed: int) -> Step:
    return lambda y: y.transpose(np.random.default_rng(seed).permutation(y.ndim))


def _reshaped(seed: int) -> Step:
    """Return a step that merges two axes, splits one, or inserts one of size 1."""

    def step(y: Any) -> Any:
        random, shape = np.random.default_rng(seed), list(y.shape)
        at = int(random.integers(len(shape)))
        if at and random.random() < 0.5:
            shape[at - 1 : at + 1] = [shape[at - 1] * shape[at]]
        elif shape[at] % 2 == 0 and len(shape) < 6:
            shape[at : at + 1] = [shape[at] // 2, 2] if random.random() < 0.5 else [2, shape[at] // 2]
        else:
            shape.insert(at, 1)
        return y.reshape(shape)

    return step


def _with_constant(seed: int) -> Step:
    """Return a step that combines an array with a constant that broadcasts."""

    def step(y: Any) -> Any:
        random = np.random.default_rng(seed)
        shape = [d if random.random() < 0.6 else 1 for d in y.shape][int(random.integers(y.ndim)) :]
        c = random.integers(-3, 4, shape).astype(np.float32)
        return [y + c, np.maximum(y, c), np.where(c > y, y, c), np.where(y > 0, c, y)][seed % 4]

    return step


def _with_itself(seed: int) -> Step:
    """Return a step that combines an array with another function of it."""

    def step(y: Any) -> Any:
        axis = seed % y.ndim
        return [
            y + np.flip(y, axis),
            y * y.max(axis, keepdims=True),
            np.maximum(y, y.swapaxes(axis, -1))
            if y.shape[axis] == y.shape[-1]
            else y - y.min(axis, keepdims=True),
            np.concatenate([y, y + f(1)], axis),
        ][seed // 7 % 4]

    return step


def _along(seed: int) -> Step:
    def step(y: Any) -> Any:
        axis, size = seed % y.ndim, y.shape[seed % y.ndim]
        key: list[Any] = [slice(None)] * y.ndim
        key[axis] = slice(seed % 2, None) if size > 1 else slice(None)
        widths = [(1, 2) if i == axis else (0, 0) for i in range(y.ndim)]
        return [
            y[tuple(key)],
            np.pad(y, widths, constant_values=f(1)),
            y.take(np.arange(size)[::-1] // 2, axis),
            np.concatenate(np.split(y, [size // 2], axis)[::-1], axis) if size > 1 else y,
            y.max(axis) if y.ndim > 2 else y,
            y.argmax(axis, keepdims=True).astype(np.float32) + y,
        ][seed // 7 % 6]

    return step


KINDS = [_transposed, _transposed, _reshaped, _with_constant, _with_itself, _along]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(KINDS) - 1), st.integers(0, 10_000)), min_size=2, max_size=9),
    st.sampled_from([(2, 3, 4, 4), (1, 4, 2, 6), (4, 6), (2, 1, 3)]),
)
def test_random_graphs_are_exact(steps: list[tuple[int, int]], shape: tuple[int, ...]) -> None:
    """Small integers are exact in every order of summation."""

    def function(x: Any) -> Any:
        y = x
        for kind, seed in steps:
            y = KINDS[kind](seed)(y)
            y = y if y.size < 4000 else y.reshape(-1)[:24].reshape(2, 3, 4)
        return y

    x = np.random.default_rng(0).integers(-2, 3, shape).astype(np.float32)
    graph = traced(function, x)
    done = propagate_layouts(graph, exact=True)
    assert transposes(done) <= transposes(graph) + 2
    np.testing.assert_array_equal(run_graph(done, [x], "onnxruntime")[0], function(x))


# ------------------------------------------------------------------- random networks

LAYERS: list[Callable[[Any, Any, np.random.Generator], Any]] = [
    lambda y, _, r: conv(y, _weights(r, int(r.integers(1, 6)), y.shape[3], 3), pads=1),
    lambda y, _, r: conv(np.pad(y, ((0, 0), (0, 1), (1, 0), (0, 0))), _weights(r, 4, y.shape[3], 2)),
    lambda y, _, r: conv(y, _weights(r, y.shape[3], 1, 3), pads=1, group=y.shape[3]),
    lambda y, _, r: np.clip(y + r.standard_normal(y.shape[3]).astype(np.float32), 0, 6),
    lambda y, _, r: y * np.clip(y + f(3), 0, 6) / f(6),
    lambda y, _, r: ops.batch_normalization(
        y.transpose(FIRST), *(np.abs(r.standard_normal((4, y.shape[3]))).astype(np.float32) + f(0.1))
    ).transpose(LAST),
    lambda y, _, r: (
        y * ops.sigmoid(conv(y.mean((1, 2)).reshape(-1, 1, 1, y.shape[3]), _weights(r, y.shape[3], y.shape[3], 1)))
    ),
    lambda y, old, r: np.concatenate([y, old], axis=3) if old.shape[:3] == y.shape[:3] else y,
    lambda y, old, r: y + old if old.shape == y.shape else y,
    lambda y, _, r: np.concatenate(np.split(y, 2, axis=3)[::-1], axis=-1) if y.shape[3] % 2 == 0 else y,
    lambda y, _, r: ops.max_pool(y.transpose(FIRST), 3, pads=1).transpose(LAST),
    lambda y, _, r: ops.average_pool(y.transpose(FIRST), 2, pads=(0, 0, 1, 1)).transpose(LAST),
    lambda y, _, r: ops.resize(y.transpose(FIRST), (6, 6), mode="nearest").transpose(LAST),
    lambda y, _, r: y.reshape(*y.shape[:3], 2, -1).swapaxes(3, 4).reshape(y.shape) if y.shape[3] % 2 == 0 else y,
    # A threshold above the mean: a channel of equal values differs from its mean by the last bit of the sum.
    lambda y, _, r: np.where(y > y.mean((1, 2), keepdims=True) + f(0.037), y, y * f(0.1)),
]


def _weights(random: np.random.Generator, outputs: int, inputs: int, size: int) -> Any:
    return (random.standard_normal((outputs, inputs, size, size)) / size / inputs**0.5).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(LAYERS) - 1), st.integers(0, 99)), min_size=1, max_size=12),
    st.booleans(),
    st.integers(1, 2),
)
@example([(13, 0), (7, 0)], False, 1)
def test_random_networks_keep_one_transpose_at_each_end(steps: list[tuple[int, int]], dense: bool, n: int) -> None:
    def function(x: Any) -> Any:
        values = [conv(x, _weights(np.random.default_rng(1), 4, 3, 3), pads=1)]
        for kind, seed in steps:
            random = np.random.default_rng(seed)
            values.append(LAYERS[kind](values[-1], values[int(random.integers(len(values)))], random))
        y = conv(values[-1], _weights(np.random.default_rng(2), 5, values[-1].shape[3], 1))
        return y.reshape(n, -1) @ noise(y.size // n, 3) if dense else y

    x = noise(n, 5, 4, 3)
    want = function(x)
    graph = simplify(traced(function, x))
    at_ends = [o for o in graph.ops if o.op == "Transpose" and tuple(o.attrs["perm"]) in (LAST, FIRST)]
    assert len(at_ends) <= (1 if dense else 2)
    assert_same(run_graph(graph, [x], "onnxruntime")[0], want, tolerance=1e-4)
