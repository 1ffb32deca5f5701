"""Random Caffe networks in OpenCV 4, always the same ones, and the table of differences in docs/opencv.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from anylayer.writers.caffe.dialects import DIALECTS
from tests.writers.caffe.opencv4 import opencv4

from .opencv4 import __main__ as command
from .opencv4.grammar import KINDS
from .opencv4.judge import judge, make
from .opencv4.stated import ROWS, Row, markdown, row_of

PAGE = Path(__file__).parents[2] / "docs" / "opencv.md"
NEED_BOXES = {"DetectionOutput", "Proposal", "PSROIPooling", "ROIPooling", "Input", "Silence"}
"""Layers that other tests compare: their inputs are boxes, or they have no outputs."""


@pytest.mark.one_per()
@pytest.mark.parametrize("first", range(0, 250, 25))
def test_differences_from_opencv_are_stated(first: int) -> None:
    counts = command.run(range(first, first + 25), opencv4())
    assert counts.total() == 25 and not command.unstated(counts)


@pytest.mark.parametrize("row", [r for r in ROWS if r.example], ids=lambda row: f"{row.layer}: {row.what}")
def test_stated_difference_is_true(row: Row) -> None:
    """OpenCV differs on the row's example, in the way that the row states and for no other reason."""
    assert row.example is not None
    assert row_of(row.example, judge(row.example, opencv4())) == row


def test_networks_have_every_layer_of_opencv() -> None:
    assert set(DIALECTS["opencv"].only or ()) <= {*KINDS, *NEED_BOXES}
    assert {made.type for seed in range(120) for made in make(seed).layers} == set(KINDS)


def test_page_has_the_table() -> None:
    assert f"\n\n{markdown()}\n\n" in PAGE.read_text()
