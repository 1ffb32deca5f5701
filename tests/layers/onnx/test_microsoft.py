"""Tests of the quantized operators of com.microsoft: NumPy equals ONNX Runtime, engines are within a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import anylayer
from anylayer.errors import LayerError
from tests.layers.onnx.runtime import MICROSOFT, as_runtime
from tests.layers.onnx.test_quantized import SCALES, F, S, U, real, seven_bits, whole
from tests.readers.onnx.files import model, save, value

A = (U, F(0.02), np.uint8(7))
B = (whole(np.uint8, 2, 4, 6, 5), F(0.03), np.uint8(90))
C = (S, F(0.02), np.int8(-3))
D = (whole(np.int8, 4, 1, 1), F(0.04), np.int8(11))
Y, Z = (F(0.05), np.uint8(99)), (F(0.06), np.int8(-20))
M = (whole(np.uint8, 3, 8), F(0.02), np.uint8(100))
W = (seven_bits(8, 4), F(0.01), np.int8(0))
POOL = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
Q = whole(np.uint8, 4, 2, 8)

CASES = {
    "dequantize int16": as_runtime("DequantizeLinear", [whole(np.int16, 3, 4), F(1e-4), np.int16(-300)]),
    "quantize uint16": as_runtime("QuantizeLinear", [real(3, 4), F(1e-4), np.uint16(30000)]),
    "quantize per channel": as_runtime("QuantizeLinear", [real(2, 4, 3), SCALES, whole(np.int8, 4)], {"axis": 1}),
    "add": as_runtime("QLinearAdd", [*A, *B, *Y], data=(0, 3), limit=1),
    "add, broadcast": as_runtime("QLinearAdd", [*C, *D, *Z], limit=1),
    "mul": as_runtime("QLinearMul", [*A, *B, *Y], data=(0, 3), limit=1),
    "sigmoid": as_runtime("QLinearSigmoid", [*A, F(1 / 256), np.uint8(0)], limit=1),
    "leaky relu": as_runtime("QLinearLeakyRelu", [*C, *Z], {"alpha": 0.1}, limit=1),
    "softmax": as_runtime("QLinearSoftmax", [*A, F(1 / 256), np.uint8(0)], {"axis": -1, "opset": 13}, limit=1),
    "softmax of all": as_runtime(
        "QLinearSoftmax", [*A, F(1 / 256), np.uint8(0)], {"axis": 1, "opset": 12}, limit=1
    ),
    "where": as_runtime("QLinearWhere", [U > 99, *A, *B, *Y], data=(0, 1, 4), limit=1),
    "concat": as_runtime("QLinearConcat", [*Y, *A, *B], {"axis": 1}, data=(2, 5), limit=1),
    "global average": as_runtime("QLinearGlobalAveragePool", [*A, *Y], {"channels_last": 0}, limit=1),
    "global average, channels last": as_runtime(
        "QLinearGlobalAveragePool", [*A, *Y], {"channels_last": 1}, limit=1
    ),
    "average": as_runtime("QLinearAveragePool", [*A, *Y], POOL, limit=1),
    "average with padding": as_runtime("QLinearAveragePool", [*C, *Z], {**POOL, "count_include_pad": 1}, limit=1),
    "average, channels last": as_runtime("QLinearAveragePool", [*A, *Y], {**POOL, "channels_last": 1}, limit=1),
    "gemm": as_runtime("QGemm", [*M, *W, whole(np.int32, 4) // 100000, F(0.1), np.uint8(99)]),
    "gemm without bias": as_runtime("QGemm", [*M, *W, None, F(0.1), np.uint8(99)], {"alpha": 0.5}),
    "gemm, transposed": as_runtime(
        "QGemm", [M[0].T, *M[1:], W[0].T, *W[1:], None, *Y], {"transA": 1, "transB": 1}
    ),
    "gemm, per column": as_runtime(
        "QGemm", [*M, W[0], SCALES, np.zeros(4, np.int8), whole(np.int32, 4) // 100000, F(0.2), np.uint8(9)]
    ),
    "gemm to real numbers": as_runtime("QGemm", [*M, *W, whole(np.int32, 4) // 100000]),
    "to float": as_runtime(
        "MatMulIntegerToFloat", [M[0], W[0], F(0.02), F(0.01), np.uint8(3), np.int8(0), real(4)]
    ),
    "to float, per column": as_runtime(
        "MatMulIntegerToFloat", [M[0], W[0], F(0.02), SCALES, np.uint8(3), np.zeros(4, np.int8)]
    ),
    "dynamic": as_runtime("DynamicQuantizeMatMul", [real(3, 8), W[0], F(0.01), np.int8(2), real(4)]),
    "dynamic, per column": as_runtime("DynamicQuantizeMatMul", [real(3, 8), W[0], SCALES, np.zeros(4, np.int8)]),
    "four bits": as_runtime(
        "MatMulNBits", [real(3, 20), Q, real(8)], {"K": 20, "N": 4, "bits": 4, "block_size": 16}
    ),
    "four bits, zero points": as_runtime(
        "MatMulNBits",
        [real(3, 20), Q, real(8), whole(np.uint8, 4)],
        {"K": 20, "N": 4, "bits": 4, "block_size": 16},
    ),
    "four bits, real zero points": as_runtime(
        "MatMulNBits",
        [real(3, 20), Q, real(8), real(8)],
        {"K": 20, "N": 4, "bits": 4, "block_size": 16},
    ),
    "eight bits": as_runtime(
        "MatMulNBits",
        [real(3, 20), whole(np.uint8, 4, 2, 16), real(8)],
        {"K": 20, "N": 4, "bits": 8, "block_size": 16},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_matches_onnx_runtime(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    CASES[name](tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("op", "held", "attrs", "message"),
    [
        ("QLinearAdd", [F(1)], {}, "takes at least 7 inputs, got 2"),
        (
            "QLinearConcat",
            [*Y, F(1), F(1), F(1)],
            {"axis": 1},
            "takes 2 inputs and then groups of 3, got 6 inputs",
        ),
        (
            "QLinearSoftmax",
            [F(1), np.uint8(0), *Y],
            {"axis": 4, "opset": 13},
            r"axis must lie in -4..3 for 4 axes, got 4",
        ),
        ("QLinearSigmoid", [F(1), np.uint8(0), *Y], {"gain": 1.0}, "gain"),
        (
            "MatMulNBits",
            [Q, real(8)],
            {"K": 5, "N": 4, "bits": 3, "block_size": 16},
            "bits must be 2, 4 or 8, got 3",
        ),
        (
            "MatMulNBits",
            [Q, real(8)],
            {"K": 90, "N": 4, "block_size": 16},
            "its weights must have 384 values, got 128",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    op: str, held: Any, attrs: Any, message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"h{i}" for i in range(len(held))]
    node = helper.make_node(op, ["x", *names], ["y"], domain=MICROSOFT, **attrs)
    path = save(
        model([node], [value("x", [2, 4, 6, 5], np.uint8)], ["y"], dict(zip(names, held)), domains=[MICROSOFT])
    )
    with pytest.raises(LayerError, match=message):
        anylayer.read(path).compile("numpy")(U)


def test_user_class_takes_precedence(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)

    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            self.scale = blobs[0]

        def forward(self, inputs: Any) -> Any:
            return [inputs[0] * self.scale]

    node = helper.make_node("QLinearSigmoid", ["x", "s", "z", "t"], ["y"], domain=MICROSOFT)
    held = {"s": F(2), "z": np.uint8(0), "t": F(1)}
    path = save(model([node], [value("x", [3])], ["y"], held, domains=[MICROSOFT]))
    net = anylayer.read(path, layers=[("QLinearSigmoid", Mine)])
    assert net.compile("numpy")(F([1, 2, 3]))["y"].tolist() == [2, 4, 6]
