"""Questions whether anything is left before and inside of a loop on data: their answers are kept, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.network import Array, TensorType
from tests.engine_names import GENERAL, program_of

from .test_loop_spellings import by_score, others
from .test_loops import N, arrays, check
from .test_selections import traced

Function = Callable[[Array], Any]
CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of detections (N, 5), boxes and scores, to the cases."""
    CASES.append(function)
    return function


def above(dets: Array, limit: float = 0.5) -> Array:
    """Return the detections with a score above a limit."""
    return dets[dets[:, 4] > limit]


def kept(dets: Array) -> Any:
    """Return the positions of the detections that NMS keeps."""
    order, keep = by_score(dets), []
    while order.size > 0:
        keep.append(order[0])
        order = others(dets, order)
    return keep


def is_empty(x: Array) -> bool:
    return x.size == 0


@case
def returns_a_row_for_nothing(dets: Array) -> Any:
    best = above(dets)
    if len(best) == 0:
        return np.ones((1, 5), np.float32)
    return best[kept(best)]


@case
def returns_the_input_for_nothing(dets: Array) -> Any:
    order, keep = by_score(dets), []
    order = order[dets[order, 4] > 0.5]
    if order.size < 1:
        return dets[:2]
    while len(order) != 0:
        keep.append(order[0])
        order = others(dets, order)
    return dets[keep]


@case
def sets_a_number_before_the_loop(dets: Array) -> Any:
    best, factor = above(dets), 1
    if is_empty(best):
        factor = 3
    return best[kept(best)], dets * np.float32(factor)


@case
def asks_again_after_the_loop(dets: Array) -> Any:
    best = above(dets)
    keep, total = kept(best), dets[0]
    if best.shape[0] == 0:
        total = total - 9
    return best[keep], total


@case
def skips_classes_without_boxes(dets: Array) -> Any:
    found = []
    for limit in (0.5, 0.9):
        best = above(dets, limit)
        if len(best) == 0:
            continue
        found.append(best[kept(best)])
    return np.concatenate(found) if found else np.zeros((0, 5), np.float32)


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_questions_outside_of_the_loop_are_kept(function: Function, engine: str) -> None:
    assert any(not len(above(dets)) for dets in arrays())
    graph = traced(function, [TensorType.of((N, 5), np.float32)])
    assert any(o.op == "Loop" for o in graph.ops)
    run = program_of(graph, engine)
    check(function, lambda dets: run([dets]))


def returns_other_columns_for_nothing(dets: Array) -> Any:
    best = above(dets)
    if len(best) == 0:
        return np.zeros((0, 6), np.float32)
    return best[kept(best)]


def returns_a_list_for_nothing(dets: Array) -> Any:
    best = above(dets)
    return [] if len(best) == 0 else best[kept(best)]


def adds_at_the_last_element(dets: Array) -> Any:
    best, total = above(dets), dets[0]
    order = by_score(best)
    while order.size > 0:
        order = others(best, order)
        if order.size == 0:
            total = total + 50
    return total


def continues_without_others(dets: Array) -> Any:
    best, total = above(dets), dets[0]
    order = by_score(best)
    while order.size > 0:
        order = others(best, order)
        if is_empty(order):
            continue
        total = total + 1
    return total


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (returns_other_columns_for_nothing, r"float32\[0, 6\] if nothing is"),
        (returns_a_list_for_nothing, r"float64\[0\] if nothing is"),
        (adds_at_the_last_element, "asks for it, too, before the iteration ends"),
        (continues_without_others, "asks for it, too, before the iteration ends"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_questions_that_change_the_result_otherwise_are_refused(function: Function, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        traced(function, [TensorType.of((N, 5), np.float32)])
