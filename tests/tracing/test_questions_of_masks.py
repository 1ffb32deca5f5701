"""Code that asks whether a mask selects anything, and lists that grow by a number of selected elements."""

from __future__ import annotations

import itertools
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.network import Array, TensorType
from tests.engine_names import GENERAL, program_of

from .test_selections import Function, arrays, check_file_with_open_sizes, several, traced

CASES: list[Function] = []
REFUSED: list[tuple[Function, str]] = []
NOTHING = np.zeros((0, 4), np.float32)


def case(function: Function) -> Function:
    CASES.append(function)
    return function


def refused(rule: str) -> Any:
    def enter(function: Function) -> Function:
        REFUSED.append((function, rule))
        return function

    return enter


# ------------------------------------------------------------------------ questions


@case
def three_at_most(b: Array, s: Array) -> Any:
    order, keep = np.argsort(-s, kind="stable"), []
    while len(order) > 0:
        k = (s[order] * 2).argmax()
        rest = order[np.arange(len(order)) != k]
        keep.append(order[k])
        if len(keep) == 3:
            break
        order = rest[np.logical_not(s[keep[-1]] - s[rest] >= 0.2)]
    return s[np.array(keep, np.int64)], order


@case
def sum_is_zero(b: Array, s: Array) -> Any:
    keep = s > 0.3
    if keep.sum() == 0:
        return NOTHING, np.float32(-1)
    return b[keep] * 2, s[keep].max()


@case
def sum_is_zero_in_an_else(b: Array, s: Array) -> Any:
    keep = s > 0.3
    if np.sum(keep) > 0:
        x, best = b[keep], s[keep].argmax()
    else:
        x, best = b[:1], np.int64(-1)
    return x, best


@case
def one_row_if_nothing(b: Array, s: Array) -> Any:
    keep = s > 0.3
    return b[keep] if keep.any() else b[:1] * 3


@case
def nothing_is_left_of_each_column(b: Array, s: Array) -> Any:
    found = []
    for k in range(4):
        keep = b[:, k] > 1
        if keep.sum() == 0:
            continue
        found.append(np.concatenate([b[keep], np.ones((len(b[keep]), 1), np.float32) * k], axis=1))
    if len(found) == 0:
        return np.zeros((0, 5), np.float32)
    return np.concatenate(found, 0)


@case
def special_if_both_are_empty(b: Array, s: Array) -> Any:
    found = []
    for keep in (s > 0.3, s < -0.3):
        if not keep.any():
            continue
        found.append(b[keep])
    return np.concatenate(found) if found else np.full((1, 4), 7, np.float32)


@case
def spellings_of_the_question(b: Array, s: Array) -> Any:
    keep, rows = s > 0.3, []
    rows.append(b[:1] if np.count_nonzero(keep) else b[1:2])
    rows.append(b[:1] if keep.sum() < 1 else b[1:2])
    rows.append(b[:1] if keep.sum() != 0 else b[1:2])
    rows.append(b[:1] if not np.any(keep) else b[1:2])
    rows.append(b[:1] if keep.max() else b[1:2])
    rows.append(b[:1] if int(keep.sum()) == 0 else b[1:2])
    rows.append(b[:1] if bool(keep.any()) else b[1:2])
    rows.append(b[:1] if keep.sum() else b[1:2])
    rows.append(b[:1] if keep.astype(np.int32).sum() >= 1 else b[1:2])
    return *rows, s[keep]


@case
def questions_that_are_not_about_nothing(b: Array, s: Array) -> Any:
    keep = s > 0.3
    first = b[:1] if keep.sum() > 3 else b[1:2]
    second = b[:1] if keep.sum() == 1 else b[1:2]
    third = b[:1] if keep.all() else b[1:2]
    return first, second, third, s[keep]


@case
def the_opposite_mask(b: Array, s: Array) -> Any:
    keep = s > 0.3
    if (~keep).sum() == 0:
        return b[:2], s[:0]
    return b[:3], s[~keep]


@case
def the_mask_is_not_selected_by(b: Array, s: Array) -> Any:
    if (s > 0.3).sum() == 0:
        return s[s < 0] * 2
    return s[s < 0]


@case
def part_of_the_mask(b: Array, s: Array) -> Any:
    keep = s > 0.3
    return (b[keep], s[:2]) if keep[:9].any() else (b[~keep], s[:1])


@case
def masks_of_two_axes(b: Array, s: Array) -> Any:
    keep = b > 1
    if not keep.any():
        return np.zeros(1, np.float32), b.sum(0)
    return b[keep], np.where(keep.any(axis=0), 1, 2).astype(np.float32)


@case
def question_and_value(b: Array, s: Array) -> Any:
    keep = s > 0.3
    if keep.any() and s.max() > 1:
        return b[keep]
    return b[:2]


@case
def value_or_question(b: Array, s: Array) -> Any:
    keep = s > 0.3
    if s.max() > 1 or keep.sum() == 0:
        return b[:2]
    return b[keep]


@case
def size_from_either_side(b: Array, s: Array) -> Any:
    n = b[0, 0] if s[s > 0.3].size > 0 else s.min()
    return s[: min(max(int(n), 0), 4)]


@case
def rows_after_a_number_of_selected(b: Array, s: Array) -> Any:
    x = b[:, 0] if s[s > 0.3].size > 0 else -b[:, 0]
    return x, b[min(max(int(np.sum(s > 0.5)), 0), 4) :]


@case
def selection_before_a_selection_that_may_be_empty(b: Array, s: Array) -> Any:
    first = s[s > 0.5]
    first[first > 0.7] = 0
    second = s[s < -50]
    if second.size == 0:
        second = np.zeros(1, s.dtype)
    return first, s[s < 0.9] if second.max() > second.sum() else s


@case
def small_count(b: Array, s: Array) -> Any:
    keep = s > 0.3
    return b[keep] if keep.sum(dtype=np.uint8) > 0 else b[:1]


@case
def sum_of_a_changed_mask(b: Array, s: Array) -> Any:
    keep = s > 0.3
    keep[0] = False
    if keep.sum() == 0:
        return b[:1]
    keep[1] = True
    return b[keep]


@case
def the_second_selects_from_the_first(b: Array, s: Array) -> Any:
    keep = s > 0
    if keep.sum() == 0:
        return NOTHING
    x = b[keep]
    wide = x[:, 0] > 0
    if wide.sum() == 0:
        return x[:1]
    return x[wide]


@case
def mean_of_a_mask(b: Array, s: Array) -> Any:
    keep = s > 0.3
    return b[keep] if keep.mean() > 0 else b[:1]


@case
def first_column_with_something(b: Array, s: Array) -> Any:
    for k in range(3):
        keep = b[:, k] > 1.5
        if keep.any():
            break
    return b[keep]


@case
def greedy_after_the_question(b: Array, s: Array) -> Any:
    keep = s > 0
    if keep.sum() == 0:
        return np.full((1, 4), 3, np.float32)
    x, order, picked = b[keep], s[keep].argsort()[::-1], []
    while order.size > 0:
        picked.append(order[0])
        order = order[1:][x[order[1:], 0] > x[order[0], 0]]
    if len(picked) > 0:
        x = x[picked]
    return x


@case
def number_of_picked(b: Array, s: Array) -> Any:
    order, picked = np.where(s > 0)[0], []
    while len(order) > 0:
        picked.append(order[-1])
        order = order[:-1][b[order[:-1], 1] <= b[order[-1], 1]]
    if len(picked) == 0:
        return b[:1], np.zeros((1, 2))
    return b[picked], np.ones((len(picked), 2))


@case
def while_anything_is_left(b: Array, s: Array) -> Any:
    x = s.copy()
    while (x > 0).any():
        x = x - 1
    return b[x > -0.5]


# ---------------------------------------------------------------------------- lists


def classes(b: Array, s: Array) -> list[Array]:
    return [b[s > limit] for limit in (0.3, 1.0)]


@case
def labels_by_extend(b: Array, s: Array) -> Any:
    labels = []
    for k, x in enumerate(classes(b, s)):
        labels.extend([k] * len(x))
    return np.array(labels, np.int64), np.concatenate(classes(b, s))


@case
def labels_by_addition(b: Array, s: Array) -> Any:
    labels = []
    for k, x in enumerate(classes(b, s)):
        labels += [k + 0.5] * x.shape[0]
    return np.array(labels, np.float64)


@case
def a_new_list_by_addition(b: Array, s: Array) -> Any:
    first = [7, 8]
    both = first + [1] * len(s[s > 0.3])
    first.append(9)
    third = both + [6]  # noqa: RUF005 (list.__add__ is meant)
    both += [3] * len(s[s > 0.3]) + [4]
    return np.array(both, np.int64), np.array(first, np.int64), np.array(third, np.int64)


@case
def elements_before_and_after(b: Array, s: Array) -> Any:
    labels = [5]
    labels.extend([1, 2] * len(s[s > 0.3]))
    labels.extend([3])
    labels.append(4)
    return np.array(labels, np.int64), np.int64(len(labels))


@case
def numbers_of_data(b: Array, s: Array) -> Any:
    best = s.max()
    return np.array([best] * len(s[s > 0.3]), np.float32), np.array([True] * len(s[s > 1]), bool)


@case
def if_the_list_is_empty(b: Array, s: Array) -> Any:
    labels = []
    labels.extend([1] * len(s[s > 0.3]))
    if not labels:
        return np.array([-1], np.int64)
    return np.array(labels, np.int64)


@case
def repeated_from_the_left(b: Array, s: Array) -> Any:
    return np.array(len(s[s > 0.3]) * [2], np.int64)


@case
def longer_by_itself(b: Array, s: Array) -> Any:
    labels = [4]
    labels += [1] * len(s[s > 0.3])
    labels.extend(labels)
    return np.array(labels, np.int64)


@case
def fewer_than_none(b: Array, s: Array) -> Any:
    return np.array([1] * (len(s[s > 0.3]) - 3) + [2], np.int64)


@refused("other names")
def two_names(b: Array, s: Array) -> Any:
    labels = []
    others = labels
    labels.extend([1] * len(s[s > 0.3]))
    return np.array(labels, np.int64), np.int64(len(others))


@refused("other names")
def two_names_and_addition(b: Array, s: Array) -> Any:
    labels = []
    others = [labels]
    labels += [1] * len(s[s > 0.3])
    return np.array(labels, np.int64), np.int64(len(others[0]))


def _add(labels: list[Any], n: int) -> None:
    labels.extend([1] * n)


@refused("other names")
def a_list_of_the_caller(b: Array, s: Array) -> Any:
    labels = [0]
    _add(labels, len(s[s > 0.3]))
    return np.array(labels, np.int64)


@refused("a list that a loop has filled|cannot")
def a_list_in_an_object(b: Array, s: Array) -> Any:
    labels = {"all": []}
    labels["all"].extend([1] * len(s[s > 0.3]))
    return np.array(labels["all"], np.int64)


@refused("a list that a loop has filled|cannot")
def a_list_of_a_closure(b: Array, s: Array) -> Any:
    labels = []

    def add(n: int) -> None:
        labels.extend([1] * n)

    add(len(s[s > 0.3]))
    return np.array(labels, np.int64)


class _Labels:
    items: list[Any]


@refused("a list that a loop has filled|cannot")
def an_attribute_by_addition(b: Array, s: Array) -> Any:
    labels = _Labels()
    labels.items = others = [2]
    labels.items += [1] * len(s[s > 0.3])
    return np.array(labels.items, np.int64), np.array(others, np.int64)


@refused("a list that a loop has filled|cannot")
def an_element_by_addition(b: Array, s: Array) -> Any:
    labels = [[2]]
    labels[0] += [1] * len(s[s > 0.3])
    return np.array(labels[0], np.int64)


@refused("list of numbers of one type")
def rows_that_are_repeated(b: Array, s: Array) -> Any:
    return np.array([b[0]] * len(s[s > 0.3]))


@refused("list of numbers of one type")
def numbers_of_two_types(b: Array, s: Array) -> Any:
    return np.array([1, 2.5] * len(s[s > 0.3]))


@refused("a list that a loop has filled")
def part_of_an_iterator(b: Array, s: Array) -> Any:
    labels = [0]
    labels.extend(itertools.chain([1], [5] * len(s[s > 0.3]), [2]))
    return np.array(labels)


@refused("a list that a loop has filled")
def addition_by_a_function(b: Array, s: Array) -> Any:
    labels = [0]
    operator.iadd(labels, [5] * len(s[s > 0.3]))
    return np.array(labels)


@refused("a list that a loop has filled")
def iterated(b: Array, s: Array) -> Any:
    return sum(x for x in [1] * len(s[s > 0.3])) + s


@refused("a list that a loop has filled")
def reversed_list(b: Array, s: Array) -> Any:
    items = [1] * len(s[s > 0.3])
    items.reverse()
    return np.array(items)


@refused("cannot become a plain number here")
def a_tuple(b: Array, s: Array) -> Any:
    return np.array((1,) * len(s[s > 0.3]))


@refused("insert|a list that a loop has filled")
def inserted(b: Array, s: Array) -> Any:
    labels = [1] * len(s[s > 0.3])
    labels.insert(0, 4)
    return np.array(labels)


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_results_equal_numpy(function: Function, engine: str) -> None:
    run = program_of(traced(function, [TensorType.of(a.shape, a.dtype) for a in arrays()[0]]), engine)
    for given in arrays():
        copies = [x.copy() for x in given]
        for got, want in zip(run(list(given)), several(function(*copies)), strict=True):
            assert (got.shape, got.dtype) == (np.shape(want), np.asarray(want).dtype)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        sum_is_zero,
        special_if_both_are_empty,
        greedy_after_the_question,
        labels_by_extend,
        rows_after_a_number_of_selected,
    ],
)
def test_a_file_with_open_sizes(function: Function, tmp_path: Path) -> None:
    check_file_with_open_sizes(function, tmp_path / "f.onnx")


@pytest.mark.parametrize(("function", "rule"), REFUSED, ids=lambda f: getattr(f, "__name__", ""))
def test_what_is_not_recorded_is_refused_with_the_line(function: Function, rule: str) -> None:
    with pytest.raises(TraceError, match=rf"test_questions_of_masks\.py:\d+.*({rule})"):
        traced(function, [TensorType.of(a.shape, a.dtype) for a in arrays()[0]])
