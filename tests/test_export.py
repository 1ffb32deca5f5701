"""anylayer.export writes any NumPy function as a model that gives the same values."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import anylayer
from anylayer.errors import AnyLayerError, InputError, TraceError
from anylayer.testing import assert_same
from tests.exported_functions import FUNCTIONS
from tests.tracing import harness
from tests.tracing.expressions import cases

X = np.linspace(-2, 3, 24, dtype=np.float32).reshape(2, 3, 4)


def run(path: Path, **inputs: Any) -> dict[str, Any]:
    """Return the outputs of an ONNX file, run by ONNX Runtime directly."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def test_a_function_becomes_a_model(tmp_path: Path) -> None:
    def normalize(x: Any, eps: float = 1e-6) -> Any:
        y = np.zeros(x.shape, np.float32)
        y[:] = x / np.sqrt((x * x).sum(axis=1, keepdims=True) + np.float32(eps))
        return y

    done = anylayer.export(normalize, X, path=tmp_path / "n.onnx")
    assert [check.ok for check in done.checks] == [True]
    assert_same(run(tmp_path / "n.onnx", x=2 * X)["output"], normalize(2 * X))


@pytest.mark.parametrize(
    ("returned", "names"),
    [
        (lambda a, b: (a, b), ["output0", "output1"]),
        (lambda a, b: [a + b], ["output0"]),
        (lambda a, b: {"sum": a + b, "product": a * b}, ["sum", "product"]),
    ],
)
def test_outputs_are_named(tmp_path: Path, returned: Callable[..., Any], names: list[str]) -> None:
    anylayer.export(returned, ((2, 3), "float32"), ((2, 3), np.float32), path=tmp_path / "f.onnx")
    rows = np.ones((2, 3), np.float32)
    assert list(run(tmp_path / "f.onnx", a=rows, b=3 * rows)) == names


def test_the_first_axis_may_be_symbolic(tmp_path: Path) -> None:
    anylayer.export(
        lambda x: np.sort(x, axis=1)[:, ::-1], ((4, 5), "float32"), path=tmp_path / "f.onnx", batch="N"
    )
    rows = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    assert_same(run(tmp_path / "f.onnx", x=rows)["output"], np.sort(rows, axis=1)[:, ::-1])


def test_comparison_can_be_left_out_or_get_other_inputs(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)

    def bend(x: Any) -> Any:
        return np.tanh(x)

    assert anylayer.export(bend, x, path=tmp_path / "a.onnx", verify=False).unchecked == "not asked for"
    (check,) = anylayer.export(bend, x, path=tmp_path / "b.onnx", verify={"x": x * 5}).checks
    assert check.scale == pytest.approx(np.tanh(5))


def test_a_callable_object_is_a_function(tmp_path: Path) -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = np.float32(factor)

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    anylayer.export(Scale(3), X, path=tmp_path / "f.onnx")
    assert_same(run(tmp_path / "f.onnx", x=X)["output"], 3 * X)


def test_openvino_runs_what_is_exported_for_it(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    anylayer.export(lambda x: np.tanh(x).max(axis=2), X, path=tmp_path / "f.xml")
    compiled = openvino.Core().compile_model(str(tmp_path / "f.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert_same(next(iter(compiled({"x": X}).values())), np.tanh(X).max(axis=2))


def _expressions() -> list[str]:
    texts = dict.fromkeys(text for dtype, text in cases() if dtype == "f4")
    return [t for t in texts if not isinstance(harness.expected("f4", t), Exception)]


@pytest.mark.breadth
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # np.fix in NumPy 2.5
@pytest.mark.parametrize("part", range(8))
def test_exported_expressions_match_numpy(tmp_path: Path, part: int) -> None:
    texts = _expressions()[part::8]
    arrays = harness.inputs("f4")
    assert len(texts) >= 25
    for i, text in enumerate(texts):
        code = compile(text, "<expression>", "eval")
        names = [n for n in code.co_names if n in arrays] or ["x"]
        function = eval(f"lambda {', '.join(names)}: {text}", {"np": np})
        path = tmp_path / f"{i}.onnx"
        anylayer.export(function, *(arrays[n] for n in names), path=path)
        used = {i.name for i in onnxruntime.InferenceSession(str(path)).get_inputs()}
        got = run(path, **{n: arrays[n] for n in names if n in used})["output"]
        assert_same(np.asarray(got), harness.expected("f4", text), text)


@pytest.mark.parametrize(("function", "arrays"), FUNCTIONS, ids=[f.__name__ for f, _ in FUNCTIONS])
def test_exported_functions_match_numpy(
    tmp_path: Path, function: Callable[..., Any], arrays: tuple[Any, ...]
) -> None:
    done = anylayer.export(function, *arrays, path=tmp_path / "f.onnx")
    assert all(check.ok and check.rule != "selection" for check in done.checks)
    got = run(tmp_path / "f.onnx", **dict(zip(function.__code__.co_varnames, arrays)))
    want = function(*arrays)
    named = want.values() if isinstance(want, dict) else want if isinstance(want, tuple) else [want]
    for array, expected in zip(got.values(), named, strict=True):
        assert_same(array, np.asarray(expected), function.__name__)


def test_at_least_200_different_functions_are_exported() -> None:
    assert len({f.__code__.co_code for f, _ in FUNCTIONS}) >= 80
    assert len(FUNCTIONS) + len({*_expressions()}) >= 600


COUNT = [0]


def counts(x: Any) -> Any:
    COUNT[0] += 1
    return x * COUNT[0]


def test_python_numbers_and_joined_ifs_are_written(tmp_path: Path) -> None:
    def summary(x: Any) -> Any:
        count, largest = 0, float(x[0, 0])
        for v in x.ravel():
            if v > 0:
                count += 1
            largest = max(largest, float(v))
        return count, largest, [largest, 2.0 * count]

    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    conversion = anylayer.export(summary, x, path=tmp_path / "f.onnx")
    assert [(c.ok, c.error) for c in conversion.checks] == [(True, 0)] * 3


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (counts, r"function 'counts': test_export.py:\d+: COUNT changes in every call"),
        (lambda x: x * time.time(), r"function '<lambda>': test_export.py:\d+: time.time reads the clock"),
        (lambda x: x * len(str(x)), r"test_export.py:\d+: str\(\), print\(\) or an f-string needs the values"),
        (lambda x: np.linalg.svd(x), r"test_export.py:\d+: np.linalg.svd cannot be expressed in ONNX operators"),
    ],
)
def test_a_refusal_names_the_line(tmp_path: Path, function: Callable[..., Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        anylayer.export(function, X, path=tmp_path / "f.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: [x].pop(1), r"test_export.py:\d+: raises IndexError: pop index out of range"),
        (lambda x: x.reshape(7, 7), r"test_export.py:\d+: raises ValueError: cannot reshape array of size 24"),
    ],
)
def test_function_that_fails_for_every_array_is_not_blamed_on_tracing(
    tmp_path: Path, function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        anylayer.export(function, X, path=tmp_path / "f.onnx")
    assert "traced" not in str(caught.value)


def kept_rows(x: Any) -> Any:
    kept = x[x[:, 0] > 0]
    return kept if len(kept) else np.array([])


def kept_rows_or_none(x: Any) -> Any:
    mask = x[:, 0] > 0
    if mask.sum() == 0:
        return None, []
    return x[mask, :2], np.nonzero(mask)[0]


def kept_positions(x: Any) -> Any:
    if (x[:, 0] <= 0).all():
        return []
    order = np.nonzero(x[:, 0] > 0)[0]
    kept = []
    while order.size > 0:
        kept.append(order[0])
        order = order[1:][x[order[1:], 1] > 0]
    return kept


def test_nothing_keeps_the_other_sizes_that_depend_on_data(tmp_path: Path) -> None:
    """The output of this function is empty along both axes if nothing is selected, as it is for noise."""
    x = np.linspace(2, 3, 7, dtype=np.float32)
    anylayer.export(lambda x: x[x > 2.5][:, None] * x[x > 2.5], ((7,), "float32"), path=tmp_path / "f.onnx")
    for values, shape in ((x, (3, 3)), (-x, (0, 0))):
        (y,) = run(tmp_path / "f.onnx", x=values).values()
        assert y.shape == shape


@pytest.mark.parametrize("function", [kept_rows, kept_rows_or_none, kept_positions])
def test_nothing_has_the_type_of_the_other_paths(tmp_path: Path, function: Callable[..., Any]) -> None:
    random = np.random.default_rng(0)
    some, none = random.uniform(-1, 1, (6, 3)), -np.ones((6, 3))
    outputs = []
    for x in (some, none):
        x = x.astype(np.float32)
        assert anylayer.export(function, x, path=tmp_path / "f.onnx").checks[0].ok
        want = function(x)
        got = run(tmp_path / "f.onnx", x=x)
        outputs.append([*got.values()])
        for y, z in zip(outputs[-1], want if type(want) is tuple else [want]):
            np.testing.assert_array_equal(y.ravel(), np.ravel([] if z is None else z))
    for first, second in zip(*outputs):
        assert len(first) and second.shape == (0, *first.shape[1:])
        assert first.dtype == second.dtype


def test_a_dict_in_a_list_becomes_outputs(tmp_path: Path) -> None:
    anylayer.export(lambda x: [{"low": x.min(), "high": x.max()}, x], X, path=tmp_path / "f.onnx")
    assert list(run(tmp_path / "f.onnx", x=X)) == ["output0.low", "output0.high", "output1"]


@pytest.mark.parametrize(
    ("function", "inputs", "message"),
    [
        (lambda x: x, [], "give an example array, or a pair"),
        (lambda x: [], [X], "returns no array"),
        (lambda x: x, [X, X], "takes 1 argument, got 2 inputs"),
        (lambda x, y: x, [X], "takes 2 arguments, got 1 input"),
        (lambda x: x, ["text"], "an input of dtype <U4 cannot be exported"),
        (lambda x: x, [((1, 2), "datetime64[s]")], "an input of dtype datetime64.* cannot be exported"),
        (lambda x: x, [((1, -2), "float32")], r"an input has a negative size: \(1, -2\)"),
        (lambda x: x, [((2, "a"), "float32")], "an input must be an array or a pair"),
        (lambda x: {"x": x}, [X], "has an input and an output of one name: x"),
        (lambda x: {1: x, "1": x}, [X], "returns two outputs of one name: 1, 1"),
        (lambda x: {"": x}, [X], "returns an output whose name is empty"),
        (lambda x: None, [X], "output 'output' is of type NoneType, which a file cannot hold"),
        (
            lambda x: {"boxes": x, "found": object()},
            [X],
            "output 'found' is of type object, which a file cannot hold",
        ),
        (lambda x: (row for row in x), [X], "output 'output' is of type generator"),
        (lambda x: {"rows": [x, x[0]]}, [X], "output 'rows' is a list of arrays or lists of different shapes"),
        (lambda x: "text", [X], "output 'output' holds text, which a file cannot hold; return numbers"),
        (lambda x: [*zip(x, ["a", "b"])], [X], "output 'output0' holds text, which a file cannot hold"),
        (lambda x: {"rows": [[1, 2], [3]]}, [X], "output 'rows' is a list of arrays or lists of different shapes"),
    ],
)
def test_input_that_is_refused(tmp_path: Path, function: Any, inputs: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        anylayer.export(function, *inputs, path=tmp_path / "f.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.array("text"), "output 0 of forward is an array of <U4. Return arrays of real numbers"),
        (lambda x: (x, np.datetime64("2020-01-01")), r"output 1 of forward is an array of datetime64\[D\]"),
        *(
            [(lambda x: np.arange(3, dtype=np.longdouble), "output 0 of forward is an array of float")]
            if np.dtype(np.longdouble) != np.float64
            else []
        ),
        (lambda x: x * 1j, r"test_export.py:\d+: a complex array has no values yet"),
    ],
)
def test_results_that_a_file_cannot_hold_are_refused(
    tmp_path: Path, function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(AnyLayerError, match=message):
        anylayer.export(function, X, path=tmp_path / "f.onnx")
    assert not list(tmp_path.iterdir())


def test_sizes_stay_open(tmp_path: Path) -> None:
    def ramp(x: Any) -> Any:
        return x * np.linspace(0, 1, x.shape[1]).astype(np.float32) + x.shape[0] // 2

    random = np.random.default_rng(0)
    done = anylayer.export(
        ramp, random.random((4, 6), np.float32), path=tmp_path / "ramp.onnx", shapes={"x": ("H", "W")}
    )
    assert len({c.sizes["x"] for c in done.checks if c.sizes is not None}) == 5
    x = random.random((9, 17), np.float32)
    got = onnxruntime.InferenceSession(str(tmp_path / "ramp.onnx")).run(None, {"x": x})[0]
    np.testing.assert_allclose(got, ramp(x), atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.tile(x[:, None], reps=(1, x.shape[0], 1)),
        lambda x: np.repeat(repeats=x.shape[0], a=x, axis=1),
        lambda x: np.tile(reps=x.shape[0], A=np.arange(3, dtype=np.float32)) + x.sum(),
        lambda x: np.resize(x, new_shape=(x.shape[0] + 2, 3)),
    ],
)
def test_open_sizes_are_given_by_keywords(tmp_path: Path, function: Callable[..., Any]) -> None:
    anylayer.export(function, ((5, 4), "float32"), path=tmp_path / "f.onnx", shapes={"x": ("N", 4)})
    x = np.random.default_rng(1).random((7, 4), np.float32)
    np.testing.assert_allclose(run(tmp_path / "f.onnx", x=x)["output"], function(x), atol=1e-5)


def best_of_each_class(boxes: Any, scores: Any) -> Any:
    """Return the boxes of each class, and None if there are none, as post-processing of detectors does."""
    parts = []
    for c in range(scores.shape[1]):
        sure = scores[:, c] > 0.5
        if sure.sum() == 0:
            continue
        parts.append(boxes[sure])
    if len(parts) == 0:
        return None
    return np.concatenate(parts, 0)


def test_more_questions_than_paths_are_exported(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    boxes, scores = random.random((6, 4)).astype(np.float32), random.random((6, 8)).astype(np.float32)
    anylayer.export(best_of_each_class, boxes, scores, path=tmp_path / "f.onnx")
    for share in (1, 0.6, 0):
        some = scores * np.float32(share)
        (y,) = run(tmp_path / "f.onnx", boxes=boxes, scores=some).values()
        want = best_of_each_class(boxes, some)
        np.testing.assert_array_equal(y, np.zeros((0, 4)) if want is None else want)
