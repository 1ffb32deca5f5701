"""The page docs/open-sizes.md states what each layer leaves open."""

from __future__ import annotations

import onnx
import pytest

from tests.layers.open_sizes import ALL, FORMATS, PAGE, row, tried
from tests.readers.onnx.test_node_tests import WRITTEN_FOR

EACH = 12
"""Of the formats besides Caffe, every n-th layer is tried."""


@pytest.mark.slow(5)
@pytest.mark.parametrize("type_", tried("caffe"))
def test_page_states_what_the_layer_leaves_open(type_: str) -> None:
    check("caffe", type_, *row(tried("caffe")[type_]))


@pytest.mark.slow(3)
@pytest.mark.parametrize("format", [f for f in FORMATS if f != "caffe"])
def test_page_states_what_layers_of_other_formats_leave_open(format: str) -> None:
    if format in ("onnx", "openvino"):
        pytest.importorskip("openvino", reason="openvino is not installed")
    if format == "onnx" and not onnx.__version__.startswith(WRITTEN_FOR):
        pytest.skip(f"the expected results are those of onnx {WRITTEN_FOR}")
    found = tried(format)
    for type_ in list(found)[::EACH]:
        check(format, type_, *row(found[type_]))


@pytest.mark.parametrize("type_", ["DepthToSpace", "SpaceToDepth"])
def test_rearranged_pixels_leave_all_sizes_open(type_: str) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    assert row(tried("onnx")[type_]) == (ALL, "")


def check(format: str, type_: str, names: str, why: str) -> None:
    """Fail unless the page states what a layer leaves open."""
    part = PAGE.read_text("utf-8").partition(f"## {FORMATS[format]}\n")[2].partition("\n## ")[0]
    every, _, table = part.partition("\n\n|")
    if names == ALL:
        assert f"`{type_}`" in every, "stale: python -m tests.layers.open_sizes"
    else:
        line = next(t for t in table.splitlines() if t.startswith(f"| `{type_}` |"))
        assert line == f"| `{type_}` | {names} | {why.replace('|', chr(92) + '|')} |", "stale"
