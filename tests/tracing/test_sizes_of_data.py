"""Slices whose ends depend on data, and results whose sizes depend on data, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import anylayer
from anylayer.errors import AnyLayerError, TraceError
from anylayer.network import Array, TensorType
from anylayer.testing import assert_same, run_graph
from tests.engine_names import GENERAL, program_of

from .test_selections import N, arrays, check_file_with_open_sizes, in_openvino, several, traced

Function = Callable[[Array, Array], Any]
CASES: list[Function] = []


def case(function: Function) -> Function:
    CASES.append(function)
    return function


@case
def slices_to_a_number_of_elements(b: Array, s: Array) -> Any:
    k = (s > 0.3).sum()
    return b[:k], b[k:], s[:k] * 2, s[:k:2], b.T[:, :k], b[:k, 1]


@case
def slices_to_a_place(b: Array, s: Array) -> Any:
    k = np.argmax(s)
    return b[:k], b[k:], s[k : k + 3], s[-k:]


@case
def slices_beyond_both_ends(b: Array, s: Array) -> Any:
    k = np.argmin(s) - 5
    return s[:k], s[k:], s[k:15], s[: 3 * k]


@case
def slices_of_a_selection(b: Array, s: Array) -> Any:
    x = s[s > 0]
    k = (x > 0.5).sum()
    return np.sort(x)[::-1][:k], x[k:], x[: np.argmax(s)], s[len(x) :]


@case
def slices_without_elements(b: Array, s: Array) -> Any:
    x = s[:0]
    return x[np.count_nonzero(x < 0.25) :], b[int(x.sum()) :]


@case
def written_slices(b: Array, s: Array) -> Any:
    k = np.count_nonzero(s > 0.3)
    y, z = np.zeros_like(s), b.copy()
    y[:k] = 1
    y[k:] = s[k:]
    z[: np.argmax(s), 1] = 7
    return y, z


@case
def one_mask_counted_and_selected(b: Array, s: Array) -> Any:
    m = s > 0.3
    k = m.sum()
    return b[m] + b[:k], np.arange(k), np.full(k, 2.5), np.ones((k, 2))


@case
def arrays_as_long_as_a_selection(b: Array, s: Array) -> Any:
    x = b[s > 0]
    y = np.zeros((len(x), 6), np.float32)
    y[:, :4], y[:, 4] = x, s[s > 0]
    return y, np.zeros_like(x), np.full((x.shape[0],), 7, np.int32), np.c_[np.zeros(len(x), np.float32), x]


@case
def joined_selections(b: Array, s: Array) -> Any:
    x = s[s > 0]
    return np.stack([x, x * 2], axis=1), np.r_[x, s[s < 0]], np.vstack([x, x]), np.concatenate([x, x[:2]])


@case
def different_values(b: Array, s: Array) -> Any:
    counted = np.unique((b * 2).astype(np.int64), return_index=True, return_inverse=True, return_counts=True)
    return *counted, np.unique(np.round(s * 2)), *np.unique(s[s > 0].astype(np.int32), return_counts=True)


@case
def most_frequent_value(b: Array, s: Array) -> Any:
    values, counts = np.unique((b * 2).astype(np.int64), return_counts=True)
    return values[np.argmax(counts)], np.unique(np.round(s)).max()


@case
def sets(b: Array, s: Array) -> Any:
    x, y = np.round(s), np.round(b[:, 0])
    return np.union1d(x[:3], x[2:5]), np.setdiff1d(x, y), np.intersect1d(x, np.array([0.0, 1.0], np.float32))


@case
def sets_of_unique_elements_and_of_other_dtypes(b: Array, s: Array) -> Any:
    order = np.argsort(s, kind="stable")
    kept = np.setdiff1d(order, np.array([1, 4]), assume_unique=True)
    return kept, np.intersect1d(order.astype(np.int32), np.array([1, 4], np.int64))


@case
def histograms(b: Array, s: Array) -> Any:
    at = np.abs(s * 3).astype(np.int64)
    few = np.clip(at, 0, 9)
    weighted = np.bincount(few, weights=b[:, 0], minlength=12)
    return (
        np.bincount(at),
        np.bincount(few, minlength=10),
        weighted,
        np.bincount(at[s > 0]),
        np.bincount(at, minlength=np.int64(0)),
    )


@case
def confusion_matrix(b: Array, s: Array) -> Any:
    n = 3
    truth, guess = (np.clip(np.abs(b[:, i] * 2), 0, n - 1).astype(np.int64) for i in (0, 1))
    known = s > 0.3
    return np.bincount(n * truth[known] + guess[known], minlength=n * n).reshape(n, n)


@case
def inserted(b: Array, s: Array) -> Any:
    constant = np.insert(s, 0, 1), np.insert(s, [1, 3, 3], [9, 8, 7]), np.insert(b, 1, 0, axis=1)
    columns = np.insert(b[:2], 1, [[9, 9], [8, 7]], axis=1), np.insert(b[:2], 1, [[9], [8]], axis=1)
    return (
        *constant,
        *columns,
        np.insert(s[s > 0], 0, -1),
        np.insert(b, [0, 4], 5, axis=0),
        np.insert(s, np.argmax(s), -5),
    )


@case
def deleted(b: Array, s: Array) -> Any:
    k = np.argmax(s)
    constant = np.delete(s, [0, -1]), np.delete(b, 1, 1), np.delete(s, slice(2, 5))
    return *constant, np.delete(b, k, axis=0), np.delete(b, np.where(s > 0)[0], axis=0), np.delete(s, s > 0)


@case
def added_at_selected_places(b: Array, s: Array) -> Any:
    at = np.clip(s * 2 + 3, 0, 7).astype(np.int64)
    y, z, w = np.zeros(8, np.float32), np.zeros(8, np.float32), np.ones(8, np.float32)
    np.add.at(y, at[s > 0], s[s > 0])
    np.maximum.at(z, at, s)
    np.minimum.at(w, at[s < 0], s[s < 0])
    return y, z, w


@case
def slice_from_a_number_of_a_selection_that_may_be_empty(b: Array, s: Array) -> Any:
    high = s[s > 1]
    if high.size == 0:
        high = np.zeros(1, s.dtype)
    return s[min(max(int(high.sum()), 0), 4) :]


@case
def number_of_a_selection_on_one_path(b: Array, s: Array) -> Any:
    high = s[s > 0.5]
    if b.sum() > 3:
        n = 7
    else:
        n = min(len(high), 1)
    return np.float32(n), np.array([len(high), n], np.int64)


@case
def number_of_another_selection(b: Array, s: Array) -> Any:
    high = s[s > 0]
    low = high[high < 1]
    if low.size == 0:
        low = np.zeros(1, s.dtype)
    return np.float32(min(len(high), 2)), np.int64(len(high)), low


@case
def question_of_two_selections_joined(b: Array, s: Array) -> Any:
    ends = np.concatenate([s[s > 0.5], s[s < -0.5]])
    inner = ends[np.abs(ends) < 1.5]
    if inner.size == 0:
        return ends, np.zeros(1, s.dtype)
    return ends, inner * 2


@case
def question_of_a_selection_joined_with_rows(b: Array, s: Array) -> Any:
    rows = np.concatenate([b[s > 0.5], b[:2]])
    inner = rows[rows[:, 0] < 1.5]
    if len(inner) == 0:
        return rows, rows[:, 1]
    return rows, inner[:, 2]


@case
def question_of_all_but_the_first(b: Array, s: Array) -> Any:
    high = s[s > 0]
    rest = high[1:]
    low = rest[rest < 1]
    return (high, np.zeros(1, s.dtype)) if len(low) == 0 else (high, low - 1)


@case
def second_question_needs_two_elements_of_the_first(b: Array, s: Array) -> Any:
    high = s[s > 0.3]
    low = high[high < 9]
    low = np.zeros(0, s.dtype) if low.size == 0 else low[:1] + 1
    rest = high[1:]
    large = rest[rest > 0.5]
    return (s[:1], low) if large.size == 0 else (large[:1], large)


@case
def question_of_the_first_two_of_a_selection_twice(b: Array, s: Array) -> Any:
    twice = np.concatenate([s[s > 0.5], s[s > 0.5]])
    two = twice[:2]
    low = two[two < 9]
    low = two if len(low) == 0 else low[::-1]
    return twice, np.int64(len(low)), low


@case
def two_questions_of_parts_of_joined_selections(b: Array, s: Array) -> Any:
    low, high = s[s < -0.5], s[s > 0.5]
    ends, far = np.concatenate([low, high]), low[low < -0.8]
    far = np.zeros(1, s.dtype) if len(far) > 0 else far * 3
    inner = ends[ends < 1]
    if not inner.size:
        return inner * 2, np.int64(len(low))
    return far, np.int64(min(len(low), 2))


@case
def question_of_what_a_loop_keeps(b: Array, s: Array) -> Any:
    order, keep = np.argsort(s, kind="stable"), []
    while len(order) > 0:
        keep.append(order[-1])
        near = np.where(s[order[:-1]] > s[order[-1]] - 9)[0]
        order = np.delete(order, np.concatenate(([len(order) - 1], near)))
    best = s[np.array(keep, np.int64)]
    return (best, np.flatnonzero(s < 0)) if len(best[best != 2]) == 0 else (best, np.argsort(s, kind="stable"))


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_results_equal_numpy(function: Function, engine: str) -> None:
    run = program_of(traced(function, [TensorType.of(a.shape, a.dtype) for a in arrays()[0]]), engine)
    for given in arrays():
        for got, want in zip(run(list(given)), several(function(*given)), strict=True):
            assert (got.shape, got.dtype) == (np.shape(want), np.asarray(want).dtype)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        slices_beyond_both_ends,
        written_slices,
        different_values,
        confusion_matrix,
        slice_from_a_number_of_a_selection_that_may_be_empty,
        question_of_two_selections_joined,
        number_of_another_selection,
    ],
)
def test_a_file_with_open_sizes(function: Function, tmp_path: Path) -> None:
    check_file_with_open_sizes(function, tmp_path / "f.onnx")


@pytest.mark.parametrize("function", [slices_to_a_number_of_elements, different_values])
def test_generated_cpp_refuses_sizes_that_depend_on_data(function: Function) -> None:
    graph = traced(function, [TensorType.of(a.shape, a.dtype) for a in arrays()[0]])
    with pytest.raises(AnyLayerError, match="size"):
        run_graph(graph, list(arrays()[0]), "cpp")


def test_a_count_in_a_type_that_cannot_hold_it_is_the_number_of_numpy() -> None:
    def function(x: Array) -> Any:
        m = x > 0
        return x[: m.sum().astype(np.int8)], x[: m.sum().astype(np.int16)]

    x = np.where(np.arange(300) % 2, 1, -1).astype(np.float32)
    graph = traced(function, [TensorType.of(x.shape)])
    for got, want in zip(run_graph(graph, [x], "onnxruntime"), function(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 31),
    reason="TopK of ONNX Runtime 1.30 does not sort NaN to the end: pip install 'onnxruntime>=1.31'",
)
def test_unique_keeps_one_nan() -> None:
    """OpenVINO's TopK does not sort NaN to the end: see docs/engines.md."""
    b, s = arrays()[0]
    s = np.where(np.arange(N) % 5 == 0, np.float32(np.nan), np.round(s))
    graph = traced(lambda b, s: np.unique(s), [TensorType.of(a.shape, a.dtype) for a in (b, s)])
    np.testing.assert_array_equal(run_graph(graph, [b, s], "onnxruntime")[0], np.unique(s))


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("scale", [-1, 30])
def test_bincount_refuses_numbers_outside(scale: int, engine: str) -> None:
    """NumPy refuses a negative number, and reshape the result of one beyond minlength."""

    def histogram(b: Array, s: Array) -> Any:
        return np.bincount((s * scale).astype(np.int64), minlength=10).reshape(2, 5)

    b, s = arrays()[3]
    graph = traced(histogram, [TensorType.of(a.shape, a.dtype) for a in (b, s)])
    with pytest.raises(ValueError, match=r"negative|reshape"):
        histogram(b, s)
    with pytest.raises(AnyLayerError, match="out of"):
        run_graph(graph, [b, s], engine)


def test_an_ir_refuses_numbers_that_bincount_may_not_count(tmp_path: Path) -> None:
    """An IR cannot check them, and would count them in the last element."""

    def histogram(s: Array) -> Any:
        return np.bincount(s.astype(np.int64), minlength=10)

    def clipped_histogram(s: Array) -> Any:
        return np.bincount(np.clip(s.astype(np.int64), 0, 9), minlength=10)

    s, file = np.arange(9, dtype=np.float32), tmp_path / "histogram.xml"
    with pytest.raises(AnyLayerError, match="for a number above minlength"):
        anylayer.export(histogram, s, path=file)
    assert not file.exists()
    anylayer.export(clipped_histogram, s, path=file)
    for given in (s, s * 3 - 4):
        np.testing.assert_array_equal(in_openvino(file)({"s": given})["0"], clipped_histogram(given))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda b, s: s[: s[0].astype(np.int64) : -1], "a slice backwards"),
        (lambda b, s: np.zeros(int(s[0])), "a size that depends on data needs a smallest"),
        (lambda b, s: np.unique(np.round(b), axis=0), "np.unique of rows"),
        (lambda b, s: np.insert(s, np.where(s > 0)[0], 1), "np.insert at several places"),
        (lambda b, s: s[: s[0]], "slice indices must be integers"),
        (lambda b, s: [s * i for i in range(min(len(s[s > 0]), 1))] + [s], "cannot become a plain number here"),
        (lambda b, s: [s for _ in range(len(s[s > 0]) // 30)] + [s], "cannot become a plain number here"),
        (lambda b, s: s * len(["a", "bc"][min(len(s[s > 0]), 1)]), "cannot become a plain number here"),
        (lambda b, s: [s] * (len(s[s > 0]) // 30 + 1), "can repeat a list of numbers of one type only"),
        (lambda b, s: s * (len(s[s > 0]) & 64), "cannot become a plain number here"),
    ],
)
def test_what_is_not_recorded_is_refused(function: Function, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        traced(function, [TensorType.of(a.shape, a.dtype) for a in arrays()[0]])


@pytest.mark.parametrize(
    "number",
    [
        lambda n: b"abcd"[n // 12],
        lambda n: sum(range(5)[n // 12 :]),
        lambda n: len(bytes(n // 12)),
    ],
)
def test_plain_numbers_of_a_size_are_refused(number: Callable[[int], Any]) -> None:
    with pytest.raises(TraceError, match=r"test_sizes_of_data\.py:\d+.* cannot become a plain number here"):
        traced(lambda b, s: s * np.float32(number(len(s[s > 0]))), [TensorType.of((36, 4)), TensorType.of((36,))])


@pytest.mark.parametrize(
    "number",
    [
        lambda n: np.sign(n),
        lambda n: len([1][:n]),
        lambda n: len([1, 2, 3][:n]),
        lambda n: len(str(n)),
        lambda n: len(f"{n:d}"),
        lambda n: len("abc"[:n]),
        lambda n: np.tril(np.ones((9, 4), np.float32), n).sum(),
    ],
)
def test_a_layer_with_a_plain_number_of_a_size_runs_in_python(
    number: Callable[[int], Any], tmp_path: Path
) -> None:
    class Sized:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            s = inputs[0]
            return [s * np.float32(number(len(s[s > 0])))]

    file = tmp_path / "net.prototxt"
    file.write_text(
        'input: "s" input_shape { dim: 36 } layer { name: "sized" type: "Sized" bottom: "s" top: "y" }'
    )
    net = anylayer.read(file, layers={"Sized": Sized})
    with pytest.warns(UserWarning, match="known only when the network runs, cannot become "):
        model = net.compile(engine="onnxruntime")
    for count in (0, 1, 2, 9, 36):
        x = np.where(np.arange(36) < count, 1, -1).astype(np.float32)
        assert_same(model(x)["y"], x * np.float32(number(count)))


@pytest.mark.parametrize("engine", GENERAL)
def test_numpy_integers_of_sizes_make_float64_of_float32(engine: str) -> None:
    def function(s: Array) -> Any:
        n = len(s[s > 0])
        return s * np.maximum(n, 2), s * np.minimum(n, 3), np.zeros(np.minimum(n, 3) + 1)

    s = np.array([-1, 2, -3, 4, -5, 6], np.float32)
    run = program_of(traced(function, [TensorType.of(s.shape)]), engine)
    for given in (s, -s, -abs(s), abs(s)):
        for got, want in zip(run([given]), function(given)):
            assert_same(got, want)


def test_a_real_number_of_a_size_has_no_bits_as_in_python() -> None:
    with pytest.raises(TraceError, match="unsupported operand type"):
        traced(lambda s: s * ((len(s[s > 0]) / 2) & 1), [TensorType.of((36,))])
