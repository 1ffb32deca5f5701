"""NonZero: the positions of elements, as OpenVINO computes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset3 as o3

from .harness import matches, noise

X = noise(2, 3, 4)
CASES = {
    f"non_zero {name} {kind}": matches(lambda x, kind=kind: o3.non_zero(x, kind), x)
    for name, x in (("some", np.maximum(X, 0)), ("all", X), ("none", np.zeros_like(X)), ("of a list", X[0, 0]))
    for kind in ("i32", "i64")
}


@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
