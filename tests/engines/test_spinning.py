"""Threads of ONNX Runtime that wait actively after a call, for one program of a process only."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

from anylayer.engines import onnxruntime
from anylayer.network import TensorType
from anylayer.tracing import trace

GRAPH = trace(lambda arrays: [np.tanh(arrays[0])], [TensorType.of((4,))])


@pytest.fixture
def spins(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A list that gets, for each program, whether its threads spin."""
    created: list[bool] = []
    load = onnxruntime.OnnxRuntimeProgram._load

    def recorded(program: Any, graph: Any, options: Any, saved: bool) -> Any:
        try:
            created.append(options.get_session_config_entry("session.force_spinning_stop") != "1")
        except RuntimeError:  # it is not set
            created.append(True)
        return load(program, graph, options, saved)

    monkeypatch.setattr(onnxruntime.OnnxRuntimeProgram, "_load", recorded)
    monkeypatch.setattr(onnxruntime, "_spinning", WeakSet())
    return created


def test_threads_of_the_first_program_spin(spins: list[bool]) -> None:
    first, second = (onnxruntime.compile(GRAPH, 2) for _ in range(2))
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(first([x])[0], second([x])[0])
    assert spins == [True, False]


def test_a_program_spins_where_the_others_have_ended(spins: list[bool]) -> None:
    onnxruntime.compile(GRAPH, 2)
    onnxruntime.compile(GRAPH, 2)
    assert spins == [True, True]


def test_a_program_with_one_thread_has_none_that_spins(spins: list[bool]) -> None:
    programs = [onnxruntime.compile(GRAPH, threads) for threads in (1, 2, None)]
    assert spins == [True, True, False] and len(programs) == 3


def test_a_program_beside_other_engines_rests(spins: list[bool]) -> None:
    program = onnxruntime.compile_alongside(GRAPH, 2)
    assert spins == [False] and program is not None
    assert not onnxruntime._spinning
