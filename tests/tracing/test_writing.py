"""Writes to arrays, views that share the writes, and reshapes that are views or copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.testing import check_function
from anylayer.tracing import trace

X = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
Y = np.arange(12, dtype=np.float32).reshape(3, 4)
CASES: dict[str, Callable[..., Any]] = {}


def case(function: Callable[..., Any]) -> Callable[..., Any]:
    CASES[function.__name__] = function
    return function


@case
def whole(x: Array, y: Array) -> Array:
    o = np.zeros_like(x)
    o[...] = y
    return o


@case
def row_at_a_place_of_data(x: Array, y: Array) -> Any:
    o = x.copy()
    i = y[:, 0].argmax() - 1
    row, column = o[i], o[:, i, 1:]
    row[0] = 5
    column += 2
    o[i, 0, 0] *= 3
    i = y[:, 1].argmin()
    flat = o[0][i].reshape(2, 2).T
    flat[0] = -1
    return o, row.T, column, flat


@case
def box_into_zeros(x: Array, y: Array) -> Array:
    o = np.zeros((4, 5, 6), np.float32, like=x)
    o[1:3, 1:4, 2:] = x
    return o


@case
def box_into_ones_then_another(x: Array, y: Array) -> Array:
    o = np.full((2, 5, 6), 1.5, np.float32, like=x)
    o[:, 1:4, 1:5] = x
    o[1, :2, :2] = y[0, :2]
    return o


@case
def one_axis(x: Array, y: Array) -> Array:
    o = x.copy()
    o[:, 1] = y[0]
    o[:, :, 2:] = 7
    return o


@case
def strides(x: Array, y: Array) -> Array:
    o = np.zeros((2, 6, 8), np.float32, like=x)
    o[:, ::2, ::2] = x
    o[:, 1::2, 1::2] = x * 2
    o[:, 5, ::3] = -1
    o[::-1, 0] = o[:, 1]
    return o


@case
def strides_of_rows(x: Array, y: Array) -> Array:
    o = np.zeros((2, 6, 4), np.float32, like=x)
    o[:, ::2] = x
    o[:, 1::2] = -x
    return o


@case
def index_arrays(x: Array, y: Array) -> Array:
    o = x.copy()
    o[:, [2, 0]] = y[:2]
    o[[0, 1], [1, 1], [2, 3]] = [5, 6]
    o[0, [0, 0, 1], 1] = np.array([1, 2, 3], np.float32)
    o[:, np.array([True, False, True])] *= np.float32(2)
    return o


@case
def repeated_rows_keep_the_last(x: Array, y: Array) -> Array:
    o = y.copy()
    o[[0, 2, 0]] = np.arange(3, dtype=np.float32)[:, None] * y[:1]
    return o


@case
def indices_of_data(x: Array, y: Array) -> Array:
    o = np.zeros_like(y)
    o[np.arange(3), y.argmax(1)] = x[0].max(1)
    o[np.argmin(y[:, 0])] += np.float32(1)
    return o


@case
def one_element(x: Array, y: Array) -> Array:
    o = x.copy()
    o[0, 1, 2] = 3
    o[1, 1, 1] = x[0, 0, 0] * 2
    o[-1, -1, -1] += np.float32(1)
    return o


@case
def a_view_writes_through(x: Array, y: Array) -> Array:
    o = np.zeros_like(x)
    w = o[:, 0]
    w += y[0]
    o.reshape(-1)[3] = 9
    o.T[1, 2] = 5
    np.transpose(o, (1, 0, 2))[2] = 4
    o[0].swapaxes(0, 1)[3] -= np.float32(2)
    np.squeeze(o[:1])[1, 1] = 8
    o[:, None, 1, :2][..., 1] = 6
    return o, w


@case
def a_view_sees_what_is_written(x: Array, y: Array) -> Array:
    o = x.copy()
    w, v = o[:, 1:], o.ravel()
    turned = o.T
    o += np.float32(1)
    o[..., -1] /= np.float32(2)
    return w, v, turned, np.flip(o, 1), o


@case
def a_copy_does_not(x: Array, y: Array) -> Array:
    o = x.copy()
    a, b, c, d = o[[0, 1]], o.flatten(), o.astype(np.float32), o + 0
    o[...] = 1
    a += np.float32(1)
    return a, b, c, d, o


@case
def views_of_views(x: Array, y: Array) -> Array:
    o = x.copy()
    a = o[:, 1:]
    b = a[:, :, ::2]
    c = b.transpose(2, 0, 1)
    c[0] = 1
    a[1] *= np.float32(3)
    return a, b, c, o


@case
def parts_of_a_split(x: Array, y: Array) -> Array:
    o = x.copy()
    left, right = np.split(o, 2, axis=2)
    left += right
    right[...] = 0
    return o, left, right


@case
def reshape_is_a_view(x: Array, y: Array) -> Array:
    o = x.copy()
    flat = o.reshape(6, 4)
    flat[2] = 1
    o[1] = 2
    return o, flat


@case
def reshape_of_a_transposed_array_is_a_copy(x: Array, y: Array) -> Array:
    o = x.copy()
    turned = o.transpose(0, 2, 1).reshape(2, 12)
    turned[:, 0] = 100
    o[0] = -1
    return o, turned


@case
def reshape_of_a_slice_is_a_copy_or_not(x: Array, y: Array) -> Array:
    o = x.copy()
    rows, columns = o[:, :2].reshape(2, 8), o[:1].reshape(12)
    rows[...] = 5
    columns[0] = 6
    split = o[:, :, :2].reshape(2, 3, 2, 1)
    split[..., 0] = 8
    return o, rows, columns, split


@case
def reshape_after_arithmetic_on_a_transposed_array(x: Array, y: Array) -> Array:
    turned = x.transpose(0, 2, 1) * np.float32(2)  # NumPy keeps the memory layout
    flat = turned.reshape(2, 12)
    flat[:, 3] = 50
    direct = (x[:, ::2] + np.float32(1)).reshape(-1)
    direct[0] = 60
    back = turned.transpose(0, 2, 1).reshape(24)
    back[1] = 70
    return turned, flat, direct, back


@case
def reshape_of_what_index_arrays_gave(x: Array, y: Array) -> Array:
    a, b, c = x[:, [2, 0]], x[[1, 0]], x[:, [0, 1], [2, 3]] * np.float32(2)
    p, q, r = a.reshape(-1), b.reshape(-1), c.reshape(-1)
    p[0], q[0], r[0] = 100, 200, 300
    return a, b, c, p, q, r


@case
def ravel_of_a_copy_in_other_order(x: Array, y: Array) -> Array:
    a, b = np.copy(x.T), x.T.copy()
    p, q = a.ravel(), b.ravel()
    p[0], q[0] = 10, 20
    c = np.ascontiguousarray(x.T, like=x)
    r = c.ravel()
    r[0] = 30
    return a, b, c, p, q, r


@case
def copies_in_fortran_order(x: Array, y: Array) -> Array:
    """Write to reshapes: that of an array in F order is a copy, so that the array stays."""
    arrays = [
        np.array(x, order="F", like=x),
        np.asarray(x, order="F", like=x),
        np.asfortranarray(x, like=x),
        x.copy(order="F"),
        x.astype(np.float32, order="F"),
        np.array(x.T, like=x),
        np.asarray(x.T, like=x),
        np.copy(x, order="F"),
        np.full_like(x, 2, order="F"),
        np.zeros_like(x.T),
        np.ones_like(x.T, order="C"),
        np.zeros((3, 4), np.float32, order="F", like=x),
        np.eye(3, order="F", like=x),
        np.asfortranarray(np.array(x, order="F", like=x), like=x),
        np.ascontiguousarray(x.T, like=x),
        np.asarray(x.copy(), order="C", like=x),
    ]
    for i, a in enumerate(arrays):
        a.reshape(-1)[::3] = i
    return tuple(arrays)


@case
def asarray_returns_the_array_itself_where_it_has_the_order(x: Array, y: Array) -> Array:
    o = x.copy()
    turned = o.T
    np.asarray(turned, order="F", like=x)[0] = 1
    np.asarray(turned, order="C", like=x)[1] = 2
    np.asfortranarray(o[0, 0], like=x)[1] = 3
    turned.astype(np.float32, copy=False)[2] = 4
    turned.astype(np.float32, copy=False, order="C")[3] = 5
    return o


@case
def order_of_the_memory(x: Array, y: Array) -> Array:
    """Reshape by order "A", which is F order where the elements lie in F order."""
    f = np.array(x, order="F", like=x)
    return f.reshape(-1, order="A"), x.T.reshape((6, 4), order="A"), x.reshape(-1, order="A"), f.ravel("A")


@case
def outs(x: Array, y: Array) -> Array:
    o = np.zeros_like(x)
    np.add(x, y, out=o)
    np.maximum(o[:, 0], 0, out=o[:, 0])
    np.divide(x, 3.0, where=x > 0, out=o)
    total = np.zeros_like(y)
    np.sum(x, axis=0, out=total)
    r = np.exp(x, out=np.zeros_like(x))
    return o, total, r


@case
def in_place_operators(x: Array, y: Array) -> Array:
    o = x.copy()
    same = o
    o += y
    o -= np.float32(1)
    o *= 2
    o /= np.float32(3)
    o **= 2
    o //= np.float32(0.5)
    o %= np.float32(0.7)
    k = (o > 0.2).astype(np.int32)
    k += 3
    k <<= 1
    k &= 6
    k |= 1
    k ^= 3
    return same, k


@case
def scalars_never_change(x: Array, y: Array) -> Array:
    s = x.sum()
    t = s
    s += np.float32(1)
    a = x[0, 0, 0]
    b = a
    b *= np.float32(2)
    zero = x[0, 0, 0, ...]
    one = zero
    zero = zero.copy()
    zero += np.float32(1)
    return s, t, a, b, zero, one


@case
def accumulating(x: Array, y: Array) -> Array:
    acc = np.zeros_like(y)
    for part in x:
        acc += part
    best = np.full_like(y, -np.inf)
    for part in x:
        best = np.maximum(best, part)
    return acc, best


@case
def methods_in_place(x: Array, y: Array) -> Array:
    o = x.copy()
    o.sort(axis=1)
    p = y.copy()
    p.fill(3)
    p[1].fill(4)
    q = y.copy()
    q.flat[5] = 50
    q.flat[[0, 2]] = x[0, 0, :2]
    q.T.flat[1] = 60
    r = y.copy()
    r.put([1, 3], [7, 8])
    np.put(r, 0, -1)
    s = x.copy()
    s.partition(1, axis=1)
    t = y.copy()
    t.flat = 5
    return o, p, q, r, np.sort(s, axis=1), t


@case
def functions_in_place(x: Array, y: Array) -> Array:
    o = x.copy()
    np.copyto(o[:, 0], y[0])
    np.copyto(o, 3, where=x > 1)
    p = y.copy()
    np.put_along_axis(p, p.argmax(1)[:, None], 0, 1)
    np.put_along_axis(p, np.array([[0], [1], [2]]), -5, axis=1)
    q = y.copy()
    np.fill_diagonal(q, -1)
    np.putmask(q, q > 8, 0)
    np.place(q, y == 2, 20)
    r = np.zeros_like(y)
    np.add.at(r, np.array([0, 0, 2]), x[0])
    np.subtract.at(r, (slice(None), 1), 1)
    np.maximum.at(r, (y[:, 0].astype(np.int64) % 3, np.array([1, 1, 2])), x[1, :, 0])
    return o, p, q, r


@case
def masks(x: Array, y: Array) -> Array:
    o = x.copy()
    o[x < 0] *= np.float32(0.1)
    p = x.copy()
    m = p > 0
    p[m] = np.sqrt(p[m]) * 2 + p[m]
    p[~m] = 0
    q = y.copy()
    q[q > 5] = 5
    q[q[:, 0] > 3] = y[0]
    q[:, q[0] > 1] -= np.float32(1)
    q[..., y[2] > 9] = 2
    return o, p, q


@case
def reductions_of_masked(x: Array, y: Array) -> Array:
    m = x > 0
    s = x[m]
    return (
        s.sum(),
        s.mean(),
        s.max(),
        np.min(x[~m]),
        np.sum(x[m] * 2),
        (s > 1).any(),
        np.all(s > 0),
        s.prod(),
        y[y > 2].min(),
    )


@case
def reductions_along_the_selected_axis(x: Array, y: Array) -> Array:
    rows, middle = y[:, 0] > -9, x[0] > -9
    return (
        y[rows].sum(0),
        np.mean(y[rows], axis=0),
        y[y[:, 1] > 0].sum(axis=-2),
        np.sum(y[y[:, 1] > 0], 0),
        y[:, y[0] > -9].max(axis=1),
        x[:, middle].min(axis=(1,)),
        (x[x[:, 0, 0] > 0] > 0).any(axis=0),
        x[x > 0].sum(axis=0),
    )


@case
def masked_elsewhere(x: Array, y: Array) -> Array:
    m = x > 0.5
    o = np.zeros_like(x)
    o[m] = x[m].clip(0, 1).astype(np.float64) / 3
    o[m] += np.abs(-x[m]) + x[m].copy()
    return o


@case
def lists_are_assigned(x: Array, y: Array) -> Array:
    o = y.copy()
    o[0] = [1, 2, 3, 4]
    o[1] = [y[0, 0], y[0, 1], x[0, 0, 0], x[0, 0, 1]]
    o[2, :2] = (x[0, 0, 0], 5)
    return o


@case
def arrays_made_of_lists(x: Array, y: Array) -> Array:
    o = np.array([1, 2, 3], like=x) * x[..., :3]
    p = np.asarray([y[0], y[1]], like=x)
    q = np.array([[x[0, 0, 0], 1.0], [2.0, x[0, 0, 1]]], np.float32, like=x)
    r = np.ascontiguousarray([1.0, 2.0], like=x)
    r[0] = x[0, 0, 0]
    return o, p, q, r


@pytest.mark.parametrize("name", CASES)
def test_program_matches_numpy(name: str) -> None:
    with np.errstate(all="ignore"):
        check_function(CASES[name], X, Y, engines=["onnxruntime"])


def test_programs_match_numpy_on_openvino() -> None:
    names = [n for n in CASES if n != "in_place_operators"]  # a different last bit changes its % and //

    def all_of_them(x: Array, y: Array) -> Array:
        results: list[Any] = []
        for name in names:
            found = CASES[name](x, y)
            results.extend(found if isinstance(found, tuple) else [found])
        return results

    with np.errstate(all="ignore"):
        check_function(all_of_them, X, Y, engines=["openvino"])


def _ops(function: Any) -> list[str]:
    def listed(arrays: list[Array]) -> list[Array]:
        return [function(*arrays)]

    return [o.op for o in trace(listed, [TensorType.of(X.shape), TensorType.of(Y.shape)]).ops]


def test_cheapest_operators_are_recorded() -> None:
    assert _ops(CASES["box_into_zeros"]) == ["Pad"]
    assert _ops(CASES["whole"]) == ["Expand"]

    def column(x: Array, y: Array) -> Array:
        o = x.copy()
        o[:, :, 2:] = y[:, :2]
        return o

    assert _ops(column) == ["Slice", "Expand", "Slice", "Concat"]

    def box(x: Array, y: Array) -> Array:
        o = x.copy()
        o[:, 1:, 2:] = y[:2, :2]
        return o

    assert _ops(box) == ["Slice", "Expand", "Pad", "Where"]
    assert _ops(lambda x, y: x[:, [0, 2], ::2]) == ["Slice"]
    assert _ops(lambda x, y: x[:, np.array([0, 2, 1])[:, None], [3, 0, 0]]) == ["Gather", "Gather"]
    assert _ops(lambda x, y: np.argsort(-x, 2, kind="stable")[..., :2]) == ["Neg", "TopK"]
    assert _ops(lambda x, y: x.reshape(6, 4).reshape(-1).reshape(x.shape)) == []
    assert _ops(lambda x, y: x[:, :, None].transpose(0, 2, 1, 3)) == ["Reshape"]


def test_write_to_an_input_is_noted() -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        x = arrays[0]
        x[0] = 0
        return [x]

    graph = trace(forward, [TensorType.of((2, 3))])
    (note,) = graph.notes
    assert note.startswith("test_writing.py:") and "input 0 is written to; in NumPy, that changes the blob" in note
    assert "write to a .copy() of it" in note


def test_write_to_a_view_of_an_input_is_noted() -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        arrays[1].reshape(-1)[1:2] += np.float32(1)
        return [arrays[1] * arrays[0]]

    graph = trace(forward, [TensorType.of((2, 3))] * 2)
    assert any("input 1 is written to" in n for n in graph.notes)


def test_write_to_a_read_only_view_raises_value_error() -> None:
    for make in (
        lambda x: np.broadcast_to(x, (2, 2, 3)),
        lambda x: np.diagonal(x),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
    ):

        def forward(arrays: list[Array], make: Any = make) -> Any:
            make(arrays[0].copy())[0] = 1
            return arrays

        with pytest.raises(ValueError, match="read-only"):
            forward([np.zeros((2, 3))])
        with pytest.raises(ValueError, match="read-only"):
            trace(forward, [TensorType.of((2, 3))])


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("o[0] = y.T", ValueError),
        ("o[:, :5] = np.ones(5)", ValueError),
        ("o[7] = 1", IndexError),
        ("o.sum()[...] = 1", TypeError),
        ("k += 1.5", TypeError),
        ("k += np.float32(1)", TypeError),
        ("np.add(x, x, out=o[0])", ValueError),
        ("u[0] = 300", OverflowError),
    ],
)
def test_invalid_writes_raise_the_errors_of_numpy(statement: str, error: type[Exception]) -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        x, y = arrays
        names = {"np": np, "x": x, "y": y, "o": x.copy(), "k": x.astype(np.int32), "u": x.astype(np.uint8)}
        exec(statement, names)
        return [names["o"]]

    with pytest.raises(error):
        forward([X, Y])
    with pytest.raises(error):
        trace(forward, [TensorType.of(X.shape), TensorType.of(Y.shape)])


def test_constant_changed_after_its_use_is_refused() -> None:
    from anylayer.errors import TraceError

    buffer = np.zeros(5000, np.float32)

    def forward(arrays: list[Array]) -> list[Array]:
        first = arrays[0] + buffer
        buffer[0] += 1
        return [first + buffer]

    with pytest.raises(TraceError, match=r"float32\[5000\] is changed after traced arrays have used it"):
        trace(forward, [TensorType.of((5000,))])
    small = np.zeros(5, np.float32)

    def small_forward(arrays: list[Array]) -> list[Array]:
        first = arrays[0] + small
        small[0] += 1
        return [first + small]

    graph = trace(small_forward, [TensorType.of((5,))])
    assert isinstance(graph, Graph) and len({id(o.inputs[1]) for o in graph.ops}) == 2
