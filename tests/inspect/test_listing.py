"""Tables of a network's nodes that fit 80 columns, and as HTML."""

from __future__ import annotations

import re
from typing import Any

import pytest

import anylayer
from anylayer.inspect.listing import ends, lines
from anylayer.inspect.tables import Column, fit_widths, shorten, table, unbroken

NAME = "inception_3a/a_branch_with_a_very_long_name"
NET = f"""name: "wide"
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 64 dim: 401 dim: 561 }} }} }}
layer {{ name: "{NAME}" type: "Convolution" bottom: "data" top: "maps"
  convolution_param {{ num_output: 64 kernel_size: 3 pad: 1 dilation: 1 group: 1 bias_term: true }} }}
layer {{ name: "one" type: "Branchy" bottom: "maps" top: "chosen" }}
layer {{ name: "two" type: "Mine" bottom: "chosen" top: "doubled" }}
layer {{ name: "cut" type: "Slice" bottom: "doubled" top: "a" top: "b" top: "c" top: "d" }}
layer {{ name: "three" type: "Mystery" bottom: "a" top: "wonder" mystery_param {{ depth: 3 }} }}
layer {{ name: "four" type: "ReLU" bottom: "wonder" top: "end" }}
"""


class Branchy:
    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        if float(str(inputs[0].mean())) > 0:
            return [inputs[0] + 1]
        return [inputs[0]]


class Mine:
    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] * 2]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("listing") / "net.prototxt"
    file.write_text(NET)
    return anylayer.read(file, layers=[("Branchy", Branchy), ("Mine", Mine)]).inspect()


def text(report: Any, width: int | None, **how: Any) -> list[str]:
    return [line for line, _ in lines(report, width, **how)]


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("width", [80, 100, 132])
def test_table_fits_its_width(report: Any, width: int, edges: bool) -> None:
    shown = text(report, width, edges=edges) + ends(report, width)
    assert [line for line in shown if len(line) > width] == []
    assert {line.split()[-1] for line in shown[2:4]} <= {"engine", "Python*", "engine*"}


def test_narrow_table_keeps_numbers_and_cuts_names(report: Any) -> None:
    shown = text(report, 80)
    conv, host, mine, cut, mystery, relu = shown[2:8]
    assert re.fullmatch(r"incept…g_name  Conv…tion  kernel…  1x64x401x561\s+36\.9 k  8\.29 G  engine", conv)
    assert host.endswith("Python*") and mine.endswith("engine*") and mystery.endswith("unknown")
    assert "1x16x401x561, +3" in cut
    assert relu.endswith("not traced")
    assert shown[8] == "* from test_listing.py"
    below = " ".join(line.strip() for line in shown[9:])
    assert "layer 'one' (Branchy): in Python: " in below and "test_listing.py:" in below
    assert "layer 'four' (ReLU): not traced: " in below


def test_wide_table_is_complete(report: Any) -> None:
    shown = text(report, None)
    (conv,) = [line for line in shown if line.startswith(NAME)]
    assert "num_output=64 kernel_size=3 pad=1 dilation=1 group=1 bias_term=true" in conv
    assert re.search(r"float32\[1, 64, 401, 561\]\s+36,928\s+8,292,962,304\s+engine$", conv)
    (host,) = [line for line in shown if line.startswith("one ")]
    assert "Python, test_listing.py: " in host


def test_reasons_move_below_the_table_first(report: Any) -> None:
    found = max(len(line) for line in text(report, None)[2:] if "in Python" not in line)
    shown = text(report, found - 1)
    assert NAME in "\n".join(shown)
    assert "layer 'one' (Branchy): in Python: " in "\n".join(shown)


def test_edges_name_producers(report: Any) -> None:
    shown = text(report, None, edges=True)
    assert shown[2].split("  ")[0] == NAME
    cells = [re.split(r"  +", line) for line in shown[2:8]]
    assert [c[2] for c in cells] == [
        "data (input)",
        f"maps ({NAME})",
        "chosen (one)",
        "doubled (two)",
        "a (cut)",
        "wonder (three)",
    ]
    assert cells[3][3] == (
        "a 1x16x401x561, b 1x16x401x561 (output), c 1x16x401x561 (output), d 1x16x401x561 (output)"
    )
    assert cells[5][3] == "end ? (output)"


def test_html_is_complete(report: Any) -> None:
    shown = report._repr_html_()
    assert "<p>6 nodes, 36.9 k weights" in shown
    assert "<p>inputs: data float32[1, 64, 401, 561]</p>" in shown
    assert "<p>outputs: b float32[1, 16, 401, 561]" in shown
    assert "<td>engine, test_listing.py</td>" in shown
    assert re.search(r'<tr style="color: #c00">(<td><b>[^<]*</b></td>)+</tr>', shown)
    assert "<td><b>unknown</b></td>" in shown


def test_numbers_are_never_cut() -> None:
    columns = [Column("name", 4), Column("value", right=True)]
    shown = table(columns, [("a long name", "123456789")], 15)
    assert shown[1] == ["a l…  123456789"]
    assert fit_widths([11, 9], columns, 5) == [4, 9]


def test_cells_wrap_between_their_parts() -> None:
    columns = [Column("inputs", 10, "wrap")]
    assert table(columns, [[unbroken(["a (one)", "b (two)", "a-long-name (three)"])]], 12)[1] == [
        "a (one),",
        "b (two),",
        "a-long-name",
        "(three)",
    ]


def test_long_text_is_shortened_with_an_ellipsis() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("abcdefgh", 5) == "abcd…"
    assert shorten("abcdefgh", 5, middle=True) == "ab…gh"
