"""What loops on data iterate over, and the windows that they read at a place from data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer.network import Array
from tests.engine_names import GENERAL

from .test_recorded_loops import Function, N, assert_matches_numpy, recorded

CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of detections (N, 5) to the cases."""
    CASES.append(function)
    return function


@case
def positions_of_a_mask(dets: Array) -> Any:
    total, pairs = np.float32(0), []
    for y, x in zip(*np.where(dets > 5)):
        if dets[y, x] > 9:
            pairs.append([y, x])
            total += dets[y, x]
    return np.array(pairs, np.int64).reshape(-1, 2), total


@case
def rows_and_columns(dets: Array) -> Any:
    ys, xs = np.nonzero(dets > 5)
    total = np.float32(0)
    for y, x in zip(ys, xs):
        if y > 2:
            total += dets[y, x]
    return total


@case
def counted_pairs(dets: Array) -> Any:
    ys, xs = np.nonzero(dets > 5)
    out = np.zeros(N * 5, np.float32)
    for k, (y, x) in enumerate(zip(ys, xs)):
        out[k] = dets[y, x] if x > 1 else -1
    return out


@case
def counted_pairs_of_a_mask_and_scores(dets: Array) -> Any:
    out = np.zeros(N * 5, np.float32)
    for k, (y, x, s) in enumerate(zip(*np.where(dets > 5), np.repeat(dets[:, 4], 5))):
        out[k] = s if y > x else dets[y, x]
    return out


@case
def pairs_in_a_comprehension(dets: Array) -> Any:
    return np.array([(y, x) for y, x in zip(*np.where(dets > 5))], np.int64).reshape(-1, 2)


@case
def window_of_a_class(dets: Array) -> Any:
    out = np.zeros((N, 2), np.float32)
    for i in range(N):
        c = int(np.argmax(dets[i, :2]))
        if dets[i, 4] > 0.5:
            out[i] = dets[i, 2 * c : 2 * c + 2]
    return out


@case
def columns_of_a_class(dets: Array) -> Any:
    labels, sums = dets[:, :2].argmax(axis=1), []
    for i in range(N):
        c = labels[i]
        if dets[i, 4] > 0.5:
            sums.append(dets[:, 2 * c : 2 * (c + 1)].sum())
    return np.array(sums, np.float32)


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_matches_numpy(function: Function, engine: str) -> None:
    assert_matches_numpy(function, recorded(function), engine)
