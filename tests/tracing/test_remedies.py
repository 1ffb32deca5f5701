"""Refusals whose message names a remedy: the code is traced once it is changed in this way."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.network import Array, TensorType
from tests.engine_names import GENERAL, program_of

from .test_selections import several, traced

N = 300
Function = Callable[[Array, Array], Any]
"""A function of numbers between -1 and 1, float32[N], and of integers from 0 to 3, int64[N]."""


def window(x: Array, n: Array) -> Any:
    total = np.float32(0)
    for i in range(N - 2):
        if n[i] > 1:
            continue
        if x[i : i + 2].sum() > 0.5:
            total += x[i]
    return total


def window_of_positions(x: Array, n: Array) -> Any:
    total = np.float32(0)
    for i in range(N - 2):
        if n[i] > 1:
            continue
        if x[i + np.arange(2)].sum() > 0.5:
            total += x[i]
    return total


def repeats(x: Array, n: Array) -> Any:
    return np.repeat(x, n)[:20]


def repeats_up_to_a_fixed_size(x: Array, n: Array) -> Any:
    return x[np.searchsorted(np.cumsum(n), np.arange(20), "right")]


def conditional_expression_in_a_lambda(x: Array, n: Array) -> Any:
    count = 0
    for i in range(N):
        if n[i] > 0:
            count += (lambda v: 1 if v > 0 else 2)(x[i])
    return np.array(count)


def conditional_expression(x: Array, n: Array) -> Any:
    count = 0
    for i in range(N):
        if n[i] > 0:
            count += 1 if x[i] > 0 else 2
    return np.array(count)


def comprehension(x: Array, n: Array) -> Any:
    return np.array(sum(x[i] * i for i in range(int(n.max()) + 1)))


def statement_for(x: Array, n: Array) -> Any:
    rows = []
    for i in range(int(n.max()) + 1):
        rows.append(x[i] * i)
    return np.array(rows).sum()


def two_names(x: Array, n: Array) -> Any:
    order, keep = np.argsort(x, kind="stable"), []
    kept = keep
    while len(order) > 0:
        keep.append(order[0])
        order = order[1:][x[order[1:]] > x[order[0]] + 0.1]
    return np.array(kept)


def one_name(x: Array, n: Array) -> Any:
    order, keep = np.argsort(x, kind="stable"), []
    while len(order) > 0:
        keep.append(order[0])
        order = order[1:][x[order[1:]] > x[order[0]] + 0.1]
    return np.array(keep)


def one_or_two_outputs(x: Array, n: Array) -> Any:
    return (x, x + 1) if x.sum() > 0 else (x,)


def two_outputs(x: Array, n: Array) -> Any:
    return (x, x + 1) if x.sum() > 0 else (x, x)


def method_of_a_number(x: Array, n: Array) -> Any:
    return x * int(n.sum()).bit_length()


def logarithm_of_an_array(x: Array, n: Array) -> Any:
    return x * np.floor(np.log2(np.float32(2) * n.sum() + 1)).astype(np.float32)


def ends_at_one(x: Array, n: Array) -> Any:
    order, keep = np.argsort(x, kind="stable"), []
    while len(order) > 0:
        keep.append(order[0])
        if len(order) == 1:
            break
        order = order[1:][x[order[1:]] > x[order[0]] + 0.1]
    return np.array(keep), order


def ends_at_none(x: Array, n: Array) -> Any:
    order, keep = np.argsort(x, kind="stable"), []
    while len(order) > 0:
        keep.append(order[0])
        order = order[1:][x[order[1:]] > x[order[0]] + 0.1]
    return np.array(keep), order


def starts_as_none(x: Array, n: Array) -> Any:
    best = None
    for i in range(N):
        if x[i] > 0.9 and n[i] > 0:
            best = x[i]
    return np.float32(0) if best is None else best


def starts_as_a_number(x: Array, n: Array) -> Any:
    best = np.float32(0)
    for i in range(N):
        if x[i] > 0.9 and n[i] > 0:
            best = x[i]
    return best


def far_apart(x: Array) -> Any:
    order, keep = np.argsort(x, kind="stable"), []
    while len(order) > 0:
        keep.append(order[0])
        order = order[1:][x[order[1:]] > x[order[0]] + 0.1]
    return keep


def classes_that_occur(x: Array, n: Array) -> Any:
    return np.concatenate([x[n == c][far_apart(x[n == c])] for c in np.unique(n)])


def all_classes(x: Array, n: Array) -> Any:
    return np.concatenate([x[n == c][far_apart(x[n == c])] for c in range(4)])


def all_classes_at_once(x: Array, n: Array) -> Any:
    return x[far_apart(x + n * np.float32(100))]


CASES: list[tuple[Function, str, Function]] = [
    (classes_that_occur, r"write `for c in range\(20\)", all_classes),
    (classes_that_occur, "or NMS of all classes at once", all_classes_at_once),
    (window, r"x\[i \+ np.arange\(2\)\] for x\[i : i \+ 2\]", window_of_positions),
    (repeats, "write x.np.searchsorted.np.cumsum.repeats., np.arange.n., 'right'", repeats_up_to_a_fixed_size),
    (
        conditional_expression_in_a_lambda,
        "by the condition of an if whose sides .*; write such an if",
        conditional_expression,
    ),
    (comprehension, "loop over it in a statement for", statement_for),
    (two_names, "the list 'keep' has other names.*append to local lists", one_name),
    (one_or_two_outputs, "return the same number in both", two_outputs),
    (method_of_a_number, "int.bit_length of a number .*; keep it an array", logarithm_of_an_array),
    (
        ends_at_one,
        r"the loop at test_remedies.py:\d+ that ends where one or no .*; end it where none is left",
        ends_at_none,
    ),
    (starts_as_none, "use a number that does not occur otherwise|a different kind of object", starts_as_a_number),
]
TYPES = [TensorType.of((N,), np.float32), TensorType.of((N,), np.int64)]


@pytest.mark.parametrize(("function", "message", "other"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_refusal_names_the_line_and_a_remedy_that_works(function: Function, message: str, other: Function) -> None:
    with pytest.raises(TraceError, match=message) as raised:
        traced(function, TYPES)
    assert re.search(r"test_remedies.py:\d+", str(raised.value))
    graph = traced(other, TYPES)
    for engine in GENERAL:
        run = program_of(graph, engine)
        for seed in range(3):
            random = np.random.default_rng(seed)
            x = random.uniform(-1, 1, N).astype(np.float32)
            n = random.integers(0, 4, N)
            for got, want in zip(run([x, n]), several(other(x, n)), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
