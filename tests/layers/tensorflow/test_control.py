"""Loops and branches match TensorFlow, in the three forms that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError, NetworkError
from anylayer.layers import _control
from anylayer.testing import assert_same
from tests.engine_names import ALL
from tests.hostile import mutations
from tests.hostile.trial import Trials
from tests.readers.tensorflow.files import const, graph, node, placeholder

FILE = Path(__file__).parents[2] / "data" / "tensorflow" / "control_flow.npz"


@cache
def recorded() -> dict[str, np.ndarray[Any, Any]]:
    with np.load(FILE) as file:
        return dict(file)


NAMES = [key.removesuffix("/graph") for key in recorded() if key.endswith("/graph")]


def graph_of(name: str, folder: Path) -> Path:
    path = folder / "graph.pb"
    path.write_bytes(recorded()[f"{name}/graph"].tobytes())
    return path


def sets_of(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the recorded inputs and outputs: both sides of branches, and loops of no step, one and many."""
    for i in range(20):
        found = {k.split("/")[-1]: v for k, v in recorded().items() if k.startswith(f"{name}/{i}/")}
        if not found:
            assert i >= 2
            return
        yield (
            {k: v for k, v in found.items() if k[0] != "="},
            {k[1:]: v for k, v in found.items() if k[0] == "="},
        )


def check(model: Any, name: str) -> None:
    assert not model.host_calls
    for inputs, outputs in sets_of(name):
        results = model({k: v for k, v in inputs.items() if k in model.inputs})
        assert set(results) == set(outputs)
        for key, value in outputs.items():
            assert_same(results[key], value)


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("name", NAMES)
def test_control_flow_matches_tensorflow(name: str, engine: str, tmp_path: Path) -> None:
    check(anylayer.read(graph_of(name, tmp_path)).compile(engine), name)


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("/frames")])
def test_written_onnx_file_matches_tensorflow(name: str, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    anylayer.read(graph_of(name, tmp_path)).write(file)
    for engine in ALL:
        check(anylayer.read(file).compile(engine), name)


def counting(*inside: bytes, limit: int | None) -> bytes:
    """Return a frame that counts from 0 up to a limit, by default the size of x. Its other variable is x."""
    nodes = [placeholder("x", 2), const("zero", np.int32(0)), const("one", np.int32(1))]
    nodes += [node("limit", "Size", "x") if limit is None else const("limit", np.int32(limit))]
    for name, start, following in (("i", "zero", "next"), ("s", "x", "more")):
        nodes += [
            node(f"{name}/enter", "Enter", start, frame_name="f"),
            node(f"{name}/merge", "Merge", f"{name}/enter", f"{name}/again"),
            node(f"{name}/switch", "Switch", f"{name}/merge", "cond"),
            node(f"{name}/again", "NextIteration", following),
            node(f"{name}/exit", "Exit", f"{name}/switch"),
        ]
    nodes += [node("less", "Less", "i/merge", "limit"), node("cond", "LoopCond", "less")]
    nodes += [node("next", "AddV2", "i/switch:1", "one"), *inside, node("y", "Identity", "s/exit")]
    return graph(*nodes)


def record_loops(monkeypatch: pytest.MonkeyPatch, are_recorded: bool) -> None:
    """Record loops of a constant number of steps as operators, or never."""
    monkeypatch.setattr(_control, "_MAX_UNROLLED", 0 if are_recorded else 1_000_000)


DOUBLED = node("more", "AddV2", "s/switch:1", "s/switch:1")


@pytest.mark.parametrize("engine", ALL)
def test_loop_of_constant_length_is_unrolled_or_recorded(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "graph.pb"
    for limit in (-1, 0, 1, 7):
        path.write_bytes(counting(DOUBLED, limit=limit))
        for has_room in (True, False):
            record_loops(monkeypatch, not has_room)
            result = anylayer.read(path).compile(engine)({"x": np.float32([1, 2])})["y"]
            assert_same(result, np.float32([1, 2]) * 2 ** max(limit, 0))


@pytest.mark.parametrize("engine", ALL)
def test_endless_loop_is_refused(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_control, "MAX_STEPS", 50)
    path = tmp_path / "graph.pb"
    path.write_bytes(counting(DOUBLED, limit=2_000_000_000))
    with pytest.raises(LayerError, match="its loop exceeds the limit of 50 steps"):
        anylayer.read(path).compile(engine)({"x": np.float32([1, 2])})


def test_loop_whose_state_changes_its_shape_is_unrolled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_loops(monkeypatch, True)
    path = tmp_path / "graph.pb"
    both = node("more", "ConcatV2", "s/switch:1", "s/switch:1", "zero", N=2)
    path.write_bytes(counting(both, limit=3))
    model = anylayer.read(path).compile(ALL[-1])
    assert not model.host_calls
    assert model({"x": np.float32([1, 2])})["y"].tolist() == [1, 2] * 8


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("form", ["frames", "functions", "lowered"])
def test_long_loop_is_recorded_with_its_rows(
    form: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_loops(monkeypatch, True)
    name = f"seq_lstm/{form}"
    model = anylayer.read(graph_of(name, tmp_path)).compile(engine)
    check(model, name)
    if engine != "numpy":
        (loop,) = [o for step in model.plan.steps for o in step.graph.ops if o.op == "Loop"]
        assert not [o for o in loop.body.ops if o.op == "ScatterND"]


@pytest.mark.parametrize("engine", ALL)
def test_loop_over_an_open_size_is_recorded(engine: str, tmp_path: Path) -> None:
    """The loop doubles x once per element."""
    path = tmp_path / "graph.pb"
    path.write_bytes(counting(DOUBLED, limit=None))
    model = anylayer.read(path).compile(engine, shapes={"x": ("N",)})
    for size in (1, 2, 9):
        x = np.arange(size, dtype=np.float32)
        assert_same(model({"x": x})["y"], x * 2**size)


def test_function_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    graph_def = recorded()["choice/functions/graph"].tobytes()
    path.write_bytes(graph_def.replace(b"cond_true", b"cond_tree", 1))
    with pytest.raises(NetworkError, match=r"it runs function 'cond_tr.*, which is missing in the graph"):
        anylayer.read(path)


def test_changed_files_never_crash() -> None:
    random = Random("control flow")
    graphs = [recorded()[f"{name}/graph"].tobytes() for name in NAMES]
    with Trials(memory=8000, seconds=20) as trials:
        for _ in range(150):
            changed = mutations.data(random.choice(graphs), random)
            found = trials.run(changed, name="graph.pb", engines=["numpy"])
            named = found.end in ("ok", "EngineError") or found.text.startswith("graph.pb")
            assert found.fine and named, f"{found.end}: {found.text}\n{changed!r}\n{found.trace}"
