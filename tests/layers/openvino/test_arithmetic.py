"""Tests of the elementwise operations on two inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset15 as o15
from openvino.utils.node_factory import NodeFactory

from .harness import matches, noise

X, Y = noise(1, 3, 8, 9), noise(3, 1, 9, seed=1)
P = np.abs(X) + np.float32(0.1)
M, K = np.arange(24).reshape(2, 3, 4) - 5, np.array([3, -2, 5, -7])
B = X > 0
FLOATS = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "mod", "floor_mod", "squared_difference",
    "equal", "not_equal", "greater", "greater_equal", "less", "less_equal",
)  # fmt: skip
CASES = {name: matches(getattr(o15, name), X, Y) for name in FLOATS}
CASES |= {f"whole {name}": matches(getattr(o15, name), M, K) for name in ("add", "mod", "floor_mod", "multiply")}
CASES |= {n: matches(getattr(o15, n), B, ~B[:, :1]) for n in ("logical_and", "logical_or", "logical_xor")}
CASES |= {
    n: matches(getattr(o15, n), M.astype(np.int32), M[::-1].astype(np.int32).copy())
    for n in ("bitwise_and", "bitwise_or", "bitwise_xor")
}
CASES["power"] = matches(o15.power, P, Y)
CASES["select"] = matches(o15.select, B, X, noise(1, 3, 1, 1))
# OpenVINO's CPU cuts whole quotients towards zero whatever m_pythondiv says; its definition rounds down
CASES["whole divide"] = matches(o15.divide, M, K, want=[np.floor_divide(M, K)])

CASES["whole divide towards zero"] = matches(
    lambda a, b: NodeFactory("opset1").create("Divide", [a, b], {"auto_broadcast": "numpy", "m_pythondiv": False}),
    M.astype(np.int32),
    K.astype(np.int32),
)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
