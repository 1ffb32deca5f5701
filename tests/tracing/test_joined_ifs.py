"""Independent ifs in a row: code with more paths than the limit is recorded with both sides of each if."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.network import Array, TensorType
from anylayer.tracing import decisions
from anylayer.tracing.checked import trace_checked
from tests.engine_names import GENERAL, program_of

from .test_decisions import Function, traced

CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of an array (3, 4) to the cases."""
    CASES.append(function)
    return function


@case
def twelve_in_a_loop(x: Array) -> Any:
    y = x
    for i in range(3):
        for j in range(4):
            if x[i, j] > 0:
                y = y + x[i, j]
            else:
                y = y - 1
    return y


@case
def elements_of_an_array(x: Array) -> Any:
    rounded, missing = x.ravel().astype(np.int64), []
    for value in range(-4, 4):
        if value not in rounded:
            missing.append(value)
        if value in rounded[:6] and value in rounded[6:]:
            missing.append(rounded[0])
    return np.array(missing, np.int64)


@case
def append_of_a_module(x: Array) -> Any:
    y, total = x[0], x[0, :1]
    for i in range(3):
        for j in range(4):
            if x[i, j] > 0:
                y = np.append(y, x[i, j])[1:]
            if x[i, j] > 1:
                total = total + y[0]
    return y, total


@case
def numbers_and_arrays(x: Array) -> Any:
    n, z = 0, x
    if x[0, 0] > 0:
        n = n + 1
    if x[0, 1] > 0:
        n += 2
    if x[0, 2] > 0 and x[0, 3] < 1:
        n += 4
    elif x[1, 0] > 0:
        n -= 3
    if not 0 < x[1, 1] < 1:
        t = x[1, 2] * 2
        z = z * t
    if x[2, 0] > 0:
        z = np.maximum(z, 0.5)
        if x[2, 1] > 0 or x[2, 2] > 1:
            z, n = z * 2, n * 2
    if n > 3:
        z = z - n
    if z.sum() > 0:
        z = z / z.sum()
    return z, n


@case
def depends_on_the_ones_before(x: Array) -> Any:
    y = x[0, 0]
    for v in x.ravel():
        if y < v:
            y = v - y * np.float32(0.5)
        elif v < 0:
            y = np.float32(0.25)
    return y, x + y


@case
def largest_and_its_place(x: Array) -> Any:
    best, place = x[0, 0], 0
    for i in range(12):
        if x[i // 4, i % 4] > best:
            best, place = x[i // 4, i % 4], i
    return best, place, x.ravel()[place]


@case
def clamps_twelve_numbers(x: Array) -> Any:
    rows = []
    for v in x.ravel():
        a = float(v)
        if a < -1:
            a = -1.0
        if a > 1:
            a = 1.0
        rows.append(a)
    return np.array(rows), math.fsum([1.0, 2.0])


@case
def in_a_helper_and_a_method(x: Array) -> Any:
    scale = 3.0

    class Sign:
        step = 1

        def of(self, v: Any) -> Any:
            n = 0
            if v > 0:
                n = self.step
            if v < 0:
                n = -self.step
            return n * scale

    return np.stack([x[0] * Sign().of(v) for v in x.ravel()])


@case
def with_an_early_return(x: Array) -> Any:
    if x.sum() > 4:
        return x * 2
    y = x
    for v in x.ravel():
        if v > 0.5:
            y = y - v
    return y


@case
def with_a_conditional_expression(x: Array) -> Any:
    y = x.sum() * 0
    for i in range(8):
        if x[i % 3, i // 3] > 0:
            y = y + (x[0, 0] if i % 2 else np.float32(i))
    return y * (2 if x[0, 0] > 0 else 3)


@case
def index_in_range_in_one_side(x: Array) -> Any:
    y = x[0, 0]
    for i in range(7):
        k = int(x[i % 3, i % 4] * 2)
        if 0 <= k < 3:
            y = y + x[k, 1]
    return y


@case
def with_conditional_expressions_on_data(x: Array) -> Any:
    y = x
    for i in range(3):
        for j in range(4):
            y = y + x[i, j] if x[i, j] > 0 else y - 1
    return y


@case
def writes_in_place(x: Array) -> Any:
    y = x * 1
    z = y[1:]
    for v in x.ravel():
        if v > 0:
            y += v
            z[0, 1] = v
    return y, z


@case
def in_arguments_and_operands(x: Array) -> Any:
    rows, total = [], x[0, 0] * 0
    for i in range(3):
        for j in range(4):
            total += x[i, j] + (x[i, j] if x[i, j] > 0 else (x[2, 1] if x[i, j] > -0.5 else x[j % 3, i]))
            rows.append(total if total > x[i, j] else abs(x[i, j]))
    return np.stack(rows), total - (x[0, 0] if total > 1 else x[1, 1])


graph_of = cache(traced)
"""The trace of a case, which serves all engines."""


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_matches_numpy(function: Function, engine: str) -> None:
    graph = graph_of(function)
    assert graph.decided is not None and len(graph.decided.paths) >= 10
    random, run = np.random.default_rng(7), program_of(graph, engine)
    for k in range(40):
        x = (random.standard_normal((3, 4)) * (0.3, 1, 3, 0)[k % 4]).astype(np.float32)
        x = np.rint(x) if k % 3 == 0 else x
        want = function(x)
        for got, w in zip(run([x]), want if isinstance(want, tuple) else (want,), strict=True):
            w = np.asarray(w)
            assert got.shape == w.shape and got.dtype == w.dtype
            np.testing.assert_allclose(got, w, rtol=1e-4, atol=1e-5)


def writes_afterwards(x: Array) -> Any:
    y = z = x * 1
    for v in x.ravel():
        if v > 0:
            y = y + v
    z[0] = 5
    return y


def other_kind(x: Array) -> Any:
    y = 0.1
    for v in x.ravel():
        if v > 0:
            y = v
    return y * x


def missing(x: Array) -> Any:
    for i in range(12):
        if x[i % 3, i % 4] > 0:
            t = x[0] * i
    return t


def with_a_dict(x: Array) -> Any:
    counts = {}
    for i, v in enumerate(x.ravel()):
        if v > 0:
            counts[i] = v
    return x * len(counts)


def adds_to_a_list(x: Array) -> Any:
    labels: list[Any] = []
    before: Any = 0
    for row in np.concatenate([x, x]).reshape(-1, 2):
        k = np.argmax(row)
        if k != before:
            labels += [k]
        before = k
    return np.array(labels, np.int64)


def adds_to_a_set(x: Array) -> Any:
    seen: set[int] = set()
    for i, e in enumerate(x.ravel()):
        if e > 0:
            seen |= {i}
    return x * len(seen)


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (adds_to_a_list, r"'len\(labels\)' changes in one side of an if .* and lists that grow by \.append\("),
        (adds_to_a_set, "'seen' changes in one side of an if"),
        (writes_afterwards, r"write y = y \+ 1 in place of y \+= 1"),
        (
            other_kind,
            "'y' is a different kind of object after the two sides of this if; give it arrays of one shape",
        ),
        (missing, "UnboundLocalError"),
        (with_a_dict, r"more than 64 paths \(at test_joined_ifs.py"),
    ],
)
def test_refused_with_a_remedy(function: Function, rule: str) -> None:
    with pytest.raises(TraceError, match=rule):
        traced(function)


def test_code_without_source_has_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not run again for each path with its code changed, because there is nothing to change."""
    runs: list[Any] = []
    call_once = decisions._Paths.call_once
    monkeypatch.setattr(decisions._Paths, "call_once", lambda *args: runs.append(args) or call_once(*args))
    space: dict[str, Any] = {}
    exec("def f(x):\n    y = x\n" + "".join(f"    if x.ravel()[{i}] > 0:\n        y = y + {i}\n" for i in range(9))
         + "    return y\n", space)  # fmt: skip
    with pytest.raises(TraceError, match="more than 64 paths"):
        trace_checked(lambda arrays: [space["f"](*arrays)], [TensorType.of((3, 4), np.float32)])
    assert len(runs) < 2 * decisions.MAX_PATHS + 9, len(runs)
