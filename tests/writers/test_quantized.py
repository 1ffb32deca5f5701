"""Tests that quantized weights of an ONNX file stay quantized in the files that are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import anylayer
from tests.readers.onnx.files import model, save, value

RANDOM = np.random.default_rng(0)
F = np.float32


def whole(dtype: Any, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min // 2, info.max // 2, shape).astype(dtype)


def small(kind: str, *shape: int) -> Any:
    """Return random numbers of a type that NumPy lacks."""
    numbers = RANDOM.integers(0, 8, shape)
    return helper.make_tensor("", TensorProto.DataType.Value(kind), shape, numbers.reshape(-1).tolist())


def node(op: str, inputs: str, output: str, domain: str = "", **attrs: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], domain=domain, **attrs)


def scales(*shape: int) -> Any:
    return RANDOM.uniform(0.001, 0.01, shape).astype(F)


ONE, ZERO = F(0.0317), np.uint8(128)
IN = {"s": ONE, "z": ZERO}
MS = "com.microsoft"
DEQUANTIZED = [node("DequantizeLinear", "w ws wz", "r")]
QUANTIZED = node("QuantizeLinear", "x s z", "q")
PRODUCT = [*DEQUANTIZED, node("MatMul", "x r", "y")]
MAP, ROWS = [1, 16, 6, 6], [3, 64]
BITS = {"K": 64, "N": 32, "block_size": 16}

CASES: dict[str, tuple[list[Any], list[int], dict[str, Any]]] = {
    "int8": (PRODUCT, ROWS, {"w": whole(np.int8, 64, 32), "ws": F(0.01), "wz": np.int8(3)}),
    "uint8 per axis": (
        [node("DequantizeLinear", "w ws wz", "r", axis=1), node("MatMul", "x r", "y")],
        ROWS,
        {"w": whole(np.uint8, 64, 32), "ws": scales(32), "wz": whole(np.uint8, 32)},
    ),
    "int16": (PRODUCT, ROWS, {"w": whole(np.int16, 64, 32), "ws": F(1e-4), "wz": np.int16(0)}),
    "int4 in blocks": (
        [node("DequantizeLinear", "w ws", "r", axis=0, block_size=16), node("MatMul", "x r", "y")],
        ROWS,
        {"w": small("INT4", 64, 32), "ws": scales(4, 32)},
    ),
    "float8": (
        [node("DequantizeLinear", "w ws", "r"), node("MatMul", "x r", "y")],
        ROWS,
        {"w": small("FLOAT8E4M3FN", 64, 32), "ws": F(0.1)},
    ),
    "transposed": (
        [*DEQUANTIZED, node("Transpose", "r", "t", perm=[1, 0]), node("MatMul", "x t", "y")],
        ROWS,
        {"w": whole(np.int8, 32, 64), "ws": F(0.01), "wz": np.int8(3)},
    ),
    "cast": (
        [node("Cast", "w", "r", to=1), node("Mul", "r ws", "t"), node("MatMul", "x t", "y")],
        ROWS,
        {"w": whole(np.int8, 64, 32), "ws": scales(32)},
    ),
    "convolution with bias": (
        [
            QUANTIZED,
            node("DequantizeLinear", "q s z", "d"),
            node("DequantizeLinear", "w ws wz", "r", axis=0),
            node("DequantizeLinear", "b bs bz", "c", axis=0),
            node("Conv", "d r c", "e"),
            node("QuantizeLinear", "e s z", "f"),
            node("DequantizeLinear", "f s z", "y"),
        ],
        MAP,
        {
            **IN,
            "w": whole(np.int8, 32, 16, 3, 3),
            "ws": (v := scales(32)),
            "wz": np.zeros(32, np.int8),
            "b": RANDOM.integers(-999, 999, 32).astype(np.int32),
            "bs": ONE * v,
            "bz": np.zeros(32, np.int32),
        },
    ),
    "embedding": (
        [*DEQUANTIZED, node("Gather", "r i", "g"), node("Add", "x g", "y")],
        [2, 64],
        {"w": whole(np.int8, 99, 64), "ws": F(0.01), "wz": np.int8(3), "i": np.array([7, 3])},
    ),
    "QLinearConv": (
        [QUANTIZED, node("QLinearConv", "q s z w ws wz s z", "f"), node("DequantizeLinear", "f s z", "y")],
        MAP,
        {**IN, "w": whole(np.uint8, 32, 16, 3, 3), "ws": F(0.001), "wz": np.uint8(99)},
    ),
    "ConvInteger": (
        [QUANTIZED, node("ConvInteger", "q w z", "y")],
        MAP,
        {**IN, "w": whole(np.uint8, 32, 16, 3, 3)},
    ),
    "MatMulInteger": (
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]), node("MatMulInteger", "q w", "y")],
        ROWS,
        {"w": whole(np.uint8, 64, 32)},
    ),
    "QLinearAdd": (
        [QUANTIZED, node("QLinearAdd", "q s z w ws wz s z", "f", MS), node("DequantizeLinear", "f s z", "y")],
        [1, 64, 32],
        {**IN, "w": whole(np.uint8, 64, 32), "ws": F(0.01), "wz": np.uint8(99)},
    ),
    "QGemm": (
        [QUANTIZED, node("QGemm", "q s z w ws wz b", "y", MS, transB=1)],
        ROWS,
        {
            **IN,
            "w": whole(np.uint8, 32, 64),
            "ws": F(0.01),
            "wz": np.uint8(99),
            "b": RANDOM.integers(-999, 999, 32).astype(np.int32),
        },
    ),
    "DynamicQuantizeMatMul": (
        [node("DynamicQuantizeMatMul", "x w ws wz", "y", MS)],
        ROWS,
        {"w": whole(np.uint8, 64, 32), "ws": F(0.01), "wz": np.uint8(99)},
    ),
    "four bits": (
        [node("MatMulNBits", "x w ws", "y", MS, bits=4, **BITS)],
        ROWS,
        {"w": whole(np.uint8, 32, 4, 8), "ws": scales(32 * 4)},
    ),
    "eight bits, zero points": (
        [node("MatMulNBits", "x w ws wz", "y", MS, bits=8, **BITS)],
        ROWS,
        {"w": whole(np.uint8, 32, 4, 16), "ws": scales(32 * 4), "wz": whole(np.uint8, 32 * 4)},
    ),
}


def tensor(name: str, array: Any) -> Any:
    if not isinstance(array, TensorProto):
        return numpy_helper.from_array(np.asarray(array), name)
    array.name = name
    return array


def weight_bytes(path: Path) -> int:
    def size(t: Any) -> int:
        bits = 4 if t.data_type in (TensorProto.INT4, TensorProto.UINT4) else 8 * numpy_helper.to_array(t).itemsize
        return -(-int(np.prod(t.dims)) * bits // 8)

    return sum(map(size, onnx.load(path).graph.initializer))


def saved(name: str) -> Path:
    nodes, shape, constants = CASES[name]
    made = model(nodes, [value("x", shape)], ["y"], {}, 21)
    made.opset_import.append(helper.make_opsetid(MS, 1))
    made.graph.initializer.extend(tensor(n, a) for n, a in constants.items())
    return save(made)


def test_products_that_round_the_other_factor_are_noted(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    notes = anylayer.read(saved("int8")).write("written.onnx").notes
    assert any("session.qdq_matmulnbits_accuracy_level=1" in note for note in notes)
    assert not anylayer.read(saved("convolution with bias")).write("other.onnx").notes


@pytest.mark.parametrize("name", CASES)
def test_quantized_weights_stay_quantized(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    done = anylayer.read(saved(name)).write("written.onnx")
    assert all(c.ok for c in done.checks) and done.checks
    assert weight_bytes(Path("written.onnx")) <= weight_bytes(Path("net.onnx")) * 1.15
    again = anylayer.read("written.onnx").write("again.onnx")
    assert all(c.ok for c in again.checks) and again.checks


IN_IR = ("int8", "uint8 per axis", "int4 in blocks", "transposed", "convolution with bias", "QGemm", "four bits")


@pytest.mark.parametrize("name", IN_IR)
def test_quantized_weights_stay_quantized_in_an_ir(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    monkeypatch.chdir(tmp_path)
    done = anylayer.read(saved(name)).write("net.xml")
    assert all(c.ok for c in done.checks) and done.checks
    assert Path("net.bin").stat().st_size <= weight_bytes(Path("net.onnx")) * 1.15
    assert '<DYNAMIC_QUANTIZATION_GROUP_SIZE value="0"' in Path("net.xml").read_text()
