"""Tests of the standard quantized operators: NumPy equals ONNX Runtime, engines are within a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import anylayer
from anylayer import ops
from anylayer.errors import LayerError
from tests.engine_names import ALL
from tests.layers.onnx.runtime import as_runtime
from tests.readers.onnx.files import model, save, value

RANDOM = np.random.default_rng(3)
F = np.float32
SCALES = F([0.02, 0.05, 0.011, 0.03])


def whole(dtype: Any, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def seven_bits(*shape: int) -> Any:
    """Return int8 weights from -64 to 63.

    ONNX Runtime, the reference of these tests, saturates sums of products of larger ones on processors without
    VNNI. tests/corrections/test_saturation.py has weights of 8 bits.
    """
    return whole(np.int8, *shape) // 2


def real(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(F)


def standard(op: str, inputs: Any, attrs: Any = None, **more: Any) -> Any:
    return as_runtime(op, inputs, attrs, domain="", **more)


U, S = whole(np.uint8, 2, 4, 6, 5), whole(np.int8, 2, 4, 6, 5)
CASES = {
    "dequantize uint8": standard("DequantizeLinear", [U, F(0.02), np.uint8(7)]),
    "dequantize per channel": standard("DequantizeLinear", [S, SCALES, whole(np.int8, 4)], {"axis": 1}),
    "dequantize along the last axis": standard("DequantizeLinear", [U[..., :4], SCALES, None], {"axis": -1}),
    "dequantize int16": standard("DequantizeLinear", [whole(np.int16, 3, 4), SCALES, whole(np.int16, 4)]),
    "dequantize uint16": standard("DequantizeLinear", [whole(np.uint16, 3, 4), F(1e-4), np.uint16(30000)]),
    "dequantize int32": standard("DequantizeLinear", [whole(np.int32, 3, 4) // 1000, F(1e-4), None]),
    "dequantize in blocks": standard(
        "DequantizeLinear",
        [whole(np.uint8, 2, 6), F(RANDOM.uniform(0.1, 1, (2, 2))), whole(np.uint8, 2, 2)],
        {"axis": 1, "block_size": 3},
        engines=("numpy", "onnxruntime"),
    ),
    "quantize uint8": standard("QuantizeLinear", [real(2, 4, 6), F(0.013), np.uint8(131)]),
    "quantize int8 per channel": standard("QuantizeLinear", [real(2, 4, 6), SCALES, whole(np.int8, 4)]),
    "quantize without a zero point": standard("QuantizeLinear", [real(2, 4, 6), F(0.013)]),
    "quantize ties": standard("QuantizeLinear", [F([0.5, 1.5, 2.5, -0.5, 300, -300]), F(1), np.int8(0)]),
    "quantize uint16": standard("QuantizeLinear", [real(3, 4), F(1e-4), np.uint16(30000)]),
    "quantize int16 per channel": standard("QuantizeLinear", [real(3, 4), SCALES / 100, whole(np.int16, 4)]),
    "dynamic": standard("DynamicQuantizeLinear", [real(3, 4)], outputs=3),
    "dynamic of one sign": standard("DynamicQuantizeLinear", [np.abs(real(3, 4)) + 1], outputs=3),
    "dynamic of zeros": standard("DynamicQuantizeLinear", [np.zeros((3, 4), F)], outputs=3),
    "matmul integer": standard("MatMulInteger", [U, seven_bits(5, 3), np.uint8(3), np.int8(-2)]),
    "matmul integer, per column": standard(
        "MatMulInteger",
        [U, seven_bits(5, 3), np.uint8(3), whole(np.int8, 3)],
        engines=("numpy", "onnxruntime"),
    ),
    "conv integer": standard(
        "ConvInteger", [U, whole(np.uint8, 3, 4, 3, 2), np.uint8(9), np.uint8(1)], {"strides": [2, 1]}
    ),
    "conv integer, padded": standard(
        "ConvInteger", [U, whole(np.uint8, 4, 2, 3, 3), np.uint8(0)], {"pads": [1, 0, 1, 2], "group": 2}
    ),
    "qlinear matmul": standard(
        "QLinearMatMul",
        [U, F(0.02), np.uint8(7), seven_bits(5, 3), F(0.01), np.int8(0), F(0.05), np.uint8(99)],
    ),
    "qlinear matmul, per column": standard(
        "QLinearMatMul",
        [U, F(0.02), np.uint8(7), seven_bits(5, 4), SCALES, np.zeros(4, np.int8), F(0.2), np.uint8(99)],
    ),
    "qlinear conv": standard(
        "QLinearConv",
        [
            *(U, F(0.02), np.uint8(7), whole(np.uint8, 3, 4, 3, 2), F(0.01), np.uint8(120), F(0.2), np.uint8(99)),
            whole(np.int32, 3) // 100000,
        ],
        {"pads": [1, 1, 0, 2], "strides": [1, 2]},
    ),
    "qlinear conv, per channel": standard(
        "QLinearConv",
        [U, F(0.02), np.uint8(7), seven_bits(4, 2, 3, 3), SCALES, np.zeros(4, np.int8), F(0.2), np.uint8(99)],
        {"group": 2, "auto_pad": "SAME_UPPER"},
    ),
    "qlinear conv of int8": standard(
        "QLinearConv",
        [S, F(0.02), np.int8(7), seven_bits(3, 4, 1, 1), F(0.01), np.int8(0), F(0.1), np.int8(-9)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_matches_onnx_runtime(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    CASES[name](tmp_path, monkeypatch)


def run(node: Any, held: dict[str, Any], feed: Any, **more: Any) -> Any:
    path = save(model([node], [value("x", list(feed.shape), feed.dtype)], ["y"], {}, 21))
    made = model([node], [value("x", list(feed.shape), feed.dtype)], ["y"], {}, 21)
    made.graph.initializer.extend(
        a if isinstance(a, TensorProto) else numpy_helper.from_array(np.asarray(a), n) for n, a in held.items()
    )
    path = save(made)
    return anylayer.read(path).compile(**more)(feed)["y"]


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
@pytest.mark.parametrize("engine", ALL)
def test_4_bit_constants(kind: str, engine: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    low, high = (-8, 7) if kind == "INT4" else (0, 15)
    q = RANDOM.integers(low, high, (4, 6), endpoint=True)
    scale = RANDOM.uniform(0.1, 1, (4, 2)).astype(F)
    tensor = helper.make_tensor("q", TensorProto.DataType.Value(kind), q.shape, q.reshape(-1).tolist())
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1, block_size=3),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    made = model(nodes, [value("x", [2, 4])], ["y"], {"s": scale}, 21)
    made.graph.initializer.append(tensor)
    x = real(2, 4)
    got = anylayer.read(save(made)).compile(engine, threads=1)(x)["y"]
    np.testing.assert_allclose(got, x @ (q * np.repeat(scale, 3, 1)).astype(F), rtol=1e-5, atol=1e-5)


def test_float8_is_dequantized() -> None:
    q = np.array([0.5, -1.75, 448], ml_dtypes.float8_e4m3fn)
    assert ops.dequantize_linear(q, np.asarray(F(0.5)), np.zeros((), q.dtype)).tolist() == [0.25, -0.875, 224]


@pytest.mark.parametrize(
    ("op", "held", "attrs", "message"),
    [
        ("DequantizeLinear", [SCALES], {"axis": 2}, "the scale has 4 numbers, but axis 2 has size 6"),
        ("DequantizeLinear", [SCALES], {"axis": 9}, r"axis must lie in -4..3 for 4 axes, got 9"),
        (
            "DequantizeLinear",
            [np.ones((2, 2), F)],
            {"axis": 1},
            r"the scale must have one number, or one per slice of axis 1, got shape \(2, 2\)",
        ),
        (
            "DequantizeLinear",
            [np.ones((2, 2), F)],
            {"axis": 1, "block_size": 3},
            r"the scale must be of shape \(2, 2, 6, 5\) for block_size=3, got \(2, 2\)",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    op: str, held: Any, attrs: Any, message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    node = helper.make_node(op, ["x", *(f"h{i}" for i in range(len(held)))], ["y"], **attrs)
    with pytest.raises(LayerError, match=message):
        run(node, {f"h{i}": a for i, a in enumerate(held)}, U, engine="numpy")
