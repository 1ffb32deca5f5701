"""Loops that select boxes: NonMaxSuppression in their place, fewer steps, and what must stay a loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.engines import load_engine
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.optimize.simplify import simplify
from tests.engine_names import GENERAL
from tests.loops.harness import needs_compiler
from tests.tracing import test_loops
from tests.tracing.test_selections import several, traced
from tests.tracing.wild.case import all_cases

Function = Callable[[Array], Any]
N = test_loops.N
ENGINES = [e for e in GENERAL if e != "numpy"]
WILD = {c.name: c.subject for c in all_cases()}


def overlap(box: Array, boxes: Array) -> Any:
    """Return the intersection over union of a box (4,) and boxes (M, 4), by products along an axis."""
    size = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    common = np.prod(np.maximum(size, 0), axis=1)
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return common / (np.prod(box[2:] - box[:2]) + areas - common)


def columns(dets: Array) -> Any:
    """Boxes as py-faster-rcnn has them, without the 1 that it adds to widths."""
    x1, y1, x2, y2, scores = dets.T
    areas = (y2 - y1) * (x2 - x1)
    order, keep = scores.argsort(kind="stable")[::-1], []
    while order.size > 0:
        i, rest = order[0], order[1:]
        keep.append(i)
        w = np.maximum(np.minimum(x2[rest], x2[i]) - np.maximum(x1[rest], x1[i]), 0.0)
        h = np.maximum(np.minimum(y2[rest], y2[i]) - np.maximum(y1[rest], y1[i]), 0.0)
        common = h * w
        order = order[np.where(common / (areas[rest] + areas[i] - common) <= np.float32(0.4))[0] + 1]
    return dets[keep], np.array(keep)


def not_above(dets: Array) -> Any:
    order, keep = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size > 0:
        keep.append(order[0])
        order = order[1:][~(overlap(dets[order[0], :4], dets[order[1:], :4]) > np.float32(0.4))]
    return np.array(keep)


def not_at_least(dets: Array) -> Any:
    order, keep = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size > 0:
        keep.append(order[0])
        shared = overlap(dets[order[0], :4], dets[order[1:], :4])
        order = order[1:][np.logical_not(shared >= np.float32(0.4))]
    return dets[keep[:3]]


def last_of_ascending(dets: Array) -> Any:
    order, keep = np.argsort(dets[:, 4], kind="stable"), []
    while len(order) > 0:
        i, order = order[-1], order[:-1]
        keep.append(i)
        order = order[overlap(dets[i, :4], dets[order, :4]) < np.float32(0.4)]
    return dets[keep[:4]]


def center_and_size(dets: Array) -> Any:
    half = dets[:, 2:4] * np.float32(0.5)
    boxes = np.concatenate([dets[:, :2] - half, dets[:, :2] + half], axis=1)
    order, keep = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size > 0:
        keep.append(order[0])
        order = order[1:][overlap(boxes[order[0]], boxes[order[1:]]) <= np.float32(0.4)]
    return boxes[keep]


def union_in_another_order(dets: Array) -> Any:
    x1, y1, x2, y2, scores = dets.T
    areas, order, keep = (x2 - x1) * (y2 - y1), np.argsort(-scores, kind="stable"), []
    while order.size > 0:
        i, rest = order[0], order[1:]
        keep.append(i)
        w = np.maximum(0.0, np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]))
        h = np.maximum(0.0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]))
        order = rest[w * h / (areas[i] - w * h + areas[rest]) <= np.float32(0.4)]
    return np.array(keep)


def areas_of_other_boxes(dets: Array) -> Any:
    x1, y1, x2, y2, scores = dets.T
    areas, order, keep = (x2 - x1) * (y2 - x1), np.argsort(-scores, kind="stable"), []
    while order.size > 0:
        i, rest = order[0], order[1:]
        keep.append(i)
        w = np.maximum(0.0, np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]))
        h = np.maximum(0.0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]))
        order = rest[w * h / (areas[i] + areas[rest] - w * h) <= np.float32(0.4)]
    return np.array(keep)


def corners_relative_to_the_taken_box(dets: Array) -> Any:
    x1, y1, x2, y2, scores = dets.T
    order, keep = np.argsort(-scores, kind="stable"), []
    while order.size > 0:
        i, rest = order[0], order[1:]
        keep.append(i)
        left, right, lefts, rights = x1[i] - x1[i], x2[i] - x1[i], x1[rest] - x1[i], x2[rest] - x1[i]
        w = np.maximum(0.0, np.minimum(right, rights) - np.maximum(left, lefts))
        h = np.maximum(0.0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]))
        area, areas = (right - left) * (y2[i] - y1[i]), (rights - lefts) * (y2[rest] - y1[rest])
        order = rest[w * h / (area + areas - w * h) <= np.float32(0.4)]
    return np.array(keep)


def with_the_number_kept(dets: Array) -> Any:
    order, keep = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size > 0:
        keep.append(order[0])
        order = order[1:][np.abs(dets[order[1:], 0] - dets[order[0], 0]) > 9]
    return dets[keep[:3]], np.float32(len(keep))


def far_ones(dets: Array) -> Any:
    order, keep = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size > 0:
        keep.append(order[0])
        order = order[1:][np.abs(dets[order[1:], 0] - dets[order[0], 0]) > 9]
    return dets[keep[:3]]


NMS = [columns, not_above, not_at_least, last_of_ascending, center_and_size, WILD["rows_that_shrink"]]
LOOPS = [union_in_another_order, areas_of_other_boxes, WILD["smaller_area_as_union"]]
LOOPS += [WILD["areas_computed_before"], corners_relative_to_the_taken_box, with_the_number_kept, far_ones]


def near_the_threshold(seed: int) -> Array:
    """Return detections whose overlaps are 0.4 up to the last bits, or 1, with equal scores."""
    random = np.random.default_rng(seed)
    kind, length = random.integers(0, 4, N), random.choice([1, 0.4], N)
    corners, sizes = random.uniform(0, 100, (4, 2))[kind], random.uniform(5, 60, (4, 2))[kind]
    sizes[:, 0] *= length
    dets = np.hstack([corners, corners + sizes, random.random((N, 1))]).astype(np.float32)
    dets = (dets.view(np.int32) + random.integers(-2, 3, dets.shape, np.int32)).view(np.float32)
    dets[:, 4] = np.round(dets[:, 4], 1)
    return dets


def arrays() -> list[Array]:
    return [*test_loops.arrays(), *map(near_the_threshold, range(12))]


def unusual() -> list[Array]:
    """Return boxes with NaN and infinity, with corners in another order, whose areas overflow and underflow."""
    found = test_loops.arrays()
    not_finite, crossed, huge = (found[0].copy() for _ in range(3))
    not_finite[::3, 1], not_finite[1::5, 2] = np.nan, np.inf
    crossed[::2, :4] = crossed[::2, [2, 3, 0, 1]]
    huge[:, :4] *= np.float32(1e19)
    tiny = found[0] * np.float32(1e-22)
    return [not_finite, crossed, huge, tiny]


def graph_of(function: Function) -> Graph:
    return traced(function, [TensorType.of((N, 5), np.float32)])


def kinds(graph: Graph) -> list[str]:
    return [o.op for o in graph.ops if o.op in ("Loop", "NonMaxSuppression")]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", [*NMS, *LOOPS], ids=lambda f: f.__name__)
def test_selected_boxes_equal_numpy(function: Function, engine: str) -> None:
    graph = simplify(graph_of(function), engine)
    assert kinds(graph) == (["NonMaxSuppression", "Loop"] if function in NMS else ["Loop"])
    program = load_engine(engine).compile(graph, threads=1)
    for dets in [*arrays(), *(unusual() if function in NMS else [])]:
        with np.errstate(all="ignore"):
            wanted = several(function(dets.copy()))
        for got, want in zip(program([dets]), wanted, strict=True):
            assert got.shape == np.shape(want)
            np.testing.assert_array_equal(got, want)


def test_a_loop_that_ends_for_another_reason_stays() -> None:
    graph = graph_of(columns)
    body = next(o.body for o in graph.ops if o.op == "Loop")
    assert body is not None
    body.outputs[0] = body.inputs[1]
    assert kinds(simplify(graph, "onnxruntime")) == ["Loop"]


@pytest.mark.parametrize(
    ("function", "steps"), [(not_at_least, 2), (last_of_ascending, 3), (far_ones, 2), (with_the_number_kept, None)]
)
def test_a_loop_ends_after_the_boxes_that_are_read(function: Function, steps: int | None) -> None:
    graph = simplify(graph_of(function), None)
    (loop,) = [o for o in graph.ops if o.op == "Loop"]
    limit = graph.producers[loop.first]
    assert (limit.op, limit.constant(1)) == ("Min", steps) if steps else limit.op != "Min"


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_files_have_nms_in_place_of_the_loop(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"boxes.{suffix}"
    anylayer.export(columns, arrays()[0], path=file)
    run = test_loops.in_onnxruntime(file) if suffix == "onnx" else test_loops.in_openvino(file)
    assert b"NonMaxSuppression" in file.read_bytes()
    for dets in [*arrays(), *unusual()[:-1]]:  # in an IR, areas below 1e-38 are 0
        with np.errstate(all="ignore"):
            wanted = several(columns(dets.copy()))
        for got, want in zip(run({"dets": dets}).values(), wanted):
            np.testing.assert_array_equal(got, want)


def flags(boxes: Array) -> Any:
    done = np.zeros(150, np.bool_)
    for i in range(150):
        if done[i]:
            continue
        for j in range(i + 1, 150):
            if boxes[j, 0] - boxes[i, 0] < boxes[i, 2]:
                done[j] = True
    return done


def farthest(boxes: Array) -> Any:
    reach = boxes[0, 1]
    for i in range(150):
        if boxes[i, 0] > 0.5:
            reach = reach * np.float32(0.5)
        else:
            for j in range(i, 150):
                if boxes[j, 1] > reach:
                    reach = boxes[j, 1] - boxes[i, 2]
    return reach * np.ones(1, np.float32)


def always(boxes: Array) -> Any:
    done, count = np.zeros(150, np.bool_), np.zeros(150, np.float32)
    for i in range(150):
        skipped = done[i]
        for j in range(i + 1, 150):
            if boxes[j, 0] - boxes[i, 0] < boxes[i, 2]:
                done[j] = True
        count[i] = done.sum()
        if skipped:
            count[i] = -1
    return done, count


@needs_compiler
@pytest.mark.parametrize(("function", "is_limited"), [(flags, True), (farthest, True), (always, False)])
def test_a_loop_of_a_branch_runs_where_the_branch_is_taken(function: Function, is_limited: bool) -> None:
    graph = simplify(traced(function, [TensorType((150, 3), np.dtype(np.float32))]), "cpp")
    (outer,) = [o for o in graph.ops if o.op == "Loop"]
    assert outer.body is not None
    (inner,) = [o for o in outer.body.ops if o.op == "Loop"]
    limit = outer.body.producers.get(inner.inputs[0])
    assert (limit is not None and limit.op == "Where" and limit.outputs[0].shape == ()) == is_limited
    program = load_engine("cpp").compile(graph)
    for seed in range(4):
        boxes = np.random.default_rng(seed).random((150, 3), np.float32) * np.float32(0.9)
        want = function(boxes)
        for got, expected in zip(program([boxes]), want if isinstance(want, tuple) else [want]):
            assert expected.any() and np.array_equal(got, expected)
