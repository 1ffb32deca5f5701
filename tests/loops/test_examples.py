"""The loops of the layers of examples/layers, and of the built-in ones of the same types, compute what NumPy does.

Each is traced with open sizes, and runs at the sizes of the trace and at others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer.layer import Registry, load_layers
from anylayer.layer.bound import Bound, bind
from anylayer.loops import CppFunction, Opened, at_fixed_sizes, lower, opened, to_cpp
from anylayer.network import Array, TensorType
from tests.layers.harness import noise
from tests.loops.harness import build, call, needs_compiler
from tests.test_examples_layers import CASES, FOLDER, ROIS, THETA, node_of

pytestmark = needs_compiler

RUNS = {
    **CASES,
    "crop": ("Crop", "", None, [noise(1, 2, 9, 8), noise(1, 1, 4, 5)]),
    "resize_bilinear": ("ResizeBilinear", "", None, [noise(2, 2, 3, 4)]),
}
OTHERS: dict[str, Sequence[Array]] = {
    "interp": [noise(1, 2, 5, 6)],
    "interp smaller": [noise(2, 1, 9, 10)],
    "reverse": [noise(3, 4, 2)],
    "reverse several": [noise(1, 4, 5)],
    "upsample": [noise(2, 1, 5, 3)],
    "normalize": [noise(1, 5, 6, 2)],
    "normalize image": [noise(3, 4, 2, 5)],
    "reorg": [noise(1, 5, 8, 2)],
    "reorg back": [noise(1, 8, 5, 2)],
    "shuffle_channel": [noise(1, 9, 2, 5)],
    "roi_align": [noise(2, 2, 7, 12), ROIS[:3]],
    "roi_align three samples": [noise(2, 1, 11, 6), ROIS[1:]],
    "yolo": [noise(1, 16, 2, 5)],
    "prior_box": [noise(2, 1, 3, 4), noise(2, 3, 24, 30)],
    "prior_box plain": [noise(2, 1, 2, 3), noise(2, 3, 16, 20)],
    "spatial_transformer": [noise(2, 2, 6, 7), THETA[::-1]],
    "spatial_transformer same size": [noise(2, 2, 6, 7), THETA[::-1]],
    "crop": [noise(2, 3, 6, 10), noise(1, 2, 5, 3)],
    "resize_bilinear": [noise(1, 3, 5, 2)],
}
FIXED = {"built-in spatial_transformer", "built-in spatial_transformer same size"}
"""Layers whose own code computes with the sizes as plain numbers."""


@dataclass
class Case:
    layer: Bound
    inputs: Sequence[Array]
    others: Sequence[Array]
    traced: Opened
    code: CppFunction

    def at(self, inputs: Sequence[Array]) -> list[Array]:
        """Return what NumPy computes."""
        types = [TensorType.of(x.shape) for x in inputs]
        layer = Bound(self.layer.node, self.layer.definition, types, self.layer.dialect)
        return [np.asarray(o) for o in layer(list(inputs))]

    def sizes(self, inputs: Sequence[Array]) -> dict[str, int]:
        """Return the open sizes that inputs have."""
        return {s: inputs[i].shape[a] // k for s, (i, a, k) in self.traced.sizes.items()}


def _layers(folder: Path) -> dict[str, Bound]:
    found = {}
    for name, (type_, params, dialect, inputs) in RUNS.items():
        node = node_of(folder, type_, params, dialect, inputs)
        if type_ == "ResizeBilinear":  # a layer of TensorFlow, whose size is a blob
            node.params, node.blobs = {"align_corners": False}, [np.array([[7, 9]])]
        types = [TensorType.of(x.shape) for x in inputs]
        user = load_layers([FOLDER / f"{name.split()[0]}.py"])[type_]
        found[name] = bind(node, [user], types, dialect)
        if type_ != "ResizeBilinear":
            found[f"built-in {name}"] = bind(node, Registry.of("caffe").find(type_), types, dialect)
    return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder, found = tmp_path_factory.mktemp("examples"), {}
    for name, layer in _layers(folder).items():
        base = name.removeprefix("built-in ")
        traced = opened(layer)
        code = to_cpp(lower(traced), name.replace(" ", "_").replace("-", "_"), lambda line: line)
        found[name] = Case(layer, RUNS[base][3], OTHERS[base], traced, code)
    return found


@pytest.fixture(scope="module")
def library(cases: dict[str, Case], tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build([case.code for case in cases.values()], tmp_path_factory.mktemp("library"))


NAMES = [*RUNS, *(f"built-in {name}" for name in RUNS if name != "resize_bilinear")]


def compare(case: Case, library: ctypes.CDLL, inputs: Sequence[Array]) -> None:
    got = call(library, case.code, inputs, case.sizes(inputs))
    assert got is not None
    for g, w in zip(got, case.at(inputs), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-5 * max(1e-6, float(np.abs(w).max())))


@pytest.mark.parametrize("name", NAMES)
def test_loops_equal_numpy(name: str, cases: dict[str, Case], library: ctypes.CDLL) -> None:
    compare(cases[name], library, cases[name].inputs)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in FIXED])
def test_loops_equal_numpy_at_other_sizes(name: str, cases: dict[str, Case], library: ctypes.CDLL) -> None:
    case = cases[name]
    assert case.traced.sizes and not case.traced.notes
    sizes = case.sizes(case.others)
    shapes = [tuple(e.value(sizes) for e in a.shape) for a in case.code.inputs]
    assert shapes == [x.shape for x in case.others] and all(g.holds(sizes) for g in case.traced.guards)
    compare(case, library, case.others)


def test_layer_at_fixed_sizes_has_no_open_ones(tmp_path: Path) -> None:
    traced = at_fixed_sizes(_layers(tmp_path)["interp"])
    assert not traced.sizes and [v.shape for v in traced.graph.outputs] == [(2, 3, 9, 8)]


def test_interpolation_at_fixed_sizes_gathers_instead_of_multiplying_by_matrices(tmp_path: Path) -> None:
    x = noise(1, 3, 20, 16)
    node = node_of(tmp_path, "Interp", "interp_param { height: 39 width: 31 }", None, [x])
    layer = bind(node, Registry.of("caffe").find("Interp"), [TensorType.of(x.shape)], None)
    traced = at_fixed_sizes(layer)
    code = to_cpp(lower(traced), "layer")
    assert {op.op for op in traced.graph.ops} == {"Gather", "Mul", "Add"} and " += " not in code.text
    (got,) = call(build([code], tmp_path), code, [x], {}) or [np.zeros(0)]
    np.testing.assert_allclose(got, layer([x])[0], rtol=0, atol=1e-6)


def test_code_has_source_lines_and_folds_moves(cases: dict[str, Case]) -> None:
    for name in ("crop", "reorg", "reverse", "shuffle_channel", "upsample"):
        assert "temporary" not in cases[name].code.text
    text = cases["shuffle_channel"].code.text
    assert text.count("for (") == 2 and "shuffle_channel.py:2" in text
    text = cases["reorg"].code.text
    assert text.count("for (") == 2 and " / " not in text.split("for (")[1], text


def test_index_outside_of_data_is_reported(cases: dict[str, Case], library: ctypes.CDLL) -> None:
    case: Any = cases["roi_align"]
    rois = ROIS.copy()
    rois[0, 0] = 7
    assert call(library, case.code, [case.inputs[0], rois], case.sizes(case.inputs)) is None
