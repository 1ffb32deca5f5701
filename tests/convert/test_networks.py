"""Whole networks with open sizes. `python -m tests.convert.networks` prints the table of all of them."""

from __future__ import annotations

import pytest
from tools.reference import absent

from tests.convert.networks import rows


@pytest.mark.parametrize("name", ["qr_detector", "mtcnn_det1"])
def test_network_is_right_at_five_sizes_that_were_not_traced(name: str) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    if name == "mtcnn_det1" and (reason := absent("models/mtcnn_det1")):
        pytest.skip(reason)
    found = list(rows([name]))
    assert [(row.format, row.sizes, row.problem) for row in found] == [("onnx", 5, ""), ("openvino", 5, "")]
    assert all(row.error < 1e-4 for row in found)
