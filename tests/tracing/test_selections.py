"""Selections whose size depends on data, compared with NumPy where a part, nothing and everything is selected."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.compile.selections import trace_with_selections
from anylayer.errors import AnyLayerError, TraceError
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.testing import run_graph
from anylayer.tracing import call_user, trace_checked
from tests.engine_names import GENERAL, program_of

N = 20
Function = Callable[[Array, Array], Any]
CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of boxes (N, 4) and scores (N,) to the cases."""
    CASES.append(function)
    return function


@case
def mask_of_two_arrays(b: Array, s: Array) -> Any:
    keep = s > 0.3
    return b[keep], s[keep]


@case
def positions_of_a_mask(b: Array, s: Array) -> Any:
    keep = np.where(s > 0.3)[0]
    return b[keep], s[keep], keep


@case
def sorted_by_score(b: Array, s: Array) -> Any:
    b, s = b[s > 0.3], s[s > 0.3]
    order = s.argsort(kind="stable")[::-1]
    return b[order], s[order], np.sort(s)


@case
def best_five(b: Array, s: Array) -> Any:
    keep = np.flatnonzero(s > 0.3)[:5]
    return b[keep] * 2, keep[1:]


@case
def returns_early(b: Array, s: Array) -> Any:
    keep = np.nonzero(s > 0.3)[0]
    if len(keep) == 0:
        return np.zeros((0, 4), np.float32)
    x = b[keep]
    return np.concatenate([x[:, :2] - x[:, 2:] / 2, x[:, 2:]], axis=1)


@case
def more_than_five(b: Array, s: Array) -> Any:
    return b[s > 0] if len(s[s > 0]) > 5 else b[s < 0]


@case
def two_rows_if_nothing(b: Array, s: Array) -> Any:
    return b[s > 0] if len(s[s > 0]) else b[:2]


@case
def returns_before_argmax(b: Array, s: Array) -> Any:
    if len(b[s > 0.3]) == 0:
        return np.zeros((0, 4), np.float32)
    return b[s > 0.3] - b[s > 0.3].argmax(axis=0).astype(np.float32)


@case
def returns_early_twice(b: Array, s: Array) -> Any:
    b, s = b[s > 0], s[s > 0]
    if not s.size:
        return np.empty((0, 4), np.float32), np.empty(0, np.float32)
    keep = np.where(b[:, 0] > 0)[0]
    if keep.shape[0] < 1:
        return np.empty((0, 4), np.float32), np.empty(0, np.float32)
    return b[keep], s[keep]


@case
def number_of_elements(b: Array, s: Array) -> Any:
    x = b[s > 0.3]
    return x.sum(0) / max(len(x), 1), np.float32(x.size)


@case
def only_the_number(b: Array, s: Array) -> Any:
    return np.arange(len(b[s > 0.3])), np.float32(len(np.where(s > 0)[0])), np.where(b > 0)[1][1:]


@case
def pairs(b: Array, s: Array) -> Any:
    x = b[np.where(s > 0.3)[0]]
    wide = np.minimum(x[:, None, 2:], x[None, :, 2:])
    return wide.sum(axis=1), np.arange(len(x)) * 2


@case
def selection_of_a_selection(b: Array, s: Array) -> Any:
    x = b[s > 0]
    wide = x[:, 2] - x[:, 0] > 0
    return x[wide], np.argwhere(wide)


@case
def two_selections_joined(b: Array, s: Array) -> Any:
    return np.concatenate([b[s > 0.5], b[s < -0.5]]), np.hstack([s[s > 0.5], s[s < -0.5]])


@case
def elements_of_a_matrix(b: Array, s: Array) -> Any:
    rows, columns = np.where(b > 0.5)
    return b[rows, columns], np.stack([rows, columns], axis=1), np.extract(b > 1, b), b[b > 0.2]


@case
def mask_with_an_index(b: Array, s: Array) -> Any:
    return b[s > 0.3, 2], b[s > 0.3, :2], np.compress(s > 0, b, axis=0)


@case
def written_by_positions(b: Array, s: Array) -> Any:
    s, b = s.copy(), b.copy()
    s[np.where(s < 0)] = 0
    b[np.where(s > 0.3)[0], :] = 1.5
    return s, b


@case
def written_elements(b: Array, s: Array) -> Any:
    y = np.zeros_like(s)
    keep = np.where(s > 0.3)[0]
    y[keep] = s[keep] * 2 + b[keep, 0]
    return y


@case
def written_with_another_index(b: Array, s: Array) -> Any:
    m, k = s > 0.3, np.flatnonzero(s > 0.3)
    u, v, w, x, y = b.copy(), b.copy(), b.copy(), b.T.copy(), b.reshape(-1, 2, 2).copy()
    u[m, 1] = 5
    v[k, 2:] = 0
    w[k, ::2] = 7
    x[1, m] = 3
    rows, columns = np.nonzero(y[:, :, 0] > 0)
    y[rows, columns, 1] = 9
    return u, v, w, x, y


@case
def behind_the_example(b: Array, s: Array) -> Any:
    """Take a slice that is empty for the number of elements in a trace."""
    x = s[s > 0]
    rest, first = x[15:], x[:15]
    y = b[s > 0]
    y[15:] = 0
    z = b[s > 0][15:]
    return np.sort(rest), np.concatenate([rest, first]), y, z.T @ z, np.tile(rest, 2), z[z[:, 0] > 0]


@case
def methods_after_a_write(b: Array, s: Array) -> Any:
    x = s[s > 0.3]
    x[:2] = 0
    y = s[s > 0.3]
    y[:2] = -9
    z = s[s > 0.3]
    z[:1] = 0
    return x.copy(), x.astype(np.float64), y.clip(-1, 1), z.all(), z.any(), x.sum()


@case
def the_array_itself_without_a_cast(b: Array, s: Array) -> Any:
    x = s[s > 0]
    t = x.astype(np.float32, copy=False)
    x[x > 1] = 0
    t += 1
    return x, t


@case
def one_mask_along_other_axes(b: Array, s: Array) -> Any:
    y = b[:, :1]
    m = y > 0.3
    return y[m] + y[m[:, 0]], b[m[:, 0]] - y[m[:, 0]]


@case
def clipped_by_selections(b: Array, s: Array) -> Any:
    m = s > 0.3
    x = s[m]
    np.clip(x, 0, 1, out=x)
    return np.clip(s[m], b[m, 0], b[m, 0] + 1), s[m].clip(b[m][:, 1], 9), x


@case
def sums_of_positions(b: Array, s: Array) -> Any:
    x = b[np.flatnonzero(s > 0)]
    return x.sum(0), x[:, :2].sum(0), x.max(axis=0, initial=0), x.prod(0), (x > 0).any(0)


@case
def last_rows(b: Array, s: Array) -> Any:
    x = b[s > 0.3]
    x[2:4] = 0
    v = x[1:]
    v[:] = 5
    return x, x[-3:], np.cumsum(x, axis=0), x[::-1]


@case
def second_selection_decides(b: Array, s: Array) -> Any:
    a = s[s > 0]
    if a.size == 0:
        return a
    rest = a[1:][a[1:] > 0.5]
    if rest.size == 0:
        return a[:1]
    return a[:2]


@case
def rest_of_the_rest_decides(b: Array, s: Array) -> Any:
    a = s[s > 0]
    rest = a[1:]
    rest = rest[rest > 0.2]
    last = rest[1:][rest[1:] > 0.5]
    return a * 2 if last.size == 0 else a + rest[:1]


@case
def keeps_two_at_most(b: Array, s: Array) -> Any:
    left, kept = np.where(s > 0)[0], []
    for _ in range(2):
        if left.size == 0:
            break
        kept.append(left[0])
        left = left[1:][np.abs(s[left[1:]] - s[left[0]]) > 0.3]
    return np.array(kept, np.int64)


@case
def falls_back_to_the_larger_selection(b: Array, s: Array) -> Any:
    a = s[s > 0]
    large = a[a > 1]
    return a if large.size == 0 else large


@case
def trimmed(b: Array, s: Array) -> Any:
    found = np.where(s > 0)[0]
    if found.size == 0:
        return b[:0]
    return b[found[0] : found[-1] + 1]


@case
def minus_the_first(b: Array, s: Array) -> Any:
    if len(b[s > 0.3]) == 0:
        return np.zeros((0, 4), np.float32)
    return b[s > 0.3] - b[s > 0.3][0]


@case
def first_and_last_of_a_selection(b: Array, s: Array) -> Any:
    found = np.where(s > 0)[0]
    if found.size == 0:
        return found
    return found[[0, -1]]


def arrays() -> list[tuple[Array, Array]]:
    """Return inputs of which a part, nothing, everything, one element and two are selected."""
    random = np.random.default_rng(3)
    b = random.standard_normal((N, 4)).astype(np.float32)
    s = random.standard_normal(N).astype(np.float32)
    one = np.full(N, -1, np.float32)
    one[7] = 2
    two = np.where(np.arange(N) == 3, np.float32(0.4), one)
    given = [(b, s), (b, np.zeros_like(s) - 1), (b - 9, s - 99), (np.abs(b) + 2, np.abs(s) + 1), (b, one)]
    return [*given, (b, two)]


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_selections_equal_numpy(function: Function, engine: str) -> None:
    types = [TensorType.of(a.shape, a.dtype) for a in arrays()[0]]
    run = program_of(traced(function, types), engine)
    for given in arrays():
        for got, want in zip(run(list(given)), several(function(*given)), strict=True):
            assert got.shape == np.shape(want)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def traced(function: Callable[..., Any], types: list[TensorType]) -> Graph:
    """Return the graph of a function, with dynamic sizes where it selects."""
    return trace_with_selections(
        lambda sized: trace_checked(lambda given: several(call_user(function, *given)), sized), types
    )


def several(result: Any) -> list[Any]:
    """Return the outputs of a function as a list."""
    return list(result) if isinstance(result, tuple) else [result]


def in_onnxruntime(file: Path) -> Any:
    """Return a file as a model on ONNX Runtime."""
    return anylayer.read(file).compile("onnxruntime")


def check_file_with_open_sizes(
    function: Function, file: Path, load: Callable[[Path], Any] = in_onnxruntime
) -> None:
    """Write a function of boxes and scores as a file for any number of them, and compare it with NumPy.

    load: returns a function that runs the file.
    """
    anylayer.export(function, *arrays()[0], path=file, shapes={"b": ("N", 4), "s": ("N",)})
    run = load(file)
    for b, s in arrays():
        for n in (N, 9, 3):
            want = several(function(b[:n].copy(), s[:n].copy()))
            for got, y in zip(run({"b": b[:n], "s": s[:n]}).values(), want, strict=True):
                assert got.shape == np.shape(y)
                np.testing.assert_allclose(got, y, rtol=1e-5, atol=1e-5)


def in_openvino(file: Path) -> Callable[[dict[str, Array]], dict[str, Array]]:
    """Return a function that runs a file in OpenVINO's own runtime."""
    openvino = pytest.importorskip("openvino")
    program = openvino.Core().compile_model(file, "CPU")
    return lambda arrays: {str(i): y for i, y in enumerate(program(arrays).values())}


@pytest.mark.one_per("function")
@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize("function", [sorted_by_score, returns_early, number_of_elements, pairs])
def test_a_file_that_selects_from_any_number_of_boxes(function: Function, suffix: str, tmp_path: Path) -> None:
    load = (lambda file: anylayer.read(file).compile()) if suffix == "onnx" else in_openvino
    check_file_with_open_sizes(function, tmp_path / f"boxes.{suffix}", load)


@pytest.mark.parametrize("engine", ["numpy", "cpp", "onnxruntime"])
def test_a_layer_that_selects_runs_on_each_engine(engine: str, tmp_path: Path) -> None:
    """An engine with fixed sizes runs the layer in Python, with a note."""
    file = tmp_path / "net.prototxt"
    sizes = ("dim: 20 dim: 4", "dim: 20")
    inputs = [
        f'layer {{ name: "{n}" type: "Input" top: "{n}" input_param {{ shape {{ {d} }} }} }}'
        for n, d in zip("bs", sizes)
    ]
    file.write_text("\n".join([*inputs, 'layer { name: "m" type: "Mine" bottom: "b" bottom: "s" top: "y" }']))

    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            return [np.sort(returns_early(*inputs), 0)]

    net = anylayer.read(file, layers={"Mine": Mine})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = net.compile(engine=engine)
    assert any("runs in Python" in str(w.message) for w in caught) == (engine == "cpp")
    for b, s in arrays():
        np.testing.assert_allclose(model({"b": b, "s": s})["y"], np.sort(returns_early(b, s), 0), rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda b, s: b[s > 0].reshape(5, 4), r"count1 == 5 is asked of a number of selected|cannot reshape"),
        (lambda b, s: b[s > 0] if len(s[s > 0]) else b[0], r"and float32\[4\] if nothing is; return arrays"),
        (lambda b, s: list(range(len(s[s > 0]))), "cannot become a plain number here"),
        (lambda b, s: np.squeeze(b[s > 0]), "np.squeeze of selected elements removes the axis of a single one"),
        (lambda b, s: b * {0: 2.0}.get(len(s[s > 0]), 7.0), "cannot be a key of a dict"),
        (lambda b, s: np.roll(s[s > 0], 1), "np.roll along an axis of selected elements"),
        (lambda b, s: b[:1] * len(s[:1][s[:1] > 0]), "a selection from a single element cannot be recorded"),
    ],
)
def test_other_uses_of_the_number_are_refused(function: Function, message: str) -> None:
    types = [TensorType.of(a.shape, a.dtype) for a in arrays()[0]]
    with pytest.raises(TraceError, match=message):
        traced(function, types)


def test_operators_of_all_combinations_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [TensorType.of(a.shape, a.dtype) for a in arrays()[0]]
    assert traced(returns_early_twice, types).ops
    monkeypatch.setattr("anylayer.graph.repetition._MAX_REPEATED", 60)
    with pytest.raises(TraceError, match=r"test_selections.py:\d+: this records more than 60 operators in all"):
        traced(returns_early_twice, types)


def test_a_file_that_fails_where_nothing_is_selected_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy returns early, but the operators of the file look for the largest of no elements."""
    monkeypatch.setattr("anylayer.tracing.counts.NEEDS_ELEMENTS", frozenset())
    with pytest.raises(AnyLayerError, match="For these inputs a layer may select nothing"):
        anylayer.export(returns_before_argmax, *arrays()[0], path=tmp_path / "first.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reduce", ["mean", "std", "var"])
def test_the_mean_of_nothing_is_nan(reduce: str) -> None:
    def function(b: Array, s: Array) -> Any:
        return getattr(b[np.flatnonzero(s > 0)], reduce)(0)

    b, s = arrays()[0]
    graph = traced(function, [TensorType.of(a.shape) for a in (b, s)])
    for engine in GENERAL:
        run = program_of(graph, engine)
        assert np.isnan(run([b, s * 0 - 1])[0]).all()
        np.testing.assert_allclose(run([b, s])[0], function(b, s), rtol=1e-5)


def written_at(x: Array, i: Array) -> Any:
    y = x[x > 0].copy()
    y[i] = 7
    return y


def added_at(x: Array, i: Array) -> Any:
    y = x[x > 0].copy()
    np.add.at(y, i, 1)
    return y


INDEXED: list[Function] = [
    lambda x, i: x[x > 0][i],
    lambda x, i: x[x > 0][i[0]],
    lambda x, i: np.stack([x[x > 0]] * 3, 1)[i, i],
    lambda x, i: np.take_along_axis(x[x > 0], i, 0),
    written_at,
    added_at,
]


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", INDEXED)
def test_an_index_out_of_the_range_of_a_selection_is_an_error(function: Function, engine: str) -> None:
    """OpenVINO reads zeros there, and writes to memory that it does not own."""
    graph = traced(function, [TensorType.of((6,), np.float32), TensorType.of((2,), np.int64)])
    run = program_of(graph, engine)
    for elements in (0, 2, 6):
        x = (np.arange(6) < elements).astype(np.float32)
        for i in ([0, 1], [0, 4], [-1, -2], [-1, -3], [5, -6], [-7, 0], [0, 0]):
            given = [x, np.array(i)]
            try:
                want = function(*given)
            except IndexError:
                with pytest.raises(AnyLayerError):
                    run(given)
            else:
                np.testing.assert_array_equal(run(given)[0], want)


def test_extremes_of_nothing_are_noted_where_the_code_does_not_ask() -> None:
    def notes(function: Function) -> list[str]:
        return traced(function, [TensorType.of(a.shape, a.dtype) for a in arrays()[0]]).notes

    def sized(b: Array, s: Array) -> Array:
        kept = b[s > 0.5]
        return kept / b[s > 0.5].max() if len(kept) else np.zeros((0, 4), np.float32)

    (note,) = notes(lambda b, s: s[s > 0].max())
    assert "max or min of a selection is an infinity" in note and note.startswith("test_selections.py:")
    assert notes(lambda b, s: s[s > 0].max(initial=0)) == []
    assert notes(lambda b, s: s[s > 0].min() if (s > 0).any() else s[0]) == []
    assert notes(lambda b, s: b[s > 0].min(1)) == []
    assert notes(sized) == []


@pytest.mark.parametrize("engine", [*GENERAL, "cpp"])
def test_initial_value_is_the_extreme_of_nothing(engine: str) -> None:
    def function(b: Array, s: Array) -> Any:
        return b[s > 1].max(0, initial=-5), b[s > 0].min(axis=0, initial=9), s[s > 2].max(initial=3)

    for inputs in arrays():
        graph = traced(function, [TensorType.of(a.shape, a.dtype) for a in inputs])
        for got, want in zip(run_graph(graph, list(inputs), engine), function(*inputs), strict=True):
            np.testing.assert_array_equal(got, want, strict=True)
