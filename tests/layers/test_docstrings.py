"""Tests of the docstrings of all built-in layers."""

from __future__ import annotations

import inspect

import pytest

from anylayer.folders import modules
from anylayer.layer import Registry

WITHOUT_SOURCE = {
    ("caffe", "PassThrough"): "names the class that has the source",
    ("caffe", "Proposal"): "Ascend's layer has no public source",
    ("caffe", "YoloLoss"): "is not computed",
}


@pytest.mark.parametrize("fmt", modules("layers"))
def test_every_layer_names_its_source(fmt: str) -> None:
    silent = {d.type for d in Registry.of(fmt).definitions() if "Source:" not in (inspect.getdoc(d.cls) or "")}
    assert silent == {name for other, name in WITHOUT_SOURCE if other == fmt}


@pytest.mark.parametrize(
    "fmt", [f for f in modules("layers") if f != "onnx"]
)  # ONNX's own package words its summaries
def test_every_summary_is_a_short_sentence(fmt: str) -> None:
    wrong = {
        d.summary for d in Registry.of(fmt).definitions() if len(d.summary) > 115 or not d.summary.endswith(".")
    }
    assert not wrong
