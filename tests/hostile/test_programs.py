"""Test a few random programs, always the same ones, and the table of differences from NumPy in docs/engines.md."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from anylayer.errors import EngineError
from anylayer.network import TensorType
from anylayer.optimize.simplify import simplify
from anylayer.testing import assert_same, run_graph
from anylayer.tracing import trace
from tests.engine_names import GENERAL

from .programs import __main__ as command
from .programs.judge import judge
from .programs.program import make
from .programs.stated import INPUTS, ROWS, Row


@pytest.mark.one_per(lambda engine: engine.rpartition(":")[0])
@pytest.mark.parametrize(
    ("engine", "seeds"),
    [
        ("onnxruntime", range(30)),
        ("onnxruntime", range(30, 60)),
        ("openvino", range(60, 75)),
        ("open:onnxruntime", range(75, 80)),
        ("open:onnxruntime", range(80, 85)),
        ("open:file:onnxruntime", range(85, 90)),
        ("file:openvino", range(90, 95)),
    ],
)
def test_engines_compute_programs_like_numpy(engine: str, seeds: range) -> None:
    wrong = {}
    for seed in seeds:
        verdict = judge(make(seed), engine)
        if verdict.what not in ("traced", "in Python", "stated", "refused"):
            wrong[seed] = verdict
    assert not wrong, "\n".join(f"seed {seed}: {v.what}: {v.reason}" for seed, v in wrong.items())


def test_seed_determines_the_program() -> None:
    a, b = make(7), make(7)
    assert a.text == b.text and make(8).text != a.text
    for first, second in zip(a.feeds, b.feeds):
        for name in first:
            np.testing.assert_array_equal(first[name], second[name])


def test_programs_take_every_path_with_exact_values() -> None:
    programs = [p for p in map(make, range(80)) if p.exact]
    assert len(programs) > 15
    for keyword in ("while ", "for ", "if ", "elif ", "continue", "break", ".append("):
        assert any(keyword in p.text for p in programs), keyword
    for p in programs:
        assert all((x * 4 == np.round(x * 4)).all() for feed in p.feeds for x in feed.values())


def test_command_counts_results(capsys: pytest.CaptureFixture[str]) -> None:
    counts = command.run(range(3), ["onnxruntime"])
    assert counts["onnxruntime"].total() == 3
    assert "| onnxruntime |" in command.table(counts)


def test_dead_process_is_reported_as_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    child = command.Child()
    assert child.ask(0, "onnxruntime")[0] in command.ENDS
    assert child.ask(0, "no_such_engine")[0] == "refused"
    process = child._process
    assert process is not None and process.stdin is not None
    process.stdin.write(b"not a seed\n")
    process.stdin.flush()
    assert child.ask(0, "onnxruntime")[0] == "died"
    assert child.ask(0, "onnxruntime")[0] in ("traced", "in Python")
    child.close()


def _holds(row: Row, engine: str) -> bool:
    """Return whether the engine computes the row's example as NumPy does."""
    names = {n: eval(text, {"np": np}) for n, text in INPUTS.items() if re.search(rf"\b{n}\b", row.example)}

    def function(arrays: Any) -> Any:
        return [eval(row.example, {"np": np, **dict(zip(names, arrays))})]

    with np.errstate(all="ignore"):
        want = np.asarray(function(list(names.values()))[0])
    graph = trace(function, [TensorType.of(a.shape, a.dtype) for a in names.values()])
    try:
        assert_same(run_graph(simplify(graph, engine), list(names.values()), engine)[0], want)
    except (AssertionError, EngineError):
        return False
    return True


@pytest.mark.parametrize("row", [row for row in ROWS if row.engines], ids=lambda row: row.example)
@pytest.mark.parametrize("engine", GENERAL)
def test_stated_differences_are_true(row: Row, engine: str) -> None:
    assert _holds(row, engine) == (engine not in row.engines)
