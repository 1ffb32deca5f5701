"""Regions of built-in nodes that compiled loops may compute: which they are, and "auto" with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer import ops
from anylayer.compile.plan import Plan, make_plan
from anylayer.compile.regions import find_regions, kinds_of_regions
from anylayer.compile.segments import nodes_with_operators
from anylayer.network import Array
from anylayer.runtime import auto, compilation, pairs
from tests.loops.harness import needs_compiler

WEIGHTS = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)


def compiled(function: Callable[..., Any], folder: Path, *inputs: Array) -> anylayer.Model:
    anylayer.export(function, *inputs, path=folder / "f.onnx")
    return anylayer.read(folder / "f.onnx").compile("onnxruntime")


def operators(plan: Plan) -> list[set[str]]:
    """Return the types of the nodes of each region."""
    return [{plan.nodes[i].node.type for i in region} for region in find_regions(plan).regions]


def depends(plan: Plan, first: int, last: int, through: set[int]) -> bool:
    """Return whether a node reads what another one produced, by way of at least one of some nodes."""
    reached = {(first, False)}
    for i, t in enumerate(plan.nodes):
        for p, by in sorted(reached):
            if p < i and not {*plan.nodes[p].node.outputs}.isdisjoint(t.node.inputs):
                reached.add((i, by or i in through))
    return (last, True) in reached


@pytest.mark.parametrize("options", [{}, {"precision": "bfloat16"}, {"exact": True}], ids=str)
def test_layers_are_timed_as_regions_only_where_regions_are_tried(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[int] = []

    def counting(*args: Any, check: Sequence[Any], **others: Any) -> Plan:
        checks.append(len(check))
        return make_plan(*args, check=check, **others)

    anylayer.export(lambda x: np.exp(x) + 1, X, path=tmp_path / "f.onnx")
    monkeypatch.setattr(compilation, "make_plan", counting)
    anylayer.read(tmp_path / "f.onnx").compile("auto", **options)
    assert checks == [1 if options else 2]


def test_functions_of_a_product_are_left_to_the_engine(tmp_path: Path) -> None:
    def chain(x: Array) -> Array:
        y = np.maximum(x @ WEIGHTS * 2 + 1, 0)
        return y[:, ::-1] - y

    assert operators(compiled(chain, tmp_path, X).plan) == [{"Slice", "Sub"}]


def test_regions_have_no_way_out_and_back(tmp_path: Path) -> None:
    def ways(x: Array) -> tuple[Array, ...]:
        a = np.exp(x)
        b, other = np.tanh(a[:, ::-1]), np.abs(a)[::-1] @ WEIGHTS
        return b * other, np.cumsum(other, axis=0) + b, x.T - x

    plan = compiled(ways, tmp_path, X).plan
    found = find_regions(plan)
    everything = {i for i, t in enumerate(plan.nodes) if t.body is not None}
    assert sum(map(len, found.regions)) > 8
    for region in found.regions:
        outside = everything - {*region}
        assert not any(depends(plan, a, b, outside) for a in region for b in region)
        places = [found.rank[i] for i in region]
        assert places == [*range(places[0], places[0] + len(region))]
    for i in everything:
        names = {*plan.nodes[i].node.inputs}
        before = [p for p in everything if not names.isdisjoint(plan.nodes[p].node.outputs)]
        assert all(found.rank[p] < found.rank[i] for p in before)


@pytest.mark.parametrize(("size", "kinds"), [(300, 1), (30, 0)])
def test_small_regions_are_not_tried(size: int, kinds: int, tmp_path: Path) -> None:
    x = np.ones((size, size), np.float32)
    plan = compiled(lambda x: ((x * 2 + 1) * x - x.T) @ x, tmp_path, x).plan
    assert len(kinds_of_regions(plan, find_regions(plan).regions)) == kinds


@needs_compiler
@pytest.mark.needs("onnxruntime")
@pytest.mark.parametrize(("seconds", "parts"), [(9e-6, {"cpp"}), (5e-6, set())])
def test_small_region_that_is_the_whole_network_is_tried_if_it_takes_long(
    seconds: float, parts: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(calls: Mapping[str, Callable[[], Any]], _: float = 1.0) -> dict[str, float]:
        return {name: seconds / 2 if name in ("cpp", "1") else seconds for name in calls}

    monkeypatch.setattr(auto, "_measure", lambda runners, plan: dict.fromkeys(runners, seconds))
    monkeypatch.setattr(auto, "timed_in_turns", measured)
    monkeypatch.setattr(pairs, "timed_in_turns", measured)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    anylayer.export(lambda x: (x * 2 + 1) * x - x.T, np.ones((30, 30), np.float32), path=tmp_path / "f.onnx")
    assert {engine for engine, _ in anylayer.read(tmp_path / "f.onnx").compile("auto").parts} == parts


def test_one_cheap_operator_per_element_is_not_tried(tmp_path: Path) -> None:
    for function, kinds in ((lambda x: x + 1, 0), (lambda x: np.power(x, 0.4545), 1), (lambda x: x.T * 1, 1)):
        plan = compiled(function, tmp_path, np.ones((600, 600), np.float32)).plan
        assert len(kinds_of_regions(plan, find_regions(plan).regions)) == kinds


def test_region_that_is_the_whole_network_costs_no_more_calls(tmp_path: Path) -> None:
    plan = compiled(lambda x: np.exp(x) * x @ WEIGHTS + 1, tmp_path, X).plan
    whole, part = nodes_with_operators(plan), nodes_with_operators(plan)[:1]
    assert auto.cut_seconds(plan, whole) == 0 < auto.cut_seconds(plan, part)


def prefer_cpp(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let "auto" measure that engine cpp and the first alternative are the fastest."""

    def measured(calls: Mapping[str, Callable[[], Any]], seconds: float = 1.0) -> dict[str, float]:
        for call in calls.values():
            call()
        return {name: 0.1 if name in ("cpp", "1") else 1.0 for name in calls}

    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(auto, "_measure", lambda runners, plan: dict.fromkeys(runners, 1.0))
    monkeypatch.setattr(auto, "timed_in_turns", measured)
    monkeypatch.setattr(pairs, "timed_in_turns", measured)


@needs_compiler
@pytest.mark.needs("onnxruntime")
def test_region_of_a_file_runs_where_it_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def boxes(x: Array, others: Array) -> tuple[Array, Array]:
        y = x @ others
        low, high = (
            np.maximum(y[:, None, :2], others[None, :, :2]),
            np.minimum(y[:, None, 2:4], others[None, :, 2:4]),
        )
        common = high - low
        return np.maximum(common, 0).prod(axis=2) @ y, y

    x, others = (np.random.default_rng(i).standard_normal((300, 300)).astype(np.float32) for i in range(2))

    prefer_cpp(monkeypatch, tmp_path)
    anylayer.export(boxes, x, others, path=tmp_path / "f.onnx")
    model = anylayer.read(tmp_path / "f.onnx").compile("auto")
    assert [engine for engine, _ in model.parts][1] == "cpp" and len(model.parts) == 3
    for got, want in zip(model({"x": x, "others": others}).values(), boxes(x, others)):
        assert np.abs(got - want).max() < 1e-4 * np.abs(want).max()


@needs_compiler
@pytest.mark.needs("onnxruntime")
def test_region_may_end_with_a_selection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def selected(x: Array) -> Array:
        y = np.tanh(x) * np.exp(-x)
        return y[y.max(axis=1) > 0.13] @ WEIGHTS

    x = np.random.default_rng(1).standard_normal((2048, 64)).astype(np.float32) / 16
    assert "Compress" in operators(compiled(selected, tmp_path, x).plan)[0]
    prefer_cpp(monkeypatch, tmp_path)
    model = anylayer.read(tmp_path / "f.onnx").compile("auto")
    assert [engine for engine, _ in model.parts] == ["cpp", "onnxruntime"]
    for data, count in ((x, None), (x * 0, 0)):
        got, want = next(iter(model({"x": data}).values())), selected(data)
        assert got.shape == want.shape and (0 < len(want) < len(x) if count is None else len(want) == count)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


class Boxes(anylayer.Layer):
    def forward(self, x: Array) -> Array:
        boxes, scores = x[None, :, :4] + np.array([0, 0, 2, 2], np.float32), x[None, None, :, 4]
        kept, _ = ops.nms(boxes, scores, max_per_class=9, iou_threshold=0.5)
        return np.exp(kept[:9].astype(np.float32) / 100)


def test_a_layer_that_selects_boxes_is_no_region(tmp_path: Path) -> None:
    (tmp_path / "b.prototxt").write_text(
        'input: "x" input_shape { dim: 600 dim: 5 }\nlayer { name: "b" type: "Boxes" bottom: "x" top: "y" }'
    )
    model = anylayer.read(tmp_path / "b.prototxt", layers={"Boxes": Boxes}).compile("auto")
    assert find_regions(model.plan).regions == []
    x = np.random.default_rng(0).standard_normal((600, 5)).astype(np.float32)
    np.testing.assert_allclose(model({"x": x})["y"], Boxes().forward(x), rtol=1e-5)
