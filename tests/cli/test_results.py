"""Outputs are shown as classes with scores, detections, or summaries."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from anylayer import AnyLayerError
from anylayer.cli.results import (
    ShowOptions,
    best,
    channels_first,
    concat_results,
    detections,
    json_data,
    kind_of,
    lines,
    read_labels,
    split_batch,
)
from anylayer.images.preprocess import Placement

ROWS = np.array(
    [[0, 1, 0.25, 0.1, 0.2, 0.3, 0.4], [0, 3, 0.75, 0.5, 0.5, 1.0, 1.25], [-1, 0, 0.9, 0, 0, 0, 0]], np.float32
).reshape(1, 1, 3, 7)
PROB = np.array([[0.1, 0.5, 0.0, 0.5]], np.float32)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((1, 1000), "top"),
        ((1, 1000, 1, 1), "top"),
        ((10,), "top"),
        ((1, 1, 5, 5), "map"),
        ((1, 21, 5, 5), "map"),
        ((1, 4420, 4), "values"),
        ((2, 10), "values"),
        ((1, 1), "values"),
        ((), "values"),
        ((1, 1, 9, 7), "map"),
    ],
)
def test_shape_determines_presentation(shape, kind):
    assert kind_of(np.full(shape, 0.3, np.float32)) == kind


def test_rows_of_seven_with_integer_classes_are_detections():
    assert kind_of(ROWS) == "detections"
    assert kind_of(ROWS, "map") == "map"
    assert kind_of(np.zeros((1, 1, 0, 7), np.float32)) == "detections"


def test_top_classes_with_ties_sorted_by_class():
    assert best(PROB, ShowOptions(top=3), "prob") == [[(1, "", 0.5), (3, "", 0.5), (0, "", pytest.approx(0.1))]]
    shown = list(lines("prob", PROB, ShowOptions(top=2, labels=["a", "b", "c", "d"]), None))
    assert shown == ["prob float32[1, 4]", "         0.5      1  b", "         0.5      3  d"]


def test_wrong_number_of_labels_is_refused():
    with pytest.raises(AnyLayerError, match="output 'prob' has 4 classes, but the labels file has 2 lines"):
        best(PROB, ShowOptions(labels=["a", "b"]), "prob")


def test_detections_above_threshold_in_pixels():
    place = Placement(10, 20, 100, 200)
    (found,) = detections(ROWS, ShowOptions(threshold=0.5, labels=["background", "a", "b", "c"]), place)
    assert (found.number, found.label, found.score) == (3, "c", 0.75)
    assert found.box == (60, 120, 110, 270)
    assert [d.number for d in detections(ROWS, ShowOptions(threshold=0.2), place)] == [3, 1]


def test_class_without_label_is_refused():
    with pytest.raises(AnyLayerError, match="class 3 is detected, but the labels file has 2 lines"):
        detections(ROWS, ShowOptions(labels=["background", "a"]), None)


def test_rows_of_other_width_are_refused_as_detections():
    with pytest.raises(
        AnyLayerError, match=r"detections have 7 values per row, but the output has shape \(1, 4\)"
    ):
        detections(PROB, ShowOptions(), None)


def test_detections_as_text():
    shown = list(lines("out", ROWS, ShowOptions(threshold=0.5), None))
    assert shown == [
        "out: 1 of 3 with a score of at least 0.5 (relative to the input)",
        "  score      left      top    right   bottom  class",
        "  0.750    0.5000   0.5000   1.0000   1.2500    3",
    ]


def test_summary_counts_values_that_are_not_finite():
    output = np.array([[1.0, 2.0], [np.nan, 3.0]], np.float32).repeat(5, 0).reshape(1, 1, 10, 2)
    assert list(lines("m", output, ShowOptions(), None)) == [
        "m float32[1, 1, 10, 2]: 1..3, mean 2; 5 of 20 values are NaN or infinite"
    ]


def test_small_output_is_printed():
    assert list(lines("v", np.array([[1.5, 2], [3, 4]], np.float32), ShowOptions(), None)) == [
        "v float32[2, 2]: 1.5 2 3 4"
    ]


def test_json_data_of_outputs():
    assert json_data("p", PROB, ShowOptions(top=1), None)["top"] == [{"class": 1, "label": "", "score": 0.5}]
    data = json_data("d", ROWS, ShowOptions(), Placement(0, 0, 10, 10))
    assert data["unit"] == "pixels"
    assert data["detections"] == [{"class": 3, "label": "", "score": 0.75, "box": [5, 5, 10, 12.5]}]
    data = json_data("v", np.array([[1.0, 2.0]] * 2, np.float32), ShowOptions(), None)
    assert data == {
        "shape": [2, 2],
        "dtype": "float32",
        "finite": 4,
        "min": 1.0,
        "max": 2.0,
        "mean": 1.5,
        "values": [[1.0, 2.0]] * 2,
    }
    assert "values" not in json_data("v", np.zeros((2, 2, 1000), np.float32), ShowOptions(), None)


def test_batch_is_split_with_detections_by_image():
    rows = ROWS.copy()
    rows[0, 0, 1, 0] = 1
    first, second = split_batch({"y": np.array([[1.0, 2], [3, 4]]), "rows": rows}, 2)
    assert_array_equal(second["y"], [[3, 4]])
    assert_array_equal(first["rows"][0, 0, :, 1], [1])
    assert_array_equal(second["rows"][0, 0], [[0, 3, 0.75, 0.5, 0.5, 1.0, 1.25]])


def test_output_without_batch_axis_is_refused():
    with pytest.raises(AnyLayerError, match=r"output 'y' float64\[1, 4\] has no axis for 2 samples"):
        split_batch({"y": np.zeros((1, 4))}, 2)


def test_results_are_concatenated_with_numbered_detections():
    joined = concat_results([{"y": np.zeros((1, 2)), "d": ROWS}, {"y": np.ones((1, 2)), "d": ROWS[:, :, 1:]}])
    assert_array_equal(joined["y"], [[0, 0], [1, 1]])
    assert joined["d"].shape == (1, 1, 5, 7)
    assert_array_equal(joined["d"][0, 0, :, 0], [0, 0, -1, 1, -1])


def test_results_of_different_shapes_are_refused():
    with pytest.raises(AnyLayerError, match="output 'y' has different shapes for the inputs"):
        concat_results([{"y": np.zeros((1, 2))}, {"y": np.zeros((1, 3))}])


def test_labels_are_read_by_line(tmp_path):
    (tmp_path / "l.txt").write_text("n01 cat\n\n dog\x1b[2J\n\n")
    assert read_labels(tmp_path / "l.txt") == ["n01 cat", "", "dog[2J"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\n", "the file has no labels"),
        (b"\xff\xfe\x00", "labels must be UTF-8 text"),
        (None, "no such file"),
    ],
)
def test_malformed_labels_are_refused(tmp_path, data, message):
    if data is not None:
        (tmp_path / "l.txt").write_bytes(data)
    with pytest.raises(AnyLayerError, match=message):
        read_labels(tmp_path / "l.txt")


def test_channels_last_maps():
    assert kind_of(np.zeros((1, 1, 1, 9), np.float32), "auto", True) == "top"
    assert kind_of(np.zeros((1, 8, 8, 2), np.float32), "auto", True) == "map"
    wide = np.zeros((1, 2, 6, 3), np.float32)
    assert channels_first(wide, True).shape == (1, 3, 2, 6)
    assert channels_first(wide, False) is wide


@pytest.mark.parametrize(
    ("values", "kind"),
    [([10, 20, 110.5, 90], "values"), ([0.1, 0.2, 0.3, 0.4], "top"), ([10, 20, 110.5], "top")],
)
def test_one_box_is_not_shown_as_classes(values: list[float], kind: str) -> None:
    assert kind_of(np.array([values], np.float32)) == kind
