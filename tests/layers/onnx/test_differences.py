"""Forms of operators that engines compute differently, compared with ONNX Runtime or onnx.reference themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

import anylayer
from anylayer.errors import EngineError
from tests.engine_names import GENERAL
from tests.readers.onnx.files import model, save, value

Attributes = dict[str, Any]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(
    op: str, opset: int, attrs: Attributes, x: np.ndarray, more: Sequence[Any], outputs: int = 1
) -> ModelProto:
    names = ["" if a is None else f"c{i}" for i, a in enumerate(more)]
    constants = {n: a for n, a in zip(names, more) if n}
    results = [f"y{i}" for i in range(outputs)]
    nodes = [helper.make_node(op, ["x", *names], results, **attrs)]
    return model(nodes, [value("x", x.shape, x.dtype)], results, constants, opset=opset)


def by_reference(proto: ModelProto, x: np.ndarray) -> np.ndarray:
    return np.asarray(ReferenceEvaluator(proto).run(None, {"x": x})[-1])


def by_onnxruntime(proto: ModelProto, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for output in proto.graph.output:  # which it needs the types of
        output.type.tensor_type.elem_type = 7 if output.name == "y1" else 1
    return np.asarray(onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, {"x": x})[-1])


def f(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


_MAP = np.random.default_rng(0).standard_normal((1, 4, 5, 7)).astype(np.float32)
_ROW = np.arange(10, dtype=np.float32).reshape(1, 1, 1, 10)
_BYTES = np.random.default_rng(0).integers(0, 256, (1, 2, 5, 7)).astype(np.uint8)
_SIZES = np.array([1, 2, 8, 4])
_UNPOOL = (np.array([[[[5, 7], [13, 15]]]]), np.array([1, 1, 5, 5]))
CASES: dict[str, tuple[Any, ...]] = {
    "nearest of operator set 10 shrinks": (by_onnxruntime, "Resize", 10, {}, _MAP, [f(1, 1, 0.6, 0.6)]),
    "nearest of operator set 10 shrinks and grows": (by_onnxruntime, "Resize", 10, {}, _MAP, [f(1, 1, 2.5, 0.6)]),
    "linear of bytes": (by_reference, "Resize", 13, {"mode": "linear"}, _BYTES, [None, None, _SIZES]),
    "cubic of bytes": (by_reference, "Resize", 13, {"mode": "cubic"}, _BYTES, [None, None, _SIZES]),
    "linear of int32": (
        by_reference, "Resize", 13, {"mode": "linear"}, _BYTES.astype(np.int32) - 99, [None, None, _SIZES]
    ),
    "size from a scale of 0.7": (
        by_onnxruntime, "Resize", 13, {"mode": "linear"}, _ROW, [None, f(1, 1, 1, 0.7)]
    ),
    "LRN with a broken bias": (by_onnxruntime, "LRN", 13, {"size": 3, "alpha": 0.3, "bias": 1.5}, _MAP, []),
    "LRN with a bias below 1": (by_onnxruntime, "LRN", 13, {"size": 3, "alpha": 0.3, "bias": 0.25}, _MAP, []),
    "indices of maxima by columns": (
        by_onnxruntime, "MaxPool", 12,
        {"kernel_shape": [2, 2], "strides": [2, 1], "storage_order": 1}, _MAP, [], 2,
    ),
    "unpooling to an output shape": (
        by_reference, "MaxUnpool", 11,
        {"kernel_shape": [2, 2], "strides": [2, 2]}, f(5, 6, 7, 8).reshape(1, 1, 2, 2), _UNPOOL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_engines_match_the_witness(name: str) -> None:
    witness, op, opset, attrs, x, more, *outputs = CASES[name]
    proto = made(op, opset, attrs, x, more, *outputs)
    net = anylayer.read(save(proto))
    want = witness(proto, x)
    for engine in ("numpy", *GENERAL):
        got = list(net.compile(engine)({"x": x}).values())[-1]
        assert got.dtype == want.dtype, engine
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=engine)


def test_even_lrn_reads_one_channel_more_after_than_before() -> None:
    squares = np.stack([(_MAP[:, max(0, k - 1) : k + 3] ** 2).sum(1) for k in range(4)], 1)
    want = _MAP / (1 + 0.3 / 4 * squares) ** 0.75
    net = anylayer.read(save(made("LRN", 13, {"size": 4, "alpha": 0.3, "beta": 0.75, "bias": 1.0}, _MAP, [])))
    for engine in ("numpy", *GENERAL):
        np.testing.assert_allclose(net.compile(engine)({"x": _MAP})["y0"], want, rtol=1e-5, err_msg=engine)


def test_range_of_int64_beyond_floats() -> None:
    start = 10**18 + 1
    nodes = [helper.make_node("Range", ["a", "b", "d"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    for stop, step in ((start + 7, 2), (start - 7, -2)):
        constants = {"a": np.int64(start), "b": np.int64(stop), "d": np.int64(step)}
        net = anylayer.read(save(model(nodes, [value("x", [1], np.int64)], ["y"], constants)))
        for engine in ("numpy", "onnxruntime"):
            got = net.compile(engine)({"x": np.zeros(1, np.int64)})["y"]
            assert got.tolist() == list(range(start, stop, step)), engine


def test_ncnn_refuses_scales_that_it_would_derive_from_sizes() -> None:
    pytest.importorskip("ncnn")
    x = _ROW[..., :9]
    net = anylayer.read(save(made("Resize", 13, {"mode": "linear"}, x, [None, f(1, 1, 1, 0.5)])))
    with pytest.raises(EngineError, match="scales that do not give whole sizes: ncnn derives them from the sizes"):
        net.compile("ncnn")
    whole = anylayer.read(save(made("Resize", 13, {"mode": "linear"}, _ROW, [None, f(1, 1, 1, 0.5)])))
    want = whole.compile("numpy")({"x": _ROW})["y0"]
    np.testing.assert_allclose(whole.compile("ncnn")({"x": _ROW})["y0"], want, rtol=1e-5)
