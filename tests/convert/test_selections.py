"""Outputs that select between values which differ only by rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import anylayer
from anylayer.convert.checks import error_of_rows
from anylayer.engines import onnxruntime
from anylayer.errors import ConversionError

TEXT = """
input: "data" input_shape { dim: 1 dim: 4 }
layer { name: "scores" type: "ReLU" bottom: "data" top: "scores" }
layer { name: "best" type: "ArgMax" bottom: "scores" top: "best" }
"""
TIES = np.float32([[0.5, 0.2, 1, 1]])
Run = Callable[[Mapping[str, Any]], dict[str, Any]]


def converted(path: Path, monkeypatch: pytest.MonkeyPatch, changed: Callable[[Run], Run]) -> Any:
    """Write the network while ONNX Runtime is replaced by `changed` of it."""
    original = onnxruntime.open_file
    monkeypatch.setattr(onnxruntime, "open_file", lambda *args: changed(original(*args)))
    path.with_suffix(".prototxt").write_text(TEXT)
    return anylayer.read(path.with_suffix(".prototxt")).write(path, verify={"data": TIES})


def test_selection_that_rounding_decides_is_compared_on_the_values_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounding = np.float32([[0, 0, 1e-7, 0]])
    done = converted(
        tmp_path / "net.onnx", monkeypatch, lambda run: lambda feed: run({"data": feed["data"] + rounding})
    )
    assert [c.rule == "selection" for c in done.checks] == [True]
    assert any("output 'best' selects between values so close that rounding decides" in n for n in done.notes)


def test_selection_that_rounding_inside_its_node_decides_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rounding(run: Run) -> Run:
        def changed(feed: Mapping[str, Any]) -> dict[str, Any]:
            found = run({"data": feed["data"] + np.float32([[0, 0, 1e-7, 0]])})
            return {name: x if name == "best" else run(feed)[name] for name, x in found.items()}

        return changed

    assert [c.rule == "selection" for c in converted(tmp_path / "net.onnx", monkeypatch, rounding).checks] == [
        True
    ]


def test_resizing_to_a_fixed_size_is_not_a_selection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The points of a resizing are rounded and compared, but they follow from sizes, which have no errors."""

    def rounding(run: Run) -> Run:
        return lambda feed: run({"row": feed["row"] + np.float32([[2e-7, *[0] * 8]])})

    original = onnxruntime.open_file
    monkeypatch.setattr(onnxruntime, "open_file", lambda *args: rounding(original(*args)))
    (tmp_path / "net.prototxt").write_text(TEXT)

    def nearest(row: Any) -> Any:
        """Return four values of a row of any length."""
        return row[:, np.floor(np.arange(4) * (row.shape[1] / 4)).astype(np.int64)]

    net = anylayer.read(tmp_path / "net.prototxt").before(nearest, np.ones((1, 6), np.float32))
    ties = np.ones((1, 9), np.float32)
    done = net.write(tmp_path / "net.onnx", shapes={"row": (1, "4<=W<=64")}, verify={"row": ties})
    assert [c.rule == "selection" for c in done.checks] == [True]


BOXES = np.float32([[0, 1, 0.9, 5, 6], [0, 2, 0.5, 7, 8], [0, 3, 0.5, 1, 2], [0, 1, 0.1, 3, 4]])[None]


@pytest.mark.parametrize(
    ("order", "changed", "accepted"),
    [
        ([0, 2, 1, 3], 0.0, True),  # of equal rank
        ([1, 0, 2, 3], 0.0, False),  # of another rank
        ([0, 2, 2, 3], 0.0, False),  # one row twice
        ([0, 2, 1, 3], 0.1, False),
    ],
)
def test_rows_of_equal_rank_may_change_places(order: list[int], changed: float, accepted: bool) -> None:
    got = BOXES[:, order] + np.float32([0, 0, 0, 0, changed])
    assert (error_of_rows(BOXES, got, 1e-5) < 1e-4) == accepted


@pytest.mark.parametrize("error", [1e-3, 0.0])
def test_wrong_selection_and_wrong_values_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    def wrong(run: Run) -> Run:
        def changed(feed: Mapping[str, Any]) -> dict[str, Any]:
            got = run({"data": feed["data"] + np.float32([[0, 0, error, 0]])})
            return got if error else {n: x + np.float32(n == "best") for n, x in got.items()}

        return changed

    with pytest.raises(ConversionError, match="output 'best' differs from the source"):
        converted(tmp_path / "net.onnx", monkeypatch, wrong)
    assert not (tmp_path / "net.onnx").exists()


def test_inputs_with_infinite_results_are_not_compared(tmp_path: Path) -> None:
    """Boxes of exp(1000) have no overlap in NumPy or OpenCV that means something."""

    def decoded(x: Any) -> Any:
        corners = np.exp(x[:, :4])
        kept = cv2.dnn.NMSBoxes(corners.tolist(), x[:, 4].tolist(), 0.5, 0.4)
        return corners[kept] if len(kept) else np.zeros((0, 4), np.float32)

    x = np.random.default_rng(0).random((20, 5)).astype(np.float32)
    assert anylayer.export(decoded, x, path=tmp_path / "f.onnx").checks[0].ok
