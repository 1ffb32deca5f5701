"""Loops with ifs on data, recorded as the operator Loop: compared with NumPy on inputs that take every path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import TraceError
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from tests.engine_names import GENERAL, program_of

from .test_loops import in_onnxruntime
from .test_selections import in_openvino, several, traced

N = 9
Function = Callable[[Array], Any]
CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of detections (N, 5), boxes and scores, to the cases."""
    CASES.append(function)
    return function


def overlap(a: Any, b: Any) -> Any:
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return np.float32(0)
    common = w * h
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


@case
def flags_and_continue(dets: Array) -> Any:
    order = np.argsort(-dets[:, 4], kind="stable")
    dets = dets[order]
    gone, keep = np.zeros(len(dets), bool), []
    for i in range(len(dets)):
        if gone[i] or dets[i, 4] < 0.1:
            continue
        keep.append(order[i])
        for j in range(i + 1, len(dets)):
            if overlap(dets[i], dets[j]) > 0.4:
                gone[j] = True
    return np.array(keep, np.int64), dets[~gone]


@case
def flags_in_a_list(dets: Array) -> Any:
    n = dets.shape[0]
    gone = [False] * n
    for i in range(n):
        if gone[i]:
            continue
        for j in range(n):
            if j != i and dets[j, 4] <= dets[i, 4] and overlap(dets[i], dets[j]) > 0.4:
                gone[j] = True
    return np.array(gone), np.float32(sum(gone))


@case
def scores_set_to_zero(dets: Array) -> Any:
    scores = dets[:, 4].copy()
    order = np.argsort(-scores, kind="stable")
    for k in range(N):
        if scores[order[k]] == 0:
            continue
        for m in range(k + 1, N):
            a, b = order[k], order[m]
            if overlap(dets[a], dets[b]) >= 0.4:
                scores[b] = 0
    return scores


@case
def largest_until_a_limit(dets: Array) -> Any:
    scores, keep = dets[:, 4].copy(), []
    while True:
        i = scores.argmax()
        if scores[i] < 0.1:
            break
        keep.append(i)
        for j in range(N):
            if overlap(dets[i], dets[j]) > 0.4:
                scores[j] = 0
        scores[i] = 0
    return dets[keep], np.array(keep, np.int64)


@case
def decayed_scores(dets: Array) -> Any:
    boxes = dets.copy()
    last = boxes.shape[0]
    for i in range(N):
        best, place = boxes[i, 4], i
        k = i + 1
        while k < last:
            if best < boxes[k, 4]:
                best, place = boxes[k, 4], k
            k = k + 1
        row = boxes[i].copy()
        boxes[i] = boxes[place]
        boxes[place] = row
        k = i + 1
        while k < last:
            shared = overlap(boxes[i], boxes[k])
            if shared > 0:
                boxes[k, 4] = boxes[k, 4] * np.exp(-shared * shared / np.float32(0.5))
                if boxes[k, 4] < 0.1:
                    boxes[k] = boxes[last - 1]
                    last = last - 1
                    k = k - 1
            k += 1
    return boxes[:last]


@case
def repeated_labels(dets: Array) -> Any:
    labels, scores, previous = [], [], -1
    for t in range(N):
        k = np.argmax(dets[t])
        if k != previous and k != 4:
            labels.append(k)
            scores.append(float(dets[t, k]))
        previous = k
    return np.array(labels, np.int64), np.array(scores, np.float32)


@case
def repeated_labels_from_none(dets: Array) -> Any:
    labels, previous = [], None
    for k in dets.argmax(axis=1):
        if k != previous and k != 4:
            labels.append(k)
        previous = k
    return np.array(labels, np.int64)


@case
def segments(dets: Array) -> Any:
    start, inside, found = 0, False, []
    for t, s in enumerate(dets[:, 4]):
        if s > 0.5 and not inside:
            start, inside = t, True
        elif s <= 0.5 and inside:
            found.append([start, t])
            inside = False
    if inside:
        found.append([start, N])
    return np.array(found, np.int64).reshape(-1, 2)


@case
def pairs(dets: Array) -> Any:
    found = []
    for i in range(N):
        for j in range(N):
            if i < j and overlap(dets[i], dets[j]) > 0.3:
                found.append((i, j))
    return np.array(found, np.int64).reshape(-1, 2)


@case
def loop_in_a_side(dets: Array) -> Any:
    y, steps = dets[:, 4].copy(), 0
    for i in range(N):
        if y[i] > 0.5:
            v = y[i]
            while v > 0.1:
                v = v - np.float32(0.3)
                steps += 1
            y[i] = v
    return y, np.int64(steps)


@case
def halves(dets: Array) -> Any:
    n = 0
    while dets.sum() > 1:
        dets = dets / 2
        n += 1
    return dets, np.int64(n)


@case
def two_lists_of_rows(dets: Array) -> Any:
    high, low = [], []
    for i, row in enumerate(dets):
        if row[4] > 0.5:
            high.append(i)
        else:
            low.append(row[:2])
    return np.array(high, np.int64), np.array(low, np.float32).reshape(-1, 2)


@case
def list_measured_between_two_loops(dets: Array) -> Any:
    rows = []
    for i in range(N):
        if dets[i, 4] > 0.5:
            rows.append(i)
    n = len(rows)
    for i in range(N):
        if dets[i, 4] <= 0.5:
            rows.append(i)
    return np.array(rows, np.int64), np.int64(n)


@case
def through_a_closure_and_a_view(dets: Array) -> Any:
    y = dets.copy()

    def add(i: Any) -> None:
        row = y[i]
        row[:2] += 1

    for i in range(N):
        for j in range(N):
            if y[i, 4] > y[j, 4] and y[j, 0] < y[i, 0] + 2:
                add(j)
    return y


@case
def best_path(dets: Array) -> Any:
    steps, states = dets.shape
    cost = (np.arange(states * states).reshape(states, states) % 3).astype(np.float32)
    score, back = dets[0].copy(), np.zeros((steps, states), np.int64)
    for t in range(1, steps):
        new = np.zeros(states, np.float32)
        for k in range(states):
            best, place = score[0] - cost[0, k], 0
            for m in range(1, states):
                v = score[m] - cost[m, k]
                if v > best:
                    best, place = v, m
            new[k] = best + dets[t, k]
            back[t, k] = place
        score = new
    path = np.zeros(steps, np.int64)
    path[-1] = np.argmax(score)
    for t in range(steps - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path, score


def given() -> list[Array]:
    """Return detections: boxes that overlap, equal ones, far ones, equal scores, low scores, and zeros."""
    random = np.random.default_rng(3)
    inputs = []
    for k in range(8):
        low = random.uniform(0, 25, (N, 2))
        dets = np.concatenate([low, low + random.uniform(4, 20, (N, 2)), random.uniform(0, 1, (N, 1))], axis=1)
        match k:
            case 2:
                dets[:, :4] = [0, 0, 10, 10]
            case 3:
                dets[:, :4] = np.arange(N)[:, None] * 50 + [0, 0, 10, 10]
            case 4:
                dets[:, 4] = 0.625
            case 5:
                dets[:, 4] = 0.05
            case 6:
                dets[:] = 0
            case 7:
                dets = np.rint(dets)
        inputs.append(dets.astype(np.float32))
    return inputs


def recorded(function: Function) -> Graph:
    return traced(function, [TensorType((N, 5), np.dtype("f4"))])


def assert_matches_numpy(function: Function, graph: Graph, engine: str) -> None:
    """Assert that a graph computes what its function computes, for each of the detections."""
    run = program_of(graph, engine)
    for dets in given():
        for got, want in zip(run([dets]), several(function(dets.copy())), strict=True):
            want = np.asarray(want)
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@case
def number_or_element(dets: Array) -> Any:
    last, labels = -1, []
    for label in (dets[:, 4] * 4).astype(np.int64):
        if label != 0 and label != last:
            labels.append(label)
            last = label
    return np.array(labels, np.int64), last


@case
def nothing_or_rows(dets: Array) -> Any:
    rows, others = [], []
    for i, box in enumerate(dets):
        if box[4] > 0.5:
            rows.append(box[:2].reshape(1, 2))
            others.append(i)
        else:
            others.append(np.argmax(box))
    if len(rows) == 0:
        rows = np.empty((0, 2), np.float32)
    else:
        rows = np.concatenate(rows, axis=0)
    return rows * 2, np.array(others, np.int64)


@pytest.fixture(scope="module")
def graphs() -> dict[Function, Graph]:
    return {}


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_matches_numpy(function: Function, engine: str, graphs: dict[Function, Graph]) -> None:
    graph = graphs[function] = graphs.get(function) or recorded(function)
    assert any(o.op == "Loop" for o in graph.ops) or function is best_path
    assert_matches_numpy(function, graph, engine)


def appends_outside(dets: Array) -> Any:
    kept: list[Any] = []

    def fill(found: list[Any]) -> None:
        for i in range(N):
            if dets[i, 4] > 0.5:
                found.append(i)

    fill(kept)
    return np.array(kept, np.int64)


def counts_in_a_dict(dets: Array) -> Any:
    counts = {"high": 0}
    for i in range(N):
        if dets[i, 4] > 0.5:
            counts["high"] += 1
    return np.int64(counts["high"])


def reads_the_list(dets: Array) -> Any:
    kept: list[Any] = []
    for i in range(N):
        if dets[i, 4] > 0.5 and len(kept) < 3:
            kept.append(i)
    return np.array(kept, np.int64)


def integer_becomes_float(dets: Array) -> Any:
    total: float = 0
    for i in range(N):
        if dets[i, 4] > 0.5:
            total += float(dets[i, 4])
    return np.float64(total)


def keeps_a_view(dets: Array) -> Any:
    d = dets.copy()
    best = d[0]
    for i in range(N):
        if d[i, 4] > best[4]:
            best = d[i]
        d[i, 4] = d[i, 4] * 0.5
    return d, best


def writes_to_an_element(dets: Array) -> Any:
    kept, row = [], np.zeros(2, np.float32)
    for i in range(N):
        row[0] = dets[i, 4]
        if dets[i, 4] > 0.5 and dets[i, 0] > 0:
            kept.append(row)
    return np.array(kept, np.float32)


def may_be_none(dets: Array) -> Any:
    found = np.zeros(N, np.float32)
    for i in range(N):
        best = None
        j = i + 1
        while j < N and dets[j, 4] > 0.5:
            best = dets[j, 4]
            j += 1
        found[i] = 7 if best is None else best
    return found


def selects_in_the_loop(dets: Array) -> Any:
    y = dets[:, 4].copy()
    while y.max() > 0.1:
        low = y[y < 0.05]
        y[y.argmax()] = np.cumsum(low).sum() * 0.01
    return y


def reads_the_variable_after(dets: Array) -> Any:
    scores = dets[:, 4].copy()
    while scores.max() > 0.1:
        last = scores.argmax()
        scores[last] = 0
    return dets[last]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (appends_outside, "has other names; make a list in the function"),
        (counts_in_a_dict, r"'counts\['high'\]' changes in one side of an if"),
        (reads_the_list, "a list is read in the loop on data that appends to it; keep its length"),
        (integer_becomes_float, "'total' is a different kind of object"),
        (keeps_a_view, "'best' is written to, and gets another array"),
        (writes_to_an_element, r"appended to a list is written to later; append a \.copy\(\)"),
        (may_be_none, "'best' is a different kind of object"),
        (selects_in_the_loop, "selects a number of elements that depends on data"),
        (reads_the_variable_after, "'last' is read after a loop on data"),
    ],
)
def test_other_loop_is_refused(function: Function, reason: str) -> None:
    with pytest.raises(TraceError, match=reason):
        recorded(function)


@pytest.mark.one_per("function")
@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize("function", [flags_and_continue, repeated_labels])
def test_file(function: Function, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"kept.{suffix}"
    anylayer.export(function, given()[0], path=file)
    run = in_onnxruntime(file) if suffix == "onnx" else in_openvino(file)
    for dets in given():
        for got, want in zip(run({"dets": dets}).values(), function(dets), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("engine", GENERAL)
def test_a_long_loop_without_ifs_is_recorded_as_a_loop(engine: str) -> None:
    def weighted(x: Array) -> Any:
        total, largest = np.float32(0), np.zeros(2, np.float32)
        for i in range(len(x)):
            total = total * np.float32(0.5) + x[i]
            largest[i % 2] = np.maximum(largest[i % 2], x[i])
        return np.array(total), largest

    graph = traced(weighted, [TensorType.of((2000,), np.float32)])
    assert sum(o.op == "Loop" for o in graph.ops) == 1 and len(graph.ops) < 10
    x = np.random.default_rng(0).integers(0, 9, 2000).astype(np.float32)
    for got, want in zip(program_of(graph, engine)([x]), weighted(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    short = traced(weighted, [TensorType.of((100,), np.float32)])
    assert not any(o.op == "Loop" for o in short.ops)
    with pytest.raises(TraceError, match="it takes 90000 steps, at most 30000 are supported; use whole arrays"):
        traced(weighted, [TensorType.of((90_000,), np.float32)])


@pytest.mark.parametrize("engine", GENERAL)
def test_a_choice_between_a_number_and_a_scalar_has_the_dtype_of_the_scalar(engine: str) -> None:
    def weighted(x: Array) -> Any:
        total, parts = np.float32(0), np.zeros(len(x), np.float32)
        for i in range(len(x)):
            total = total + (2 if x[i] > 0 else x[i]) * x[0]
            parts[i] = x[i] if x[i] > 1 else -0.5
        return np.array(total), parts

    graph = traced(weighted, [TensorType.of((20,), np.float32)])
    for seed in range(3):
        x = np.random.default_rng(seed).integers(-8, 9, 20).astype(np.float32) / 4
        for got, want in zip(program_of(graph, engine)([x]), weighted(x), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6)
