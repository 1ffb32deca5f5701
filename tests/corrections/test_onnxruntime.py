"""Corrections for ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import anylayer
from anylayer import ops
from anylayer.corrections import corrected
from anylayer.optimize.simplify import simplify
from anylayer.testing import run_graph
from anylayer.tracing import record
from tests.corrections.harness import in_process, noise, run, traced, whole
from tests.engine_names import EVERY


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("op", "want"), [("Div", "[{least}, -5, 2]"), ("Mod", "[0, 0, 1]")])
def test_least_integer_by_minus_one_does_not_crash(op: str, want: str, dtype: str) -> None:
    code = (
        f"x, y = np.array([np.iinfo('{dtype}').min, 5, 7], '{dtype}'), np.array([-1, -1, 3], '{dtype}')\n"
        f"print(run('onnxruntime', lambda x, y: record('{op}', [x, y], (3,), x.dtype), x, y)[0].tolist())"
    )
    assert in_process(code).strip() == want.format(least=np.iinfo(dtype).min)


@pytest.mark.parametrize(("text", "want"), [("x // -1", [-1, -(2**31)]), ("x % -1", [0, 0])])
def test_layer_divides_integer_cast_from_nan(text: str, want: list[int]) -> None:
    code = (
        "def function(x):\n    x = x.astype(np.int32)\n"
        f"    return {text}\n"
        "print(run('onnxruntime', function, np.array([1, np.nan], np.float32))[0].tolist())"
    )
    assert in_process(code).strip() == str(want)


def test_fmod_by_minus_one_is_corrected() -> None:
    x, y = whole(-9, 9, 40), whole(1, 5, 40, seed=1) * np.where(np.arange(40) % 2, 1, -1)
    got = run("onnxruntime", lambda x, y: record("Mod", [x, y], (40,), np.int64, fmod=1), x, y)[0]
    assert (got == np.fmod(x, y)).all()


def test_division_by_other_constant_is_not_corrected() -> None:
    graph = traced(lambda x: record("Div", [x, np.array(3)], (4,), np.int64), whole(-9, 9, 4))
    assert corrected(graph, "onnxruntime").graph is not graph
    assert [o.op for o in corrected(graph, "onnxruntime").graph.ops] == ["Div"]


def test_written_file_divides_by_minus_one(tmp_path: Path) -> None:
    ints = [helper.make_tensor_value_info(n, TensorProto.INT32, [1]) for n in "xyz"]
    graph = helper.make_graph([helper.make_node("Div", ["x", "y"], ["z"])], "g", ints[:2], ints[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (tmp_path / "source.onnx").write_bytes(model.SerializeToString())
    anylayer.read(tmp_path / "source.onnx").write(tmp_path / "written.onnx")
    code = (
        f"import onnxruntime\nsession = onnxruntime.InferenceSession({str(tmp_path / 'written.onnx')!r})\n"
        "print(session.run(None, {'x': np.array([-2**31], 'i4'), 'y': np.array([-1], 'i4')})[0].tolist())"
    )
    assert in_process(code).strip() == "[-2147483648]"


@pytest.mark.parametrize(
    "attrs", [{"mode": "nearest", "antialias": 1}, {"mode": "nearest", "exclude_outside": 1}, {"mode": "linear"}]
)
def test_resize_attributes_without_effect_are_removed(attrs: dict[str, object]) -> None:
    x = noise(1, 2, 9, 7)
    given = {"exclude_outside": 1, **attrs} if attrs["mode"] == "linear" else attrs

    def resized(x: object, **more: object) -> object:
        return record("Resize", [x, None, None, np.array([1, 2, 5, 11])], (1, 2, 5, 11), np.float32, **more)

    got = run("onnxruntime", lambda x: resized(x, **given), x)[0]
    want = run("onnxruntime", lambda x: resized(x, mode=attrs["mode"]), x)[0]
    assert np.array_equal(got, want)


ZEROS = (
    np.array([0, -0.0, 0, -0.0, 1, -2, np.nan, 0], np.float32),
    np.array([0, 0, -0.0, -0.0, -3, 4, 5, 1], np.float32),
)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: np.signbit(np.copysign(x, y)),
        lambda x, y: 1 / np.where(y >= 0, -x, x),
        lambda x, y: y / np.where(np.arange(8) % 2 == 0, np.abs(x), -x),
        lambda x, y: 1 / np.where(y > 1, np.float32(-0.0), np.float32(0)),
        lambda x, y: 1 / (np.where(y >= 0, x, np.float32(1)) * np.float32(2)).reshape(2, 4),
    ],
    ids=["copysign", "both branches", "one branch", "constants", "through others"],
)
def test_sign_of_selected_zero_is_kept(function: Callable[..., Any]) -> None:
    with np.errstate(all="ignore"):
        want = function(*ZEROS)
        (got,) = run("onnxruntime", function, *ZEROS)
    assert np.array_equal(got, want, equal_nan=want.dtype.kind == "f")


@pytest.mark.parametrize("engine", EVERY)
def test_arctan2_follows_the_signs_of_zeros(engine: str) -> None:
    y, x = (np.delete(values, 6) for values in ZEROS)  # without NaN
    want = np.arctan2(y, x)
    (got,) = run(engine, np.arctan2, y, x)
    assert np.allclose(got, want, rtol=1e-6, atol=0)


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("simplified", [False, True])
def test_sign_of_zero_in_a_sum_that_begins_with_zero(engine: str, dtype: Any, simplified: bool) -> None:
    x = np.array([[0, -0.0, 1, 0], [0, -0.0, 1, -0.0]], dtype)

    def function(x: Any) -> Any:
        return np.signbit(sum(row * -2 for row in x))

    graph = traced(function, x)
    (got,) = run_graph(simplify(graph, engine) if simplified else graph, [x], engine)
    assert np.array_equal(got, function(x))


def test_where_is_not_corrected_if_nothing_divides_by_it() -> None:
    graph = traced(lambda x, y: np.where(y > 0, -x, x) / 3 + x, *ZEROS)
    assert [o.op for o in corrected(graph, "onnxruntime").graph.ops] == [o.op for o in graph.ops]


def test_onnx_runtime_still_loses_the_sign_of_zero() -> None:
    """If this fails, ONNX Runtime has fixed the fault, and the correction can be removed."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Where", ["c", "x", "x"], ["y"])], "g", [condition, x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    got = session.run(None, {"c": np.array([True]), "x": np.array([-0.0], np.float32)})[0]
    assert got == 0 and not np.signbit(got).any()


def test_onnx_runtime_still_crashes_without_correction() -> None:
    """If this fails, ONNX Runtime has fixed the fault, and the correction can be removed."""
    code = (
        "from onnx import TensorProto, helper\nimport onnxruntime\n"
        "ints = [helper.make_tensor_value_info(n, TensorProto.INT32, [1]) for n in 'xyz']\n"
        "graph = helper.make_graph([helper.make_node('Div', ['x', 'y'], ['z'])], 'g', ints[:2], ints[2:])\n"
        "model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)\n"
        "session = onnxruntime.InferenceSession(model.SerializeToString())\n"
        "session.run(None, {'x': np.array([-2**31], 'i4'), 'y': np.array([-1], 'i4')})"
    )
    if onnxruntime.__version__ == "1.31.1":
        with pytest.raises(AssertionError, match="the process dies: -8"):
            in_process(code)


def test_transposed_signed_integers_without_zero_points() -> None:
    x, w = whole(-128, 127, 1, 6, 6, 4, dtype=np.int8), noise(5, 4, 3, 3)

    def function(x: Any) -> Any:
        y = record("DequantizeLinear", [x, np.float32(0.02)], x.shape, np.float32).transpose(0, 3, 1, 2)
        return ops.quantize_linear(ops.conv(y, w), np.float32(0.1), np.int8(3))

    want = ops.quantize_linear(
        ops.conv((x * np.float32(0.02)).transpose(0, 3, 1, 2), w), np.float32(0.1), np.int8(3)
    )
    (got,) = run("onnxruntime", function, x)
    assert np.abs(got.astype(int) - want).max() <= 1
