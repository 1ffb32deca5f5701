"""Loops whose number of steps depends on data, compared with NumPy: no step, one step, many, equal scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.network import Array, TensorType
from anylayer.testing import run_graph

from .test_selections import in_openvino, several, traced

N = 24
Function = Callable[[Array], Any]
CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of detections (N, 5), boxes and scores, to the cases."""
    CASES.append(function)
    return function


def overlaps(a: Array, b: Array, more: float) -> Array:
    """Return the intersection over union of a box (4,) and boxes (M, 4)."""
    low, high = np.maximum(a[:2], b[:, :2]), np.minimum(a[2:], b[:, 2:])
    size = np.maximum(0.0, high - low + more)
    common = size[:, 0] * size[:, 1]
    area = (a[2] - a[0] + more) * (a[3] - a[1] + more)
    areas = (b[:, 2] - b[:, 0] + more) * (b[:, 3] - b[:, 1] + more)
    return common / (area + areas - common)


@case
def columns_and_order(dets: Array) -> Any:
    x1, y1, x2, y2, scores = dets.T
    areas = (x2 - x1 + 1) * (y2 - y1 + 1)
    order = scores.argsort(kind="stable")[::-1]
    keep = []
    while order.size > 0:
        i = order[0]
        keep.append(i)
        rest = order[1:]
        w = np.maximum(0.0, np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]) + 1)
        h = np.maximum(0.0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]) + 1)
        common = w * h
        inds = np.where(common / (areas[i] + areas[rest] - common) <= 0.3)[0]
        order = order[inds + 1]
    return dets[keep], np.array(keep)


@case
def function_of_boxes(dets: Array) -> Any:
    order = np.argsort(-dets[:, 4], kind="stable")
    keep = []
    while len(order) > 0:
        best, order = order[0], order[1:]
        keep.append(best)
        order = order[overlaps(dets[best, :4], dets[order, :4], 0.0) < 0.5]
    return dets[keep[:5]], np.float32(len(keep))


@case
def boxes_that_shrink(dets: Array) -> Any:
    dets = dets[dets[:, 4].argsort(kind="stable")[::-1]]
    found = []
    while dets.shape[0]:
        found.append(dets[0])
        shared = overlaps(dets[0, :4], dets[1:, :4], 0.0)
        dets = dets[1:][shared <= 0.4]
    return np.stack(found)


@case
def last_first(dets: Array) -> Any:
    idxs = np.argsort(dets[:, 3], kind="stable")
    pick = []
    while len(idxs) > 0:
        last = len(idxs) - 1
        i = idxs[last]
        pick.append(i)
        shared = overlaps(dets[i, :4], dets[idxs[:last], :4], 1.0)
        idxs = idxs[:last][shared <= 0.3]
    return dets[pick]


@case
def of_a_selection(dets: Array) -> Any:
    dets = dets[dets[:, 4] > 0.5]
    order = dets[:, 4].argsort(kind="stable")[::-1]
    keep = []
    while order.size > 0:
        keep.append(order[0])
        order = order[1:][overlaps(dets[order[0], :4], dets[order[1:], :4], 1.0) <= 0.3]
    return dets[np.array(keep, np.int64)]


@case
def forever_until_nothing_is_left(dets: Array) -> Any:
    order = dets[:, 4].argsort(kind="stable")[::-1]
    keep = []
    while True:
        if order.size == 0:
            break
        keep.append(order[0])
        order = order[1:][overlaps(dets[order[0], :4], dets[order[1:], :4], 0.0) <= 0.3]
    return dets[keep]


def arrays() -> list[Array]:
    """Return detections: random ones, equal boxes, boxes apart, integers with equal scores, without area, one."""
    found = []
    for seed in range(2):
        random = np.random.default_rng(seed)
        middle, size = random.uniform(0, 100, (N, 2)), random.uniform(5, 60, (N, 2))
        found.append(np.hstack([middle - size / 2, middle + size / 2, random.uniform(0, 1, (N, 1))]))
    same, apart, whole, empty, low = (found[0].copy() for _ in range(5))
    same[:, :4] = same[0, :4]
    apart[:, :4] += np.arange(N)[:, None] * 500
    whole[:, :4] = np.floor(whole[:, :4] / 8) * 8
    whole[:, 4] = np.round(np.arange(N) % 5 / 5, 1)
    empty[::2, 2:4] = empty[::2, :2]
    low[:, 4] = 0.25
    return [a.astype(np.float32) for a in (*found, same, apart, whole, empty, low)]


def check(function: Function, run: Callable[[Array], Any]) -> None:
    """Compare a traced function with NumPy. Of equal scores the order of NumPy's argsort is not stable."""
    for dets in arrays():
        with np.errstate(all="ignore"):
            wanted = several(function(dets.copy()))
        for got, want in zip(run(dets), wanted, strict=True):
            assert got.shape == np.shape(want)
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_loops_equal_numpy(function: Function, engine: str) -> None:
    graph = traced(function, [TensorType.of((N, 5), np.float32)])
    assert any(o.op == "Loop" for o in graph.ops)
    check(function, lambda dets: run_graph(graph, [dets], engine))


def in_onnxruntime(file: Path) -> Callable[[dict[str, Array]], dict[str, Array]]:
    """Return a function that runs a file in ONNX Runtime itself."""
    session = pytest.importorskip("onnxruntime").InferenceSession(file)
    return lambda arrays: {str(i): y for i, y in enumerate(session.run(None, arrays))}


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize("function", [columns_and_order, of_a_selection])
def test_a_file_with_a_loop_over_any_number_of_boxes(function: Function, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"boxes.{suffix}"
    anylayer.export(function, arrays()[0], path=file, shapes={"dets": ("N", 5)})
    run = in_onnxruntime(file) if suffix == "onnx" else in_openvino(file)
    for n in (N, 9, 2):
        check(lambda d: function(d[:n]), lambda d: run({"dets": d[:n]}).values())
