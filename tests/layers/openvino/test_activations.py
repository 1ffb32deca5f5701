"""Tests of the activation functions with attributes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset1 as o1
from openvino import opset2 as o2
from openvino import opset15 as o15

from .harness import const, matches, noise

X = noise(1, 3, 8, 9)
F = np.float32
CASES = {
    "clamp": matches(lambda x: o15.clamp(x, -0.5, 0.7), X),
    "clamp whole": matches(lambda x: o15.clamp(x, -1.5, 2.5), np.arange(-5, 6)),
    "elu": matches(lambda x: o15.elu(x, 0.7), X),
    "prelu": matches(lambda x: o15.prelu(x, const(noise(3))), X),
    "prelu one slope": matches(lambda x: o15.prelu(x, const([0.2], F)), X),
    "gelu": matches(lambda x: o15.gelu(x, "erf"), X),
    "gelu tanh": matches(lambda x: o15.gelu(x, "tanh"), X),
    "gelu opset2": matches(o2.gelu, X),
    "swish": matches(lambda x: o15.swish(x, const(1.5, F)), X),
    "swish without beta": matches(o15.swish, X),
    "hard_sigmoid": matches(lambda x: o15.hard_sigmoid(x, const(0.3, F), const(0.4, F)), X),
    "selu": matches(lambda x: o15.selu(x, const(1.6, F), const(1.05, F)), X),
    "softmax": matches(lambda x: o15.softmax(x, -2), X),
    "softmax opset1": matches(lambda x: o1.softmax(x, 2), X),
    "log_softmax": matches(lambda x: o15.log_softmax(x, 1), X),
}


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
