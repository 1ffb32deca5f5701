"""Loops on data in generated modules, compared with NumPy: states, rows, conditions, open sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import anylayer
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.tracing.loop_operator import record_loop
from anylayer.tracing.record import trace
from tests.generators.pytorch.harness import module_of, network_of
from tests.generators.pytorch.test_project import load
from tests.layers.onnx.test_control import graph as body_of
from tests.layers.onnx.test_control import loop, products
from tests.loops.test_repeats import CASES as ROWS_CASES
from tests.loops.test_repeats import ROWS, many
from tests.readers.onnx.files import model, save, value
from tests.tracing.test_loops_over_sizes import CASES as SIZES_CASES
from tests.tracing.test_recorded_loops import CASES, N, given
from tests.tracing.test_selections import several, traced

pytestmark = pytest.mark.needs("torch", "safetensors")
LIMIT = TensorType((), np.dtype(np.int64))


def compared(graph: Graph, feeds: list[list[Array]], function: Callable[..., Any]) -> str:
    """Return the module of a graph, after its results for all inputs match NumPy's."""
    import torch

    written = module_of(simplify(graph, "pytorch", exact=True))
    module = network_of(written)
    for feed in feeds:
        results = module(*(torch.from_numpy(np.array(x)) for x in feed))
        wanted = several(function(*(x.copy() for x in feed)))
        for got, want in zip(results if isinstance(results, tuple) else (results,), wanted, strict=True):
            want = np.asarray(want)
            assert tuple(got.shape) == want.shape and str(got.dtype).removeprefix("torch.") == want.dtype.name
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-6)
    return written.text


def loops_in(text: str) -> int:
    """Return the number of loops of a module, without those of its helpers."""
    return len(re.findall(r"^ +for \w+ in range\(", text.partition("# The layer type")[2], re.M))


@pytest.mark.parametrize("function", [*CASES, *ROWS_CASES], ids=lambda f: f.__name__)
def test_loop_of_python_matches_numpy(function: Callable[[Array], Any]) -> None:
    rows, inputs = (N, given()) if function in CASES else (ROWS, many())
    graph = traced(function, [TensorType((rows, 5), np.dtype("f4"))])
    text = compared(graph, [[x] for x in inputs], function)
    assert loops_in(text) or function.__name__ == "best_path"


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_states_of_other_dtypes_and_rows(steps: int) -> None:
    """States change places and keep their dtypes, and there may be no rows."""

    def forward(x: Any, limit: Any) -> Any:
        flag, count = np.zeros(2, bool), np.array([1, 2**40])

        def step(v: Any) -> Any:
            at, go, x, flag, count, _ = v
            return [go, count.astype(np.float32), ~flag, count * 2 + at, x, x.sum() > 3, count]

        return tuple(record_loop(step, limit, None, [x, flag, count, x], [], 9))

    def wanted(x: Array, limit: Array) -> Any:
        flag, count, first = np.zeros(2, bool), np.array([1, 2**40]), x
        sums, counts = [], []
        for at in range(int(limit)):
            sums.append(x.sum() > 3)
            counts.append(count)
            x, flag, count, first = count.astype(np.float32), ~flag, count * 2 + at, x
        rows = (np.array(sums, bool), np.array(counts, np.int64).reshape(-1, 2))
        return x, flag, count, first, *rows

    graph = traced(forward, [TensorType((2,), np.dtype("f4")), LIMIT])
    text = compared(graph, [[np.array([2, 5], np.float32), np.array(steps)]], wanted)
    assert "if rows else torch.zeros((0,), dtype=torch.bool)" in text


def test_condition_of_the_first_step_and_the_old_flag() -> None:
    """A loop goes on with the flag that the step before has set, which is a state."""

    def forward(arrays: Any) -> Any:
        x, go = arrays
        return record_loop(lambda v: [v[3], v[2] + 1, v[2] < 3], 9, go, [x, go], [], 9)

    def wanted(x: Array, go: Array) -> Any:
        flag = go
        for _ in range(9 if go else 0):
            go, x, flag = flag, x + 1, x < 3
            if not go:
                break
        return x, flag

    graph = trace(forward, [TensorType((), np.dtype("f4")), TensorType((), np.dtype(bool))])
    feeds = [[np.array(x, np.float32), np.array(go)] for x in (0, 2, 5) for go in (True, False)]
    text = compared(graph, feeds, wanted)
    assert re.search(r"range\(9 if \w+ else 0\)", text) and "goes_on = " in text


@pytest.mark.parametrize("source", [products, lambda: loop("m")])
def test_files_with_if_and_loop(source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net = anylayer.read(source())
    given = {"x": np.ones((2, 3), np.float32), "c": np.array(True), "m": np.array(2)}
    net.generate("pytorch", tmp_path / "project", inputs={name: given[name] for name in net.inputs})
    check(net, tmp_path / "project", [(True, 1), (False, 4), (True, 9)])
    text = (tmp_path / "project" / "model.py").read_text()
    assert ("\n    if " in text.partition("# The layer type")[2]) == (source is products) == (not loops_in(text))


def check(net: Any, folder: Path, choices: list[tuple[bool, int]]) -> None:
    """Compare a module with NumPy on conditions and numbers of steps."""
    import torch

    module = load(folder)
    for condition, most in choices:
        inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array(condition), "m": np.array(most)}
        feed = {name: inputs[name] for name in net.network.inputs}
        want = net.compile("numpy")(feed)
        results = module(*map(torch.from_numpy, feed.values()))
        for got, array in zip(results if isinstance(results, tuple) else (results,), want.values(), strict=True):
            np.testing.assert_allclose(got.detach().numpy(), array, rtol=1e-5)


def test_nested_loops_of_a_file_with_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner loop runs as often as the number of the outer step, and an If selects what a step adds."""
    monkeypatch.chdir(tmp_path)
    node = helper.make_node
    scalars = [value("i", [], np.int64), value("go", [], bool)]
    then, other = (body_of([node(op, ["s", "x"], [op])], [], [op]) for op in ("Add", "Mul"))
    inner = body_of(
        [node("Identity", ["go2"], ["on2"]), node("If", ["odd"], ["t"], then_branch=then, else_branch=other)],
        [value("j", [], np.int64), value("go2", [], bool), value("s", [2, 3])],
        ["on2", "t"],
    )
    outer = body_of(
        [
            node("Identity", ["go"], ["on"]),
            node("Mod", ["i", "two"], ["rest"]),
            node("Equal", ["rest", "one"], ["odd"]),
            node("Loop", ["i", "", "r"], ["u"], body=inner),
            node("ReduceSum", ["u"], ["row"], keepdims=0),
        ],
        [*scalars, value("r", [2, 3])],
        ["on", "u", "row"],
        two=np.array(2),
        one=np.array(1),
    )
    inputs = [value("x", [2, 3]), value("m", [], np.int64)]
    path = save(model([node("Loop", ["m", "", "x"], ["y", "rows"], body=outer)], inputs, ["y", "rows"]))
    net = anylayer.read(path)
    net.generate("pytorch", tmp_path / "project", inputs={"x": np.ones((2, 3), np.float32), "m": np.array(3)})
    check(net, tmp_path / "project", [(True, 1), (True, 4)])
    assert loops_in((tmp_path / "project" / "model.py").read_text()) == 2


NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 6 } } }
layer { name: "mine" type: "Mine" bottom: "x" top: "y" }
"""


@pytest.mark.parametrize("function", SIZES_CASES, ids=lambda f: f.__name__)
def test_loop_over_an_open_size_stays_a_loop(function: Callable[[Array], Any], tmp_path: Path) -> None:
    import torch

    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            return [np.asarray(several(function(*inputs))[0])]

    (tmp_path / "net.prototxt").write_text(NET)
    net = anylayer.read(tmp_path / "net.prototxt", layers={"Mine": Mine})
    net.generate("pytorch", tmp_path / "project", shapes={"x": (3, "T")}, test=False)
    module = load(tmp_path / "project")
    for size in (1, 2, 5, 130):
        x = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
        want = np.asarray(several(function(x))[0])
        got = module(torch.from_numpy(x)).numpy()
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert loops_in((tmp_path / "project" / "model.py").read_text()) == 1
