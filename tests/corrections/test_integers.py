"""Corrections of integer operators for OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer import ops
from anylayer.corrections import corrected
from anylayer.errors import EngineError
from anylayer.tracing import record
from tests.corrections.harness import in_process, noise, run, traced, whole
from tests.engine_names import EVERY

pytest.importorskip("openvino", reason="openvino is not installed")


def openvino(function: Callable[..., Any], *inputs: Any) -> Any:
    return run("openvino", function, *inputs)[0]


# -------------------------------------------------------------------- reductions


@pytest.mark.one_per("dtype", "name")
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 2, 3), 1), ((4, 1, 3), 2), ((2, 9, 17), (1, 2)), ((2, 3, 4, 1), 1)]
)
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_reduction_before_an_operator(name: str, shape: Any, axis: Any, dtype: str) -> None:
    x = whole(0, 2, *shape).astype(dtype)

    def function(x: Any) -> Any:
        found = getattr(x, name)(axis=axis)
        if found.dtype == bool:
            return [~found]
        return [found + 3, found * 2 if dtype == "uint8" else -(found * 2), found]

    for got, want in zip(run("openvino", function, x), function(x)):
        assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize("axis", [0, 1, 2, (1, 2)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean", "std"])
def test_reduction_of_float64_before_an_operator(name: str, axis: Any) -> None:
    x = noise(4, 4, 4).astype(np.float64)
    want = np.exp(getattr(x, name)(axis=axis) / 3)
    got = openvino(lambda x: np.exp(getattr(x, name)(axis=axis) / 3), x)
    assert got.dtype == want.dtype and np.allclose(got, want, 1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reduction_before_a_step(axis: int) -> None:
    x, scale = whole(-99, 99, 4, 5, 6, dtype=np.float32), np.float32(0.25)

    def rounded(x: Any) -> Any:
        return np.rint(x.max(axis=axis) / scale)

    def quantized(x: Any) -> Any:
        return ops.quantize_linear(x.max(axis=axis), np.float32(2), np.int8(3))

    for function in (rounded, quantized):
        assert np.array_equal(openvino(function, x), function(x))


@pytest.mark.parametrize("axis", [0, 1, 2, (1, 2)])
@pytest.mark.parametrize(
    "op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare"]
)
def test_reduction_of_an_onnx_file_before_an_operator(op: str, axis: Any) -> None:
    x, axes = whole(1, 4, 2, 3, 4), np.atleast_1d(axis)
    shape = tuple(np.delete(x.shape, axes))

    def function(x: Any) -> Any:
        return record(op, [x, axes], shape, np.int64, keepdims=0) + 1

    assert np.array_equal(openvino(function, x), run("onnxruntime", function, x)[0])


def test_digitize_and_interp() -> None:
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(3, 2)
    assert np.array_equal(openvino(lambda x: -np.digitize(x, [-1, 0, 1]), x), -np.digitize(x, [-1, 0, 1]))
    grid = np.linspace(-1, 3, 12, dtype=np.float32).reshape(4, 3)

    def interp(x: Any) -> Any:
        return np.interp(x, [0.0, 1.0, 2.0], [1.0, 3.0, 2.0])

    assert np.allclose(openvino(interp, grid), interp(grid), atol=1e-6)


# ----------------------------------------------------------------------- 64 bits


@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint32"])
def test_input_beyond_32_bits_is_refused(dtype: str) -> None:
    large = np.iinfo(dtype).max - 7
    with pytest.raises(EngineError, match=rf"computes integers in 32 bits, and input '\w+' holds {large}$"):
        openvino(lambda x: x[::-1], np.array([1, large], dtype))


def test_negative_input_beyond_32_bits_is_refused() -> None:
    with pytest.raises(EngineError, match=r"holds -1125899906842624$"):
        openvino(lambda x: x, np.array([2**40, -(2**50), 7]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 3,
        lambda x: x + x,
        lambda x: x - (-x),
        lambda x: np.cumsum(x),
        lambda x: x**3,
        lambda x: (x.astype(np.float32) * np.float32(100)).astype(np.int64),
    ],
)
def test_result_beyond_32_bits_is_refused(function: Any) -> None:
    with pytest.raises(EngineError, match=r"a value of int64 is beyond 2\*\*31, and OpenVINO computes in 32 bits"):
        openvino(function, np.array([1, 2**30, 5, 2**30]))
    small = np.array([1, -30, 5, 7])
    assert np.array_equal(openvino(function, small), function(small))


def test_constant_beyond_32_bits_is_refused() -> None:
    with pytest.raises(EngineError, match=r"operator 'Where' .*has the constant 1099511627776, and OpenVINO"):
        openvino(lambda x: np.where(x > 0, 2**40, x), np.array([0, 1]))
    with pytest.raises(
        EngineError, match=r"has the value 1099511627776, and OpenVINO computes integers in 32 bits"
    ):
        openvino(lambda x: [np.array([2**40]), x], noise(2))


def test_selected_element_beyond_32_bits_is_refused() -> None:
    def function(i: Any) -> Any:
        return np.asarray(2 ** np.arange(50), like=i)[i]

    assert openvino(function, np.array([0, 9])).tolist() == [1, 512]
    with pytest.raises(EngineError, match=r"operator 'Gather': a value of int64 is beyond 2\*\*31"):
        openvino(function, np.array([0, 40]))


def test_infinite_floats_cast_to_smallest_integer() -> None:
    x = np.array([np.inf, -np.inf, 2.5], np.float32)

    def clipped(x: Any) -> Any:
        return np.clip(x.astype(np.int64), 0, 9)

    with np.errstate(invalid="ignore"):
        assert np.array_equal(openvino(clipped, x), clipped(x))


def test_value_that_always_fits_is_not_checked() -> None:
    graph = traced(lambda x: np.argmax(x, axis=1) * 4 + np.arange(2), noise(2, 5))
    assert corrected(graph, "openvino", checking=True).checks == []


def test_float64_beyond_float32_is_refused() -> None:
    with pytest.raises(EngineError, match=r"computes float64 in float32, and output '\w+' holds 3.40"):
        openvino(lambda x: np.exp(x), np.array([100.0, -120.0]))
    with pytest.raises(EngineError, match=r"computes float64 in float32, and input '\w+' holds 1e\+200"):
        openvino(lambda x: x / 2, np.array([1e200]))


# ----------------------------------------------------------------------- indices


@pytest.mark.one_per("engine")
@pytest.mark.parametrize("index", [64, -65, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_scatter_out_of_range_raises(engine: str, index: int) -> None:
    code = (
        "def function(x, i):\n    y = np.zeros_like(x)\n    y[i] = x[:4]\n    return y\n"
        f"x, i = np.arange(64, dtype=np.float32), np.array([0, 1, 2, {index}])\n"
        f"try:\n    print(run('{engine}', function, x, i))\n"
        "except AnyLayerError as error:\n    print('refused', error)"
    )
    assert in_process(code).startswith("refused")


@pytest.mark.parametrize("index", [[5, 0], [-4, 0], [0, 4], [0, -5]])
@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_gather_nd_out_of_range_raises(engine: str, index: list[int]) -> None:
    x = noise(3, 4)
    i, j = np.array([1, index[0]]), np.array([1, index[1]])
    with pytest.raises(EngineError):
        run(engine, lambda x, i, j: x[i, j], x, i, j)
    with pytest.raises(EngineError):
        run(engine, lambda x, i: record("GatherND", [x, i], (1,), np.float32), x, np.array([index]))
    with pytest.raises(EngineError):

        def written(x: Any, i: Any, j: Any) -> Any:
            y = x.copy()
            y[i, j] = 1
            return y

        run(engine, written, x, i, j)


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_negative_indices_match_numpy(engine: str) -> None:
    x, i, j = noise(3, 4), np.array([-3, 2, -1]), np.array([-1, -4, 3])

    def function(x: Any, i: Any, j: Any) -> Any:
        y = x.copy()
        y[i, j] = 9
        return [x[i, j], x[i], np.take(x, j, 1), y]

    for got, want in zip(run(engine, function, x, i, j), function(x, i, j)):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("index", [10, -11])
def test_gather_out_of_range_raises(engine: str, index: int) -> None:
    with pytest.raises(EngineError, match=r"an index is out of range of 10 \(-10 to 9\)|out of data bounds"):
        run(engine, lambda x, i: x[i], noise(10, 3), np.array([0, index]))


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("length", [4, -1, 1 << 22])
@pytest.mark.parametrize("is_constant", [False, True])
def test_length_of_a_reversed_sequence_out_of_range_raises(engine: str, length: int, is_constant: bool) -> None:
    lengths = np.array([length, 3])

    def reversed_(x: Any, n: Any) -> Any:
        n = lengths if is_constant else n
        return record("ReverseSequence", [x, n], x.shape, x.dtype, batch_axis=0, time_axis=1)

    with pytest.raises(EngineError, match=r"out of range of 3 steps|Invalid sequence length"):
        run(engine, reversed_, noise(2, 3), lengths)


def test_numpy_and_engines_refuse_the_same_index(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    infos = [
        helper.make_tensor_value_info(n, t, [3]) for n, t in (("x", TensorProto.FLOAT), ("i", TensorProto.INT64))
    ]
    node = helper.make_node("ScatterElements", ["x", "i", "x"], ["y"])
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (tmp_path / "n.onnx").write_bytes(model.SerializeToString())
    net = anylayer.read(tmp_path / "n.onnx")
    for engine in ("numpy", *EVERY):
        with pytest.raises(anylayer.AnyLayerError, match=r"out of|is outside"):
            net.compile(engine)({"x": noise(3), "i": np.array([0, 1, -4])})


def test_clipped_index_is_not_checked() -> None:
    def function(x: Any, i: Any) -> Any:
        return x[np.clip(i, 0, 9), np.clip(i, -3, 2)]

    graph = corrected(traced(function, noise(10, 3), whole(0, 9, 4)), "openvino", checking=True)
    assert graph.checks == []


# ---------------------------------------------------------------- computed repeats


def test_tile_by_computed_repeats() -> None:
    from anylayer.graph import Dim

    x = noise(2, 3, 4, 5)
    sizes = [Dim(f"d{i}", 100) for i in range(4)]
    for seed in range(8):
        repeats = whole(0 if seed == 7 else 1, 5, 4, seed=seed)
        got = openvino(lambda x, r: record("Tile", [x, r], sizes, np.float32), x, repeats)
        assert np.array_equal(got, np.tile(x, repeats))


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_reduction_of_float64_keeps_nan(name: str) -> None:
    x = np.array([[1, np.nan, 3], [4, 5, 6]], np.float64)
    want = getattr(x, name)(axis=1) / 3
    assert np.allclose(openvino(lambda x: getattr(x, name)(axis=1) / 3, x), want, equal_nan=True)


# ----------------------------------------------------------------------- 16 bits

SIXTEEN: dict[str, Callable[[Any], Any]] = {
    "sub": lambda x: (x[1:] - x[:-1]).astype(np.float64),
    "add": lambda x: (x[1:] + x[:-1]).astype(np.float64),
    "mul": lambda x: (x[1:] * x[:-1]).astype(np.float32),
    "negative": lambda x: (-x).astype(np.float64),
    "abs": lambda x: np.abs(x) + 1,
    "sum": lambda x: x.sum(dtype=x.dtype) / 2,
    "shift": lambda x: (x << 3) * 0.5,
    "cast": lambda x: (x.astype(np.int32) * 7).astype(x.dtype) + 0.5,
}


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
@pytest.mark.parametrize("name", SIXTEEN)
def test_integers_of_16_bits_wrap(name: str, dtype: str) -> None:
    x = np.array([3, 2, 1, 30000, 32000, 0, 25], dtype)
    want = SIXTEEN[name](x)
    got = openvino(SIXTEEN[name], x)
    assert got.dtype == want.dtype and np.allclose(got, want)


def test_cast_to_16_bits_of_value_that_fits_is_not_corrected() -> None:
    graph = corrected(traced(lambda x: (x % 100).astype(np.uint16) / 2, whole(0, 9, 4)), "openvino").graph
    assert sum(o.op == "Mod" for o in graph.ops) == 1
