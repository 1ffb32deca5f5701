"""Sets of integers that depend on data, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.network import Array
from tests.engine_names import GENERAL

from .test_recorded_loops import Function, N, assert_matches_numpy, recorded

CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of detections (N, 5) to the cases."""
    CASES.append(function)
    return function


def labels_of(dets: Array) -> Array:
    return np.rint(dets[:, 4] * 20).astype(np.int64) - 3


@case
def measured(dets: Array) -> Any:
    labels = labels_of(dets)
    few = labels[labels > 5]
    lengths = len(set(labels)), len(set(labels.tolist())), len(set(labels.flatten().tolist())), len(set(few))
    return tuple(np.int64(n) for n in lengths)


@case
def sorted_values(dets: Array) -> Any:
    labels = labels_of(dets)
    down = sorted(set(labels.tolist()), reverse=True)
    return np.array(sorted(set(labels)), np.int64), np.array(down, np.int64), np.int64(max(set(labels)))


@case
def loop_over_sorted_values(dets: Array) -> Any:
    labels, total, best = labels_of(dets), 0.0, np.zeros(N, np.float64)
    for k, c in enumerate(sorted(set(labels))):
        best[k] = np.where(labels == c, dets[:, 0], -1).max()
        if c > 2:
            total += float(best[k]) * int(c)
    return np.float64(total), best


@case
def loop_over_few_values(dets: Array) -> Any:
    labels, sums = dets.argmax(axis=1), []
    for c in set(labels):
        sums.append(np.where(labels == c, dets[:, 4], 0).sum() + c)
    return np.array(sums, np.float64)


@case
def asked(dets: Array) -> Any:
    labels = labels_of(dets)
    seen, y = set(labels), dets
    if 2 in seen:
        y = y * 2
    return y + 1 if labels[0] + 1 not in seen else y


@case
def asked_in_a_loop(dets: Array) -> Any:
    seen, count, kept = set(labels_of(dets).tolist()), 0, []
    for i in range(N):
        if i in seen and dets[i, 4] > 0.1:
            count += 1
        elif i not in seen:
            kept.append(i)
    return np.int64(count), np.array(kept, np.int64)


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_matches_numpy(function: Function, engine: str) -> None:
    assert_matches_numpy(function, recorded(function), engine)


def test_small_integers_are_in_ascending_order_in_a_set() -> None:
    """The order on which the recording of a loop over a set relies."""
    random = np.random.default_rng(0)
    for _ in range(2000):
        labels = random.integers(0, 8, random.integers(1, 30))
        assert [*set(labels)] == [*set(labels.tolist())] == [*np.unique(labels)]


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (lambda d: sum(c for c in set(labels_of(d))), r"loop over sorted\(set\(x\)\) or np.unique\(x\)"),
        (lambda d: np.array(list(set(labels_of(d)))), "the order of a set of integers depends on how"),
        (lambda d: np.float32(len(set(d[:, 0]))), "a set of other numbers than integers"),
        (lambda d: np.int64(len(set(labels_of(d)) | {2})), "unsupported operand|can be measured, sorted"),
        (lambda d: np.int64(len(set(labels_of(d)).union([2]))), "can be measured, sorted"),
        (lambda d: np.int64(len(set(d.argmax(1).reshape(3, 3)))), "unhashable type"),
        (lambda d: np.array(sorted(set(labels_of(d)), key=lambda c: -c)), "the order of a set of integers"),
    ],
)
def test_refused_by_name(function: Function, rule: str) -> None:
    with pytest.raises(TraceError, match=rule):
        recorded(function)
