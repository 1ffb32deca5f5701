"""Tests of casts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset15 as o15

from .harness import const, matches, noise

X = noise(1, 3, 8, 9)
CASES = {
    "convert to i32": matches(lambda x: o15.convert(x, "i32"), X * 5),
    "convert to boolean": matches(lambda x: o15.convert(x, "boolean"), np.round(X)),
    # OpenVINO, asked for float32, leaves such a pair out
    "convert to f16 and back": matches(
        lambda x: o15.convert(o15.convert(x, "f16"), "f32"),
        X,
        engines=["numpy", "onnxruntime"],
        want=[X.astype(np.float16).astype(np.float32)],
    ),
    "convert_like": matches(lambda x: o15.convert_like(x, const(1)), X * 5),
}


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
