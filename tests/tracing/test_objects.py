"""Objects of classes, named tuples and dicts in lists that loops on data fill, compared with NumPy."""

from __future__ import annotations

import copy
import operator
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, TraceError
from anylayer.network import Array
from tests.engine_names import GENERAL, program_of

from .test_loops import in_onnxruntime
from .test_recorded_loops import Function, N, assert_matches_numpy, given, overlap, recorded
from .test_selections import in_openvino

CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of detections (N, 5), boxes and scores, to the cases."""
    CASES.append(function)
    return function


class Box:
    """A box with a score."""

    def __init__(self, corners: Any, score: Any, number: Any = 0) -> None:
        self.corners = corners
        self.score = score
        self.number = number
        self.name = "box"

    def area(self) -> Any:
        return (self.corners[2] - self.corners[0]) * (self.corners[3] - self.corners[1])

    def worth(self) -> Any:
        return self.score * 2


@dataclass
class Point:
    """A point with two levels of attributes."""

    x: Any
    y: Any
    levels: Any = (0.0, None)


class Slotted:
    """A score in a slot."""

    __slots__ = ("score",)

    def __init__(self, score: Any) -> None:
        self.score = score


Pair = namedtuple("Pair", ["row", "score"])


def numbers_of(boxes: list[Box]) -> Array:
    return np.array([b.number for b in boxes], np.int64)


def boxes_of(dets: Array, least: float = 0.4) -> list[Box]:
    boxes = []
    for i in range(len(dets)):
        if dets[i, 4] > least:
            boxes.append(Box(dets[i, :4], float(dets[i, 4]), i))
    return boxes


@case
def attributes_as_arrays(dets: Array) -> Any:
    boxes = boxes_of(dets)
    corners = np.array([b.corners for b in boxes], np.float32).reshape(-1, 4)
    numbers = np.array([b.number for b in boxes], np.int64)
    return corners, np.array([b.score for b in boxes], np.float64), numbers, np.int64(len(boxes))


@case
def sorted_by_an_attribute(dets: Array) -> Any:
    boxes = boxes_of(dets)
    boxes.sort(key=lambda b: b.score, reverse=True)
    return np.array([b.number for b in boxes], np.int64)


@case
def sorted_copies(dets: Array) -> Any:
    boxes = boxes_of(np.rint(dets * 4) / 4, 0.2)
    up = sorted(boxes, key=operator.attrgetter("score"))
    down = sorted(boxes, key=lambda b: b.corners[0] + b.score, reverse=True)[:3]
    areas = sorted(boxes, key=Box.area)
    return numbers_of(boxes), numbers_of(up), numbers_of(down), numbers_of(areas)


@case
def filtered(dets: Array) -> Any:
    boxes = [b for b in boxes_of(dets, 0.2) if b.score > 0.5 and b.area() < 150]
    total = np.float32(0)
    for b in boxes:
        total += b.corners[0]
    return np.array([b.worth() for b in boxes], np.float64), total


@case
def suppressed(dets: Array) -> Any:
    boxes = boxes_of(dets, 0.1)
    boxes.sort(key=lambda b: b.score, reverse=True)
    kept = []
    gone = np.zeros(N, bool)
    for i in range(len(boxes)):
        if gone[boxes[i].number]:
            continue
        kept.append(boxes[i])
        for j in range(i + 1, len(boxes)):
            if overlap(boxes[i].corners, boxes[j].corners) > 0.3:
                gone[boxes[j].number] = True
    return np.array([b.number for b in kept], np.int64)


@case
def suppressed_by_writing_to_objects(dets: Array) -> Any:
    boxes = []
    for i in range(len(dets)):
        if dets[i, 4] > 0.1:
            boxes.append(Box(dets[i, :4].copy(), dets[i, 4], i))
    order = sorted(boxes, key=lambda b: b.score, reverse=True)
    for i in range(len(order)):
        if order[i].score == 0:
            continue
        for j in range(i + 1, len(order)):
            if overlap(order[i].corners, order[j].corners) > 0.3:
                order[j].score = np.float32(0)
                order[j].corners[2] = 7
    return np.array([b.score for b in boxes], np.float32), np.array([b.corners[2] for b in boxes], np.float32)


@case
def points(dets: Array) -> Any:
    items = []
    for row in dets:
        if row[4] > 0.3:
            items.append(Point(row[0], row[1], (float(row[4]), None)))
    xs = np.array([p.x + p.levels[0] for p in items if p.levels[1] is None], np.float64)
    return xs, np.array([p.y for p in items], np.float32)


@case
def slots_and_pairs(dets: Array) -> Any:
    items, pairs = [], []
    for i in range(N):
        if dets[i, 4] > 0.3:
            items.append(Slotted(dets[i, 4]))
            pairs.append(Pair(row=i, score=float(dets[i, 4])))
    pairs = sorted(pairs, key=lambda p: p.score)
    return np.array([s.score for s in items], np.float32), np.array([p.row for p in pairs], np.int64)


@case
def dicts(dets: Array) -> Any:
    found = [{"box": row[:4], "score": row[4]} for row in dets if row[4] > 0.5]
    found.sort(key=lambda d: d["score"])
    return np.array([d["score"] for d in found[:3]], np.float32), np.array(
        [d["box"] for d in found], np.float32
    ).reshape(-1, 4)


@case
def the_same_object(dets: Array) -> Any:
    boxes = boxes_of(dets, 0.2)
    best = sorted(boxes, key=lambda b: b.score)[-1:]
    others = 0
    for a in best:
        for b in boxes:
            if a is not b:
                others += 1
    return np.int64(others)


@case
def best_of_a_list(dets: Array) -> Any:
    boxes = boxes_of(dets, 0.2)
    if len(boxes) == 0:
        return np.zeros(0, np.float32)
    best = max(boxes, key=lambda b: b.score)
    return best.corners


@case
def order_of_a_comprehension(dets: Array) -> Any:
    boxes = boxes_of(dets, 0.2)
    order = np.argsort([b.score for b in boxes], kind="stable")[::-1]
    for i in range(len(order)):
        if boxes[order[i]].corners[0] > 10:
            boxes[order[i]].corners[1] = i
    return np.array([b.corners[1] for b in boxes], np.float32), np.int64(np.sum([b.number for b in boxes]))


@case
def lists_of_numbers(dets: Array) -> Any:
    rows, scores = [], []
    for i in range(N):
        if dets[i, 4] > 0.3:
            rows.append(N - i)
            scores.append(float(dets[i, 4]))
    scores.sort(reverse=True)
    return np.array(sorted(rows), np.int64), np.array(scores, np.float64), np.int64(len(sorted(rows)))


@pytest.fixture(scope="module")
def graphs() -> dict[Function, Any]:
    return {}


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_matches_numpy(function: Function, engine: str, graphs: dict[Function, Any]) -> None:
    graph = graphs[function] = graphs.get(function) or recorded(function)
    assert_matches_numpy(function, graph, engine)


@pytest.mark.one_per()
@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_a_file_of_a_function_with_objects(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"f.{suffix}"
    anylayer.export(suppressed_by_writing_to_objects, given()[0], path=file)
    run = in_onnxruntime(file) if suffix == "onnx" else in_openvino(file)
    for dets in given():
        want = suppressed_by_writing_to_objects(dets.copy())
        for got, w in zip(run({"dets": dets}).values(), want, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-5)


def of_a_selection(dets: Array) -> Any:
    kept = dets[dets[:, 4] > 0.5]
    if len(kept) == 0:
        return np.zeros((0, 2), np.float32)
    boxes = []
    for i in range(kept.shape[0]):
        if kept[i, 2] - kept[i, 0] > 8:
            boxes.append(Box(kept[i, :4], float(kept[i, 4]), [kept[i, :2], kept[i, 2:4]]))
    boxes = sorted(boxes, key=lambda b: b.score)
    return np.array([b.number[1] for b in boxes], np.float32).reshape(-1, 2)


def test_objects_of_a_selection() -> None:
    graph = recorded(of_a_selection)
    for engine in GENERAL:
        run = program_of(graph, engine)
        for dets in given():
            want = of_a_selection(dets)
            (got,) = run([dets])
            np.testing.assert_allclose(
                got, want if len(want) else np.zeros((0, got.shape[1]), np.float32), rtol=1e-5
            )


def changed_after_it_is_appended(dets: Array) -> Any:
    boxes = []
    for i in range(N):
        if dets[i, 4] > 0.3:
            box = Box(dets[i, :4], dets[i, 4])
            boxes.append(box)
            box.number = i
    return numbers_of(boxes)


def changed_by_an_earlier_object(dets: Array) -> Any:
    boxes, all_boxes = [], [Box(dets[i, :4], dets[i, 4], i) for i in range(N)]
    for box in all_boxes:
        if box.score > 0.3:
            boxes.append(box)
    all_boxes[0].number = 20
    return numbers_of(boxes)


def new_attribute(dets: Array) -> Any:
    boxes = boxes_of(dets)
    for b in boxes:
        b.is_kept = True
    return numbers_of(boxes)


def other_type(dets: Array) -> Any:
    boxes = boxes_of(dets)
    for b in boxes:
        b.score = dets[0, 4]
    return numbers_of(boxes)


def array_read_after_a_write_to_an_object(dets: Array) -> Any:
    boxes = boxes_of(dets)
    for b in boxes:
        b.corners[0] = 3
    return dets


def in_two_lists(dets: Array) -> Any:
    first, second = [], []
    for i in range(N):
        if dets[i, 4] > 0.3:
            box = Box(dets[i, :4], dets[i, 4], i)
            first.append(box)
            second.append(box)
    for b in first:
        b.number = 5
    return numbers_of(second)


def copied(dets: Array) -> Any:
    boxes = [copy.copy(b) for b in boxes_of(dets)]
    for b in boxes:
        b.number = 5
    return numbers_of(boxes)


def in_a_set(dets: Array) -> Any:
    return np.int64(hash(boxes_of(dets)[0]))


def sorted_by_two_keys(dets: Array) -> Any:
    return numbers_of(sorted(boxes_of(dets), key=lambda b: (b.score, b.number)))


def sorted_in_a_branch(dets: Array) -> Any:
    boxes, total = boxes_of(dets), np.float32(0)
    for i in range(N):
        if dets[i, 4] > 0.5:
            boxes.sort(key=lambda b: b.score)
            total += dets[i, 4]
    return numbers_of(boxes)


def of_two_classes(dets: Array) -> Any:
    boxes = []
    for i in range(N):
        if dets[i, 4] > 0.5:
            boxes.append(Box(dets[i, :4], dets[i, 4], i))
        else:
            boxes.append(Slotted(dets[i, 4]))
    return np.array([b.score for b in boxes])


def as_an_array(dets: Array) -> Any:
    return np.array(boxes_of(dets)).shape[0]


def returned(dets: Array) -> Any:
    return boxes_of(dets)


def with_a_dict(dets: Array) -> Any:
    boxes = []
    for i in range(N):
        if dets[i, 4] > 0.5:
            boxes.append(Box({"x": dets[i, 0]}, dets[i, 4]))
    return np.array([b.score for b in boxes])


def written_pair(dets: Array) -> Any:
    pairs = []
    for i in range(N):
        if dets[i, 4] > 0.3:
            pairs.append(Pair(dets[i, :4], i))
    for p in pairs:
        p.row[0] = 2
    return np.array([p.row[0] for p in pairs])


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (changed_after_it_is_appended, "of class Box is changed after code on data has appended it to a list"),
        (changed_by_an_earlier_object, "of class Box is changed after|more than 64 paths"),
        (new_attribute, "gets the new attribute 'is_kept'; set it in __init__"),
        (other_type, "the attribute 'score' of an object in a list becomes something else"),
        (array_read_after_a_write_to_an_object, "iteration of a loop|written to later|paths"),
        (in_two_lists, "an object that is in two lists is changed: Box"),
        (copied, "Box in a list that code on data fills cannot be copied"),
        (in_a_set, "cannot be copied, hashed"),
        (sorted_by_two_keys, "the key of a sort must be a number"),
        (sorted_in_a_branch, "a list is sorted in a branch or a loop on data"),
        (of_two_classes, "differ in type, dtype or shape"),
        (as_an_array, "a list of objects of class Box is used as an array"),
        (returned, "is not an array of numbers"),
        (with_a_dict, "the attribute 'corners' of an object in a list that code on data fills is dict"),
        (written_pair, "an array in a named tuple or a dict is written to"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_refused_by_name(function: Function, rule: str) -> None:
    with pytest.raises(TraceError, match=rule):
        recorded(function)


def test_a_list_of_objects_is_not_an_output(tmp_path: Path) -> None:
    with pytest.raises(AnyLayerError, match="is of type Box, which a file cannot hold"):
        anylayer.export(returned, given()[0], path=tmp_path / "f.onnx")
