"""Functions that are traced many times, for each combination of selections that may be empty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.graph import ir, repetition
from anylayer.network import Array, TensorType
from anylayer.testing import run_graph
from anylayer.tracing import checked, decisions

from .test_selections import arrays, traced


def many_parts(b: Array, s: Array) -> Any:
    parts = []
    for c in range(6):
        at = np.where(s > c / 8)[0]
        if len(at) == 0:
            continue
        parts.append(np.sqrt(np.abs(b[at] * c)))
    if len(parts) == 0:
        return np.zeros((0, 4), np.float32)
    return np.concatenate(parts)


def test_repeated_traces_are_refused_before_they_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [TensorType.of(a.shape, a.dtype) for a in arrays()[0]]
    recorded = 0
    take = ir.take_operator

    def count() -> None:
        nonlocal recorded
        recorded += 1
        take()

    monkeypatch.setattr(ir, "take_operator", count)
    assert traced(many_parts, types).ops and recorded > 600
    limit, recorded = recorded // 3, 0
    monkeypatch.setattr(repetition, "_MAX_REPEATED", limit)
    assert traced(many_parts, types).ops, "what follows the first trace is bounded by its length"
    monkeypatch.setattr(checked, "_JOINED_TRACES", recorded := 0)
    message = rf"traces.py:\d+: this records more than {limit} operators .* divide the function among several"
    with pytest.raises(TraceError, match=message):
        traced(many_parts, types)
    assert recorded < limit


def asks_again(b: Array, s: Array) -> Any:
    total = np.float32(0)
    for i in range(60):
        if s[i % 6] > 0.5:
            total = total + b[i % 6, 0]
    return total


def test_long_paths_are_joined_instead_of_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [TensorType.of(a.shape, a.dtype) for a in arrays()[0]]
    runs = 0
    call_once = decisions._Paths.call_once

    def count(paths: Any, run: Any) -> Any:
        nonlocal runs
        runs += 1
        return call_once(paths, run)

    monkeypatch.setattr(decisions._Paths, "call_once", count)
    traced(asks_again, types)
    assert runs > 60
    monkeypatch.setattr(decisions, "_MAX_REPEATED", 300)
    runs = 0
    graph = traced(asks_again, types)
    assert runs < 8
    for b, s in arrays():
        np.testing.assert_allclose(run_graph(graph, [b, s], "onnxruntime")[0], asks_again(b, s), rtol=1e-5)


def test_selections_of_more_than_1000_operators_are_traced() -> None:
    def many_sums(b: Array, s: Array) -> Any:
        total = b[:1].sum(0)
        for c in range(200):
            total = total + b[np.where(s > c / 200)[0]].sum(0)
        return total

    assert len(traced(many_sums, [TensorType.of(a.shape, a.dtype) for a in arrays()[0]]).ops) > 1000
