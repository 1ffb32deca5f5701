"""Facts about operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anylayer import ops
from anylayer.graph import Dim, Graph, Op, Value
from anylayer.graph.facts import (
    AxisCut,
    Padding,
    Window,
    gathered,
    integers,
    is_number,
    number,
    padding_of,
    per_channel,
    producer,
    reduced_axes,
    shifted_exponential,
    slice_cuts,
    values_before,
    window_of,
)
from anylayer.network import TensorType
from anylayer.tracing import trace

F4 = np.dtype(np.float32)


def operator(op: str, shape: tuple[Any, ...], *constants: Any, **attrs: Any) -> Op:
    """Return an operator of an input with this shape and of constants; None is an absent input."""
    graph = Graph()
    x = graph.input("x", shape, F4)
    inputs = [c if isinstance(c, Value) or c is None else graph.constant(np.asarray(c)) for c in constants]
    graph.emit(op, [x, *inputs], [(shape, F4)], attrs, place="")
    return graph.ops[-1]


def traced(function: Any, *shapes: tuple[int, ...]) -> Graph:
    """Return the graph of a function of float32 arrays."""
    return trace(lambda xs: [function(*xs)], [TensorType(s, F4) for s in shapes])


def computed(dtype: Any = np.int64) -> Value:
    """Return a value that is not a constant."""
    return Value("computed", (1,), np.dtype(dtype))


def test_producer_is_found_by_operator() -> None:
    graph = traced(lambda x: np.exp(x), (2,))
    out = graph.outputs[0]
    assert producer(graph.producers, out) is graph.ops[0]
    assert producer(graph.producers, out, "Exp") is graph.ops[0]
    assert producer(graph.producers, out, "Log") is None
    assert producer(graph.producers, graph.inputs[0]) is None
    assert producer(graph.producers, None) is None
    graph.ops[0].domain = "mine"
    assert producer(graph.producers, out) is None


def test_numbers_and_integers_are_read_from_constants() -> None:
    graph = Graph()
    assert number(graph.constant(np.array([[2]], np.int64))) == 2
    assert number(graph.constant(np.array([1, 2]))) is None
    assert number(computed()) is None
    assert is_number(graph.constant(np.float32(0.1)), 0.1)
    assert not is_number(graph.constant(np.float32(0.1001)), 0.1)
    assert integers(graph.constant(np.array([[1, 2]], np.int32))) == [1, 2]
    assert integers(graph.constant(np.float32(1))) is None


@pytest.mark.parametrize(
    ("constant", "want"),
    [
        (np.full((1, 3, 1, 1), 2), [2, 2, 2]),
        (np.array(2), [2, 2, 2]),
        (np.array([[[1]], [[2]], [[3]]]), [1, 2, 3]),
        (np.array([1, 2, 3]), None),
        (np.ones((1, 1, 1, 1, 1)), None),
        (np.ones((2, 1, 1, 1)), None),
    ],
)
def test_constant_per_channel(constant: Any, want: list[float] | None) -> None:
    found = per_channel(Graph().constant(constant.astype(np.float32)), (1, 3, 4, 4))
    assert (None if found is None else found.tolist()) == want


@given(
    st.integers(1, 6),
    st.integers(-9, 9),
    st.integers(-9, 9) | st.sampled_from([-(2**31), 2**31]),
    st.integers(-4, 4).filter(bool),
)
def test_cut_selects_what_numpy_selects(size: int, start: int, end: int, step: int) -> None:
    x = np.arange(size)
    (cut,) = slice_cuts(operator("Slice", (2, size), [start], [end], [-1], [step])) or []
    assert cut.axis == 1
    assert [*cut.indices] == x[start:end:step].tolist()


def test_cuts_with_default_axes_and_steps() -> None:
    assert slice_cuts(operator("Slice", (4, 5), [1, 0], [3, 9])) == [AxisCut(0, 1, 3, 1), AxisCut(1, 0, 5, 1)]


def test_cuts_are_not_known_for_computed_bounds_and_dynamic_sizes() -> None:
    assert slice_cuts(operator("Slice", (4, 5), computed(), [3], [0], [1])) is None
    assert slice_cuts(operator("Slice", (4, 5), [1], [3], computed(), [1])) is None
    assert slice_cuts(operator("Slice", (Dim("n", 9), 5), [1], [3], [0])) is None
    assert slice_cuts(operator("Slice", (Dim("n", 9), 5), [1], [3], [1])) == [AxisCut(1, 1, 3, 1)]


def test_gathered_indices_count_from_the_front() -> None:
    axis, indices = gathered(operator("Gather", (2, 5), [-1, 0], axis=-1)) or (None, np.zeros(0))
    assert axis == 1
    assert indices.tolist() == [4, 0]
    assert gathered(operator("Gather", (2, 5), [[0]], axis=1)) is None
    assert gathered(operator("Slice", (2, 5), [0], [1])) is None


@pytest.mark.parametrize(
    ("op", "want"),
    [
        (operator("ReduceSum", (2, 3, 4), [-1, 0]), [2, 0]),
        (operator("ReduceMax", (2, 3, 4), [-2]), [1]),
        (operator("ReduceSum", (2, 3, 4)), [0, 1, 2]),
        (operator("ReduceSum", (2, 3, 4), np.zeros(0, np.int64)), [0, 1, 2]),
        (operator("ReduceSum", (2, 3, 4), noop_with_empty_axes=1), None),
        (operator("ReduceSum", (2, 3, 4), computed()), None),
    ],
)
def test_reduced_axes_count_from_the_front(op: Op, want: list[int] | None) -> None:
    assert reduced_axes(op) == want


@pytest.mark.parametrize(
    ("op", "want"),
    [
        (operator("Pad", (2, 3), [1, 2, 3, 4]), Padding([1, 2], [3, 4], 0)),
        (operator("Pad", (2, 3), [1, 2], np.float32(5), [-1]), Padding([0, 1], [0, 2], 5)),
        (operator("Pad", (2, 3), [1, 2], None, [0]), Padding([1, 0], [2, 0], 0)),
        (operator("Pad", (2, 3), computed()), None),
        (operator("Pad", (2, 3), [1, 2, 3, 4], computed(F4)), None),
        (operator("Pad", (2, 3), [1, 2], None, computed()), None),
    ],
)
def test_padding_is_read_from_pad_operators(op: Op, want: Padding | None) -> None:
    assert padding_of(op) == want


def test_windows_are_read_from_convolutions_and_pooling() -> None:
    conv = traced(
        lambda x: ops.conv(x, np.ones((4, 3, 2, 3), np.float32), strides=2, pads=(1, 0, 2, 0)), (1, 3, 8, 8)
    ).ops[-1]
    assert window_of(conv) == Window([2, 3], [2, 2], [1, 1], [1, 0], [2, 0])
    pool = operator("MaxPool", (1, 3, 8, 8), kernel_shape=[3, 3], dilations=[2, 1])
    windows = window_of(pool)
    assert windows == Window([3, 3], [1, 1], [2, 1], [0, 0], [0, 0])
    assert windows.extents == [5, 3]
    assert windows.pads == [0, 0, 0, 0]
    assert window_of(operator("GlobalAveragePool", (1, 3, 8, 9))) == Window([8, 9], [1, 1], [1, 1], [0, 0], [0, 0])
    assert window_of(operator("MaxPool", (1, 3, 8, 8), kernel_shape=[2, 2], auto_pad="SAME_UPPER")) is None


def test_shifted_exponential_needs_the_maximum_of_the_same_value() -> None:
    graph = traced(lambda x: np.exp(x - x.max(axis=-1, keepdims=True)), (2, 3))
    assert shifted_exponential(graph.producers, graph.outputs[0]) == (graph.inputs[0], [1])
    graph = traced(lambda x, y: np.exp(x - y.max(axis=-1, keepdims=True)), (2, 3), (2, 3))
    assert shifted_exponential(graph.producers, graph.outputs[0]) is None


def test_values_before_ends_are_found() -> None:
    graph = traced(lambda x, y: np.floor(np.exp(x) @ y) + np.log(x), (2, 3), (3, 3))
    names = {o.op: o.outputs[0] for o in graph.ops}

    def before(*through: str) -> set[Value]:
        return values_before(graph.ops, lambda o: o.op == "Floor", lambda o: o.op in through)

    assert before() == {names["MatMul"]}
    assert before("MatMul") == {names["MatMul"], names["Exp"], graph.inputs[1]}
    assert before("MatMul", "Exp") == {names["MatMul"], names["Exp"], *graph.inputs}
    assert values_before(graph.ops, lambda o: o.op == "Floor", lambda o: True, kind="i") == set()
