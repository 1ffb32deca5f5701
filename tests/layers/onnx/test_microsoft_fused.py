"""Tests of the fused operators of com.microsoft, against ONNX Runtime, and of those that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import helper

import anylayer
from anylayer.errors import LayerError
from tests.layers.onnx.runtime import MICROSOFT, as_runtime
from tests.layers.onnx.test_quantized import real
from tests.readers.onnx.files import model, save, value

X, W, B = real(1, 3, 7, 6), real(4, 3, 3, 2), real(4)
CASES = {
    "conv": as_runtime("FusedConv", [X, W, B], {"activation": "Relu", "pads": [1, 0, 1, 1], "strides": [2, 1]}),
    "conv and sum": as_runtime("FusedConv", [X, W, B, real(1, 4, 5, 5)], {"activation": "Relu"}),
    **{
        f"conv, {name}": as_runtime(
            "FusedConv", [X, W, B], {"activation": name, **({"activation_params": params} if params else {})}
        )
        for name, params in {
            "LeakyRelu": [0.1],
            "Clip": [-0.5, 0.7],
            "HardSigmoid": [0.2, 0.4],
            "Tanh": [],
            "Sigmoid": [],
        }.items()
    },
    "gemm": as_runtime(
        "FusedGemm",
        [real(3, 5), real(4, 5), real(4)],
        {"activation": "LeakyRelu", "activation_alpha": 0.2, "alpha": 0.5, "beta": 2.0, "transB": 1},
    ),
    "matmul": as_runtime("FusedMatMul", [real(2, 5, 3), real(2, 4, 5)], {"transA": 1, "transB": 1, "alpha": 0.3}),
    "quick gelu": as_runtime("QuickGelu", [X], {"alpha": 1.3}),
    "gelu": as_runtime("Gelu", [X]),
    "bias gelu": as_runtime("BiasGelu", [real(3, 4), B]),
    "fast gelu": as_runtime("FastGelu", [real(3, 4), B]),
}


@pytest.mark.parametrize("name", CASES)
def test_matches_onnx_runtime(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    CASES[name](tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("FusedConv", {"activation": "Swish"}, "activation must be one of Relu, Tanh, Sigmoid, got 'Swish'"),
        ("FusedConv", {"activation": "Clip", "activation_params": [1.0]}, "activation Clip takes 2 params, got 1"),
        ("FusedMatMul", {"transBatchA": 1}, "transposed batch axes are not supported"),
        (
            "QAttention",
            {"num_heads": 2},
            r"QAttention quantizes values inside the operator.* Quantize the network",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    op: str, attrs: Any, message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    node = helper.make_node(op, ["x", "w"], ["y"], domain=MICROSOFT, **attrs)
    path = save(model([node], [value("x", list(X.shape))], ["y"], {"w": W}, domains=[MICROSOFT]))
    with pytest.raises(LayerError, match=message):
        anylayer.read(path).compile("numpy")(X)
