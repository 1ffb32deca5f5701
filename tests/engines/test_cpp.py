"""The engine cpp: results compared with NumPy and ONNX Runtime, threads, refusals."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import anylayer
from anylayer import ops
from anylayer.compile.selections import trace_with_selections
from anylayer.engines import load_engine
from anylayer.engines.cpp import _flags, _generate, _source_of
from anylayer.errors import EngineError
from anylayer.graph import Graph
from anylayer.kernels.cache import library
from anylayer.kernels.compiler import compiler
from anylayer.network import Array, TensorType
from anylayer.testing import check_function, run_graph
from anylayer.tracing import record, trace
from tests.loops.harness import needs_compiler
from tests.threads import MAX_SECONDS, in_threads

pytestmark = needs_compiler

PREFIX = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 6 dim: 9 dim: 8 } } }\n'
INTERP = PREFIX + (
    'layer { name: "big" type: "Interp" bottom: "x" top: "big" interp_param { height: 17 width: 15 } }\n'
    'layer { name: "norm" type: "Normalize" bottom: "big" top: "y" norm_param { across_spatial: false } }\n'
)
RECURRENT = PREFIX + 'layer { name: "steps" type: "Recurrent" bottom: "x" top: "y" }\n'


@pytest.fixture(autouse=True, scope="module")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def traced(function: Callable[..., Any], *inputs: np.ndarray) -> Graph:
    return trace(lambda arrays: [function(*arrays)], [TensorType.of(x.shape, x.dtype) for x in inputs])


def test_operators_equal_numpy_and_onnxruntime() -> None:
    def several(x: Any, y: Any) -> list[Any]:
        chain = np.maximum(x * 2 + y, 0) / np.sqrt(np.abs(x) + np.float32(1))
        return [
            chain,
            ops.softmax(chain, axis=1)[:, ::-1].transpose(0, 2, 3, 1),
            ops.resize(x, (13, 5)),
            ops.resize(x, (13, 5), antialias=True),
            ops.resize(x, (13, 5), mode="cubic", exclude_outside=True),
            ops.resize(x, (13, 5), mode="cubic", by_step=True, table=1024),
            ops.resize(x, (13, 5), mode="nearest", nearest="simple"),
            ops.top_k(x, 3, axis=2)[1],
            (x.sum((2, 3)) > 0),
            np.take(x, np.array([1, 0]), 1).reshape(4, -1) @ noise(288, 3),
        ]

    check_function(several, noise(4, 2, 12, 12), noise(2, 1, 12, seed=1), engines=["onnxruntime", "cpp"])


def test_normalization_and_gelu_equal_onnxruntime() -> None:
    x, scale, bias = noise(2, 3, 5, 4), noise(3, seed=1), noise(3, seed=2)

    def recorded(v: Any) -> list[Any]:
        def made(op: str, *more: Any, **attrs: Any) -> Any:
            return record(op, [v, *more], x.shape, x.dtype, **attrs)

        return [
            made("InstanceNormalization", scale, bias, epsilon=0.1),
            made("LayerNormalization", scale[:, None, None], bias[:, None, None], axis=1),
            made("LayerNormalization", noise(4, seed=3), axis=-1, epsilon=0.5),
            ops.gelu(v * 3),
            ops.gelu(v * 3, approximate="tanh"),
        ]

    graph = trace(lambda arrays: recorded(arrays[0]), [TensorType.of(x.shape)])
    want = load_engine("onnxruntime").compile(graph, 1)([x])
    for got, expected in zip(load_engine("cpp").compile(graph, 1)([x]), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


@pytest.mark.breadth
def test_sorting_keeps_the_order_of_equal_elements_and_of_nan() -> None:
    x = np.random.default_rng(0).integers(0, 9, (3, 40, 5)).astype(np.float32)
    x[0, [3, 7], 2] = np.nan

    def sorted_on_all_axes(v: Any) -> list[Any]:
        found: list[Any] = []
        for axis, largest in ((0, True), (1, True), (1, False), (2, False)):
            for count in (1, 2, x.shape[axis]):
                found += ops.top_k(v, count, axis=axis, largest=largest)
        return [*found, ops.top_k(v.transpose(2, 1, 0) * 2, 3, axis=1)[1]]

    check_function(sorted_on_all_axes, x, engines=["cpp"])


def test_reductions_of_any_length_equal_numpy() -> None:
    x = noise(3, 101)
    x[1, [5, 40]] = np.nan, np.inf
    whole = np.arange(303, dtype=np.int32).reshape(3, 101) - 150

    def several(v: Any, w: Any) -> list[Any]:
        found: list[Any] = []
        for size in (1, 15, 16, 17, 35, 101):
            found += [f(part[:, :size], axis=1) for part in (v, w) for f in (np.sum, np.max, np.min)]
            found.append(np.prod(np.abs(v[:, :size]) + np.float32(0.7), axis=1))
        return found

    check_function(several, x, whole, engines=["cpp"])


def test_network_equals_numpy(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(INTERP)
    net, x = anylayer.read(tmp_path / "net.prototxt").fill(), noise(1, 6, 9, 8)
    want, model = net.compile("numpy")({"x": x}), net.compile("cpp", threads=2)
    np.testing.assert_allclose(model({"x": x})["y"], want["y"], rtol=0, atol=1e-5 * np.abs(want["y"]).max())
    assert model.engine == "cpp"


def test_results_are_the_same_on_any_number_of_threads() -> None:
    x = noise(8, 16, 40, 40)
    graph = traced(lambda v: np.exp(-np.abs(v)).sum((2, 3)) - ops.resize(v, (80, 80)).max((2, 3)), x)
    found = [load_engine("cpp").compile(graph, threads)([x])[0] for threads in (1, 2, 5)]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_program_runs_in_several_threads() -> None:
    inputs = [noise(4, 64, 64, seed=i) for i in range(6)]
    program = load_engine("cpp").compile(traced(lambda v: np.cumsum(v * 2, 1) + v.max(), inputs[0]), 2)
    found: dict[int, np.ndarray] = {}

    def work(i: int) -> None:
        for _ in range(20):
            found[i] = program([inputs[i]])[0]

    in_threads(work, range(len(inputs)))
    for i, x in enumerate(inputs):
        np.testing.assert_allclose(found[i], np.cumsum(x * 2, 1) + x.max(), rtol=1e-4, atol=1e-4)


def test_temporary_memory_is_kept_until_the_last_program_is_deleted() -> None:
    x = noise(40000, 3)
    graph = traced(lambda v: v - v.sum(1, keepdims=True), x)
    first, second = (load_engine("cpp").compile(graph, 1) for _ in range(2))
    loaded = library(_source_of(_generate(graph)), compiler(), _flags())
    assert not loaded.anylayer_keep(0)
    np.testing.assert_allclose(first([x])[0], x - x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    kept = loaded.anylayer_keep(0)
    assert kept >= 4 * len(x)
    first([x])
    second([x])
    assert loaded.anylayer_keep(0) == kept
    del first
    assert loaded.anylayer_keep(0) == kept
    del second
    assert not loaded.anylayer_keep(0)


def _in_fork(program: Any, x: np.ndarray, answer: Any) -> None:
    answer.put(float(program([x])[0].sum()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process_computes_without_the_threads_of_its_parent() -> None:
    x = np.ones((64, 64, 64), np.float32)
    program = load_engine("cpp").compile(traced(lambda v: v * 3, x), 2)
    assert program([x])[0].sum() == 3 * x.size
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    child = context.Process(target=_in_fork, args=(program, x, answer))
    child.start()
    assert answer.get(timeout=60) == 3 * x.size
    child.join(MAX_SECONDS)
    assert child.exitcode == 0


def test_outputs_are_written_to_the_callers_arrays() -> None:
    x = noise(3, 5)
    program = load_engine("cpp").compile(traced(lambda v: v + 1, x))
    plain, turned = np.zeros((3, 5), np.float32), np.zeros((5, 3), np.float32).T
    assert program([x], [plain])[0] is plain and program([x[::-1][::-1]], [turned])[0] is turned
    assert np.array_equal(plain, x + 1) and np.array_equal(turned, x + 1)
    first, second = program([x])[0], program([x * 2])[0]
    assert np.array_equal(first, x + 1) and np.array_equal(second, x * 2 + 1)


def test_index_outside_of_data_is_refused() -> None:
    x, at = noise(4, 3), np.array([1, 7])
    program = load_engine("cpp").compile(traced(lambda v, i: np.take(v, i, 0), x, at))
    with pytest.raises(EngineError, match="engine 'cpp' failed: an index that is read from data lies outside"):
        program([x, at])


class Recurrent:
    """Use an operator without loops."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        w, r = (np.ones((1, 4, n), np.float32) for n in (inputs[0].shape[-1], 1))
        return [anylayer.ops.lstm(inputs[0][0], w, r, hidden_size=1)[0]]


def test_operator_without_loops_is_refused_with_its_layer(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(RECURRENT)
    with pytest.raises(EngineError, match=r"operator LSTM .*cannot become loops: no loops are written for it$"):
        anylayer.read(tmp_path / "net.prototxt", layers=[("Recurrent", Recurrent)]).compile("cpp")


def test_message_about_a_built_in_layer_names_the_node_without_a_line_of_shared_code(tmp_path: Path) -> None:
    nodes = [helper.make_node("Det", ["x"], ["y"], name="determinant")]
    x, y = helper.make_tensor_value_info("x", 1, [2, 3, 3]), helper.make_tensor_value_info("y", 1, [2])
    model = helper.make_model(helper.make_graph(nodes, "net", [x], [y]), ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(EngineError, match=r"graph: node 'determinant': operator Det cannot become loops"):
        anylayer.read(tmp_path / "net.onnx").compile("cpp")


def test_missing_compiler_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        EngineError, match=r"engine 'cpp' needs a C\+\+ compiler: c\+\+, .* CXX .*apt-get install g\+\+"
    ):
        load_engine("cpp").compile(traced(lambda v: v + 1, noise(2)))


def test_dtype_without_cpp_type_is_refused() -> None:
    x = noise(2).astype(np.float16)
    with pytest.raises(EngineError, match="engine 'cpp' has no dtype float16"):
        load_engine("cpp").compile(traced(lambda v: v + v, x))


def test_auto_does_not_compile_with_cpp(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(INTERP)
    assert "cpp" not in anylayer.read(tmp_path / "net.prototxt").fill().compile().timings


@pytest.mark.parametrize("rows", [1, 3])
def test_products_of_any_number_of_columns_equal_numpy(rows: int) -> None:
    def products(a: Any, *others: Any) -> list[Any]:
        return [p for b in others for p in (a @ b, a[0] @ b, a[0, 0] @ b[0], a @ b[0], a[0] @ b[0, :, 0])]

    columns = (1, 3, 63, 64, 65, 200, 2100)
    check_function(products, noise(2, rows, 7), *(noise(2, 7, n, seed=1) for n in columns), engines=["cpp"])


def selecting(function: Callable[..., list[Any]], x: np.ndarray) -> Graph:
    return trace_with_selections(
        lambda types: trace(lambda arrays: function(*arrays), types), [TensorType.of(x.shape)]
    )


@pytest.mark.parametrize("factor", [0.0, 1.0, -1.0])
def test_selections_have_the_sizes_that_loops_count(factor: float) -> None:
    def selected(x: Any) -> list[Any]:
        keep, order = x[:, 0] > 0.1, np.argsort(-x[:, 1])
        places = np.nonzero(keep)[0]
        others = x[x[:, 1] > 0.5]
        both = x[places, 2] + x[keep, 1]
        return [x[keep, 1:] * 2, order[keep], places + 1, both, others[:5], x.max(axis=1), others.sum(axis=0)]

    x = noise(40, 3) + np.float32(10 * factor)
    for got, want in zip(run_graph(selecting(selected, x), [x], "cpp"), selected(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, strict=True)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: [x[:, x[0] > 0]], "a Compress along an axis that is not the first one"),
        (lambda x: [np.nonzero(x > 0)[1]], "a NonZero of several axes"),
        (lambda x: [np.sort(x[x[:, 0] > 0], axis=0)], "a size that is known only when the network runs"),
    ],
)
def test_selection_that_loops_do_not_count_is_refused(function: Callable[..., list[Any]], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        _generate(selecting(function, noise(20, 30)))


@pytest.mark.parametrize("factor", [0.0, 1.0, -1.0])
def test_selections_of_selections_equal_numpy(factor: float) -> None:
    def selected(x: Any) -> list[Any]:
        places = np.nonzero(x[:, 0] > 0)[0]
        rows = x[places]
        both = (x[:, 0] > 0) & (x[:, 1] > 0)
        distances = np.abs(rows[:, None] - rows[None]).sum(axis=(0, 1))
        return [rows[rows[:, 1] > 0], places[rows[:, 1] > 0], x[both], x[~both], x[x > 0.5], distances]

    x = noise(20, 3) + np.float32(10 * factor)
    x[[0, 7, 19], 1] = np.nan
    for got, want in zip(run_graph(selecting(selected, x), [x], "cpp"), selected(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, strict=True)


def test_selection_keeps_its_numbers_after_the_next_call() -> None:
    (x, y), graph = (noise(20, 3), noise(20, 3, seed=1)), selecting(lambda x: [x[x[:, 0] > 0]], noise(20, 3))
    program = load_engine("cpp").compile(graph, 1, "float32")
    results = [program([array])[0] for array in (x, y, x, y, x)]
    for got, array in zip(results, (x, y, x, y, x), strict=True):
        np.testing.assert_array_equal(got, array[array[:, 0] > 0])


@pytest.mark.parametrize("place", [5, -6])
def test_constant_index_outside_its_axis_is_an_error(place: int) -> None:
    def selected(x: Any) -> Any:
        order = np.argsort(-x[:, 0])
        order[1] = place
        return x[order]

    x = noise(5, 2)
    graph = trace(lambda arrays: [selected(*arrays)], [TensorType.of(x.shape)])
    with pytest.raises(EngineError, match="an index that is read from data lies outside its axis"):
        run_graph(graph, [x], "cpp")


@pytest.mark.parametrize("place", [5, -5, 4, -6])
def test_index_written_over_places_is_checked(place: int) -> None:
    def selected(x: Any, at: Any, new: Any) -> Any:
        order = np.argsort(-x[:, 0])
        order[at] = new
        return x[order]

    x, at, new = noise(5, 2), np.array([1, 3]), np.array([0, place])
    graph = trace(
        lambda arrays: [selected(*arrays)], [TensorType.of(x.shape), *[TensorType.of(at.shape, at.dtype)] * 2]
    )
    assert "ScatterElements" in [op.op for op in graph.ops]
    if -5 <= place < 5:
        np.testing.assert_array_equal(run_graph(graph, [x, at, new], "cpp")[0], selected(x, at, new))
    else:
        with pytest.raises(EngineError, match="an index that is read from data lies outside its axis"):
            run_graph(graph, [x, at, new], "cpp")


def test_nested_conditions_of_a_loop_are_computed_in_order() -> None:
    """GCC 12 unswitches such a loop wrongly for processors with AVX-512."""

    def leading(x: Array) -> Array:
        done, i = np.zeros(5, np.int64), 0
        while i < 5 and x[i] > -1:
            done[i] = 1
            i += 1
        return done

    run = load_engine("cpp").compile(trace(lambda a: [leading(a[0])], [TensorType((5,), np.dtype("f4"))]))
    for bits in itertools.product((0, -5), repeat=5):
        x = np.array(bits, np.float32)
        np.testing.assert_array_equal(run([x])[0], leading(x))
