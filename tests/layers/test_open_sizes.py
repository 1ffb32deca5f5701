"""The page docs/open-sizes.md states what each layer leaves open."""

from __future__ import annotations

import re

import onnx
import pytest

from anylayer.layer import Registry
from tests.layers.open_sizes import ALL, FORMATS, ONE, PAGE, row, sentences, sizes_of, tried
from tests.readers.onnx.test_node_tests import WRITTEN_FOR

EACH = 12
"""Of the formats besides Caffe, every n-th layer is tried."""


@pytest.mark.one_per()
@pytest.mark.parametrize("type_", tried("caffe"))
def test_page_states_which_sizes_the_layer_leaves_open(type_: str) -> None:
    check_page("caffe", type_, *row(tried("caffe")[type_]))


@pytest.mark.one_per()
@pytest.mark.parametrize("format", [f for f in FORMATS if f != "caffe"])
def test_page_states_which_sizes_layers_of_other_formats_leave_open(format: str) -> None:
    if format in ("onnx", "openvino"):
        pytest.importorskip("openvino", reason="openvino is not installed")
    if format == "onnx" and not onnx.__version__.startswith(WRITTEN_FOR):
        pytest.skip(f"the expected results are those of onnx {WRITTEN_FOR}")
    found = tried(format)
    for type_ in list(found)[::EACH]:
        check_page(format, type_, *row(found[type_]))


def test_page_lists_types_of_layers_only() -> None:
    sections = PAGE.read_text("utf-8").split("\n## ")[1:]
    for format, section in zip(FORMATS, sections):
        listed = re.findall(r"`(\w+)`", "".join(line for line in section.splitlines() if line.startswith("All ")))
        assert listed and {*listed} <= {*Registry.of(format).types()} - {"Layer"}


OPEN = {
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth", "CausalConvWithState"), 1),
    **dict.fromkeys(("DynamicQuantizeLinear", "MaxUnpool", "RotaryEmbedding"), 1),
    **dict.fromkeys(("Attention", "AveragePool", "Compress", "MaxPool", "NonZero", "Unique"), 5),
}
"""Operators of ONNX, and the number of sizes at which they are compared: 1 where the values of the
test, such as indices, do not suit smaller sizes."""
FIXED = {"Attention": {"H'", "H''", "W'", "W''"}, "CausalConvWithState": {"N'"}, "RotaryEmbedding": {"W"}}
"""Sizes that must agree with others, such as the length of a mask and the sum of the lengths that it is for."""


@pytest.mark.one_per()
@pytest.mark.parametrize("type_", OPEN)
def test_sizes_of_operator_are_open(type_: str) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    for case in tried("onnx")[type_]:
        found = sizes_of(case, OPEN[type_])
        assert {*found.fixed} <= FIXED.get(type_, set()), found


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ("12*N == 24", "the batch size must be 2"),
        ("H >= 6; H == 7", "the height must be 7"),
        ("W2 >= 3; 3*H*W <= 2147483647", "the width W' must be at least 3"),
        ("2*(H//2) == H", "the height must be a multiple of 2"),
        ("N >= 2; N <= 64", "the batch size must lie in 2..64"),
        ("H2 + W == 18", "H' + W must equal 18"),
        ("54*N*W <= 2147483647", "the arrays become too large"),
        ("group=4 does not divide 2 outputs", ""),
    ],
)
def test_conditions_are_written_as_sentences(conditions: str, words: str) -> None:
    assert sentences(conditions.split("; ")) == words


def check_page(format: str, type_: str, names: str, why: str) -> None:
    """Fail unless the page states what a layer leaves open."""
    part = PAGE.read_text("utf-8").partition(f"## {FORMATS[format]}\n")[2].partition("\n## ")[0]
    every, _, table = part.partition("\n\n|")
    if names == ONE:
        assert f"`{type_}`" in part.partition("All sizes are open in ONNX Runtime")[2].partition("\n")[0], "stale"
    elif names == ALL:
        assert f"`{type_}`" in every, "stale: python -m tests.layers.open_sizes"
    else:
        line = next(t for t in table.splitlines() if t.startswith(f"| `{type_}` |"))
        assert line == f"| `{type_}` | {names} | {why.replace('|', chr(92) + '|')} |", "stale"
