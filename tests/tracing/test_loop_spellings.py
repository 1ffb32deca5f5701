"""Other spellings of loops on data, compared with NumPy on boxes that the trace has not seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import TraceError
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from tests.engine_names import GENERAL, program_of

from .test_loops import N, arrays, check, overlaps
from .test_selections import several, traced

Function = Callable[[Array], Any]
CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of detections (N, 5), boxes and scores, to the cases."""
    CASES.append(function)
    return function


def by_score(dets: Array) -> Any:
    return dets[:, 4].argsort(kind="stable")[::-1]


def others(dets: Array, order: Any) -> Any:
    """Return what is left of `order` after its first element is taken."""
    return order[1:][overlaps(dets[order[0], :4], dets[order[1:], :4], 1.0) <= 0.4]


@case
def break_at_the_last_one(dets: Array) -> Any:
    order, keep = by_score(dets), []
    while order.size > 0:
        i = order[0]
        keep.append(i)
        if order.size == 1:
            break
        order = others(dets, order)
    return dets[keep]


@case
def best_of_a_selection(dets: Array) -> Any:
    """Only so many elements enter the loop: its first array has the size min(n, 7)."""
    dets = dets[dets[:, 4] > 0.3]
    order, keep = by_score(dets)[:7], []
    dets = dets[order]
    order = by_score(dets)
    while order.size > 0:
        keep.append(order[0])
        order = others(dets, order)
    return dets[keep[:3]], np.float32(len(keep))


@case
def break_unless_more_than_one(dets: Array) -> Any:
    order, keep, total = by_score(dets), [], dets[0] * 0
    while len(order):
        keep.append(order[0])
        total = total + np.round(dets[order[0]])
        if len(order) > 1:
            order = others(dets, order)
        else:
            break
    return np.array(keep), total


@case
def break_without_others(dets: Array) -> Any:
    order, keep = by_score(dets), []
    while True:
        keep.append(order[0])
        if order.size == 1:
            break
        order = others(dets, order)
        if order.size == 0:
            break
    return dets[keep]


@case
def delete_last_and_overlapping(dets: Array) -> Any:
    idxs, pick = np.argsort(dets[:, 3], kind="stable"), []
    while len(idxs) > 0:
        last = len(idxs) - 1
        i = idxs[last]
        pick.append(i)
        overlap = overlaps(dets[i, :4], dets[idxs[:last], :4], 1.0)
        idxs = np.delete(idxs, np.concatenate(([last], np.where(overlap > 0.3)[0])))
    return dets[pick].astype("int")


@case
def delete_first_and_overlapping(dets: Array) -> Any:
    order, pick = by_score(dets), []
    while len(order) > 0:
        pick.append(order[0])
        overlap = overlaps(dets[order[0], :4], dets[order[1:], :4], 1.0)
        order = np.delete(order, np.append(np.flatnonzero(overlap > 0.3) + 1, 0))
    return dets[pick]


@case
def without_the_last(dets: Array) -> Any:
    idxs, pick = np.argsort(dets[:, 4], kind="stable"), []
    while idxs.size > 0:
        i = idxs[-1]
        pick.append(i)
        idxs = idxs[:-1]
        idxs = np.delete(idxs, np.where(overlaps(dets[i, :4], dets[idxs, :4], 1.0) > 0.4)[0])
    return dets[pick]


@case
def lists_of_rows(dets: Array) -> Any:
    order, boxes, scores, sums, total = by_score(dets), [], [], [], dets[0, :4] * 0
    while order.size > 0:
        i = order[0]
        total = total + np.floor(dets[i, :4])
        boxes.append(dets[i, :4] * 2)
        scores.append(dets[i, 4])
        sums.append(total)
        order = others(dets, order)
    return np.array(boxes)[:, 2:], np.array(scores)[:3], np.stack(sums), np.float32(len(sums))


@case
def rows_of_the_last(dets: Array) -> Any:
    idxs, rows, pick = np.argsort(dets[:, 4], kind="stable"), [], []
    while idxs.size > 0:
        i = idxs[-1]
        rows.append(dets[i, :4] * dets[i, 4])
        pick.append(i)
        idxs = idxs[:-1]
        idxs = idxs[overlaps(dets[i, :4], dets[idxs, :4], 1.0) < 0.5]
    return np.array(rows), np.array(pick), np.stack(rows)[:, 0] * dets[pick, 1]


@case
def per_class(dets: Array) -> Any:
    classes, found = np.floor(dets[:, 0] / 40), []
    for c in range(3):
        boxes = dets[classes == c]
        if len(boxes) == 0:
            continue
        order, keep = by_score(boxes), []
        while order.size > 0:
            keep.append(order[0])
            if order.size == 1:
                break
            order = others(boxes, order)
        found.append(boxes[keep])
    return np.concatenate(found) if found else np.zeros((0, 5), np.float32)


@cache
def graph_of(function: Function) -> Graph:
    """Return the trace of a case, which serves all engines."""
    return traced(function, [TensorType.of((N, 5), np.float32)])


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_spellings_of_loops_equal_numpy(function: Function, engine: str) -> None:
    graph = graph_of(function)
    assert any(o.op == "Loop" for o in graph.ops)
    run = program_of(graph, engine)
    check(function, lambda dets: run([dets]))


@pytest.mark.parametrize("engine", GENERAL)
def test_rows_of_a_loop_without_a_step(engine: str) -> None:
    def function(dets: Array) -> Any:
        order, rows = np.flatnonzero(dets[:, 4] > 0.5), []
        while order.size > 0:
            rows.append(dets[order[0], :4] * 2)
            order = others(dets, order)
        return np.array(rows).reshape(-1, 4).astype(np.float32)

    graph = traced(function, [TensorType.of((N, 5), np.float32)])
    run = program_of(graph, engine)
    for dets in [*arrays(), arrays()[0] * np.float32([1, 1, 1, 1, 0])]:
        (got,), (want,) = run([dets]), several(function(dets))
        np.testing.assert_array_equal(got, want)
        assert got.shape == want.shape


def appends_after_a_break(dets: Array) -> Any:
    order, keep = by_score(dets), []
    while order.size > 0:
        if order.size == 1:
            break
        keep.append(order[0])
        order = others(dets, order)
    return dets[keep]


def writes_after_a_break(dets: Array) -> Any:
    order, total = by_score(dets), dets[0] * 0
    while order.size > 0:
        i = order[0]
        if order.size == 1:
            break
        total += dets[i]
        order = others(dets, order)
    return total


def reads_the_rest_after_a_break(dets: Array) -> Any:
    order, keep = by_score(dets), []
    while order.size > 0:
        keep.append(order[0])
        if order.size == 1:
            break
        order = others(dets, order)
    return dets[keep], np.float32(len(order))


def sets_something_before_a_break(dets: Array) -> Any:
    order, keep, factor = by_score(dets), [], 1
    while order.size > 0:
        keep.append(order[0])
        if order.size == 1:
            factor = 2
            break
        order = others(dets, order)
    return dets[keep] * factor


def has_an_else(dets: Array) -> Any:
    order, keep, factor = by_score(dets), [], 1
    while order.size > 0:
        keep.append(order[0])
        if order.size == 1:
            break
        order = others(dets, order)
    else:
        factor = 2
    return dets[keep] * factor


@case
def largest_row_is_deleted(dets: Array) -> Any:
    left, best = np.copy(dets), []
    while left.shape[0] > 0:
        k = np.argmax(left[:, 4])
        row = np.copy(left[k])
        best.append(row)
        left = np.delete(left, k, axis=0)
        if left.shape[0] == 0:
            break
        left = left[overlaps(row[:4], left[:, :4], 1.0) <= 0.4]
    return np.array(best)


@case
def smallest_position_is_left_out(dets: Array) -> Any:
    order, keep = np.arange(len(dets)), []
    while len(order):
        k = dets[order, 4].argmin()
        i = order[k]
        keep.append(i)
        order = order[np.arange(len(order)) != k]
        order = order[np.abs(dets[order, 4] - dets[i, 4]) > 0.1]
    return np.array(keep, np.int64)


def ends_at_a_number(dets: Array) -> Any:
    order, keep, steps = by_score(dets), [], 0
    while order.size > 0:
        keep.append(order[0])
        if order.size == 1:
            break
        order = others(dets, order)
        steps += 1
        if steps == 2:
            break
    return dets[np.stack(keep)]


def breaks_at_two(dets: Array) -> Any:
    order, keep = by_score(dets), []
    while order.size > 0:
        keep.append(order[0])
        if order.size == 2:
            break
        order = others(dets, order)
    return dets[keep]


def appends_what_is_left(dets: Array) -> Any:
    order, rows = by_score(dets), []
    while order.size > 0:
        rows.append(dets[order, 4])
        order = others(dets, order)
    return rows[0]


def appends_the_position_of_the_largest(dets: Array) -> Any:
    left, places = dets[:, 4], []
    while len(left) > 0:
        k = left.argmax()
        places.append(k)
        left = np.delete(left, k)
        left = left[left < 0.9]
    return np.array(places)


def deletes_another_element_than_the_largest(dets: Array) -> Any:
    left, pick = dets, []
    while len(left) > 0:
        pick.append(left[left[:, 4].argmax()])
        left = np.delete(left, left[:, 0].argmax(), axis=0)
        left = left[left[:, 1] > 1]
    return np.array(pick)


def keeps_the_largest(dets: Array) -> Any:
    left, pick = dets[:, 4], []
    while len(left) > 0:
        k = left.argmax()
        pick.append(left[k])
        left = left[left <= left[k]]
    return np.array(pick)


def moves_the_position(dets: Array) -> Any:
    left, pick = dets[:, 4], []
    while len(left) > 0:
        k = left.argmax()
        pick.append(left[k - 1])
        left = np.delete(left, k)
        left = left[left > 0.2]
    return np.array(pick)


def deletes_other_positions(dets: Array) -> Any:
    order, pick = by_score(dets), []
    while len(order) > 0:
        pick.append(order[0])
        overlap = overlaps(dets[order[0], :4], dets[order[1:], :4], 1.0)
        order = np.delete(order, np.append(np.flatnonzero(overlap > 0.3), 0))
    return dets[pick]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (appends_after_a_break, "the list 'keep' grows after a question that ends the loop"),
        (writes_after_a_break, "'total' changes after a question that ends the loop"),
        (reads_the_rest_after_a_break, "'order' is read after the loop at .* where one or no element"),
        (sets_something_before_a_break, "compute 'order' in different ways"),
        (has_an_else, "compute 'order' in different ways"),
        (ends_at_a_number, "!= 1 is asked of a number of selected elements"),
        (breaks_at_two, "compute 'order' in different ways"),
        (appends_what_is_left, "appends arrays of different sizes"),
        (appends_the_position_of_the_largest, "takes no single element"),
        (deletes_another_element_than_the_largest, "takes elements from two places|ArgMax of the elements"),
        (keeps_the_largest, "does not take its element out"),
        (moves_the_position, "computes Sub of the elements|computes Add of the elements"),
        (deletes_other_positions, "computes Range of the elements that are left"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_spellings_that_do_something_else_are_refused(function: Function, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        traced(function, [TensorType.of((N, 5), np.float32)])


@pytest.mark.parametrize("engine", GENERAL)
def test_delete_of_masked_positions(engine: str) -> None:
    functions: list[Function] = [
        lambda x: np.delete(x, np.where(x > 0)[0]),
        lambda x: np.delete(x, np.concatenate(([0], np.where(x[1:] > 0)[0] + 1))),
        lambda x: np.delete(x, np.concatenate(([0], np.where(x[1:] > 0)[0]))),
        lambda x: np.delete(x, np.concatenate(([0, len(x) - 1], np.where(x[1:-1] > 0)[0] + 1))),
        lambda x: np.delete(x, np.concatenate(([0, len(x) - 1], np.where(x[1:-1] > 0)[0]))),
        lambda x: np.delete(x, np.append(np.where(x[:-1] > 0)[0], -1)),
        lambda x: np.delete(x, np.where(x[2:] > 0)[0] + 2),
        lambda x: np.delete(np.stack([x, -x]), np.where(x > 0)[0], axis=1),
    ]
    for function in functions:
        run = program_of(traced(function, [TensorType.of((7,), np.float32)]), engine)
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal(7).astype(np.float32)
            for given in (x, np.abs(x), -np.abs(x)):
                np.testing.assert_array_equal(run([given])[0], function(given))


def of_two_selections(dets: Array) -> Any:
    """Both arrays of the loop are selected by one mask."""
    sure = dets[:, 4] > 0.3
    boxes, scores = dets[:, :4][sure], dets[:, 4][sure]
    low, high = boxes[:, 0], boxes[:, 2]
    order, keep = scores.argsort(kind="stable")[::-1], []
    while order.size > 0:
        i, rest = order[0], order[1:]
        keep.append(i)
        common = np.minimum(high[i], high[rest]) - np.maximum(low[i], low[rest])
        order = rest[np.where(common <= 10)[0]]
    return boxes[keep]


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", [of_two_selections, best_of_a_selection], ids=lambda f: f.__name__)
def test_written_loop_over_a_selection_is_read_again(tmp_path: Path, function: Function, engine: str) -> None:
    anylayer.export(function, ((N, 5), "float32"), path=tmp_path / "loop.onnx")
    model = anylayer.read(tmp_path / "loop.onnx").compile(engine=engine)
    check(function, lambda dets: [*model({"dets": dets}).values()])
