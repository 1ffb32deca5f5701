"""ONNX's own tests of its operators on the engine openvino: each matches, or is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import anylayer
from tests.readers.onnx import test_node_tests as shared
from tests.readers.onnx.test_node_tests import PARTS, WRITTEN_FOR, array, cases, excuses, part_of, wrong

__all__ = ["cases"]

pytestmark = pytest.mark.needs("openvino")

DIFFER: dict[str, str] = {}
"""Tests whose values differ, and why."""


def problem(case: Any, folder: Path) -> str:
    """Return how a test's values differ, or "" if they do not, or if the engine or a layer refuses the model."""
    path = folder / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    (inputs, outputs), *_ = case.data_sets
    feed = {i.name: array(value) for i, value in zip(case.model.graph.input, inputs)}
    wanted = {o.name: array(value) for o, value in zip(case.model.graph.output, outputs)}
    if not all(isinstance(v, (np.ndarray, np.generic)) for v in [*feed.values(), *wanted.values()]):
        return ""
    try:
        net = anylayer.read(path)
        shapes = {n: v.shape for n, v in feed.items() if net.inputs[n] is None}
        got = net.compile("openvino", shapes, threads=1)(feed)
    except anylayer.AnyLayerError:
        return ""
    found = {n: wrong(got[n], np.asarray(w), case.rtol) for n, w in wanted.items()}
    return str(found) if any(found.values()) else ""


@pytest.mark.breadth
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings("ignore")
def test_operators_match_onnx_or_are_refused(part: int, cases: list[Any], tmp_path: Path) -> None:
    if not onnx.__version__.startswith(WRITTEN_FOR):
        pytest.skip(f"the expected results are those of onnx {WRITTEN_FOR}")
    elsewhere = {name for name, engines in excuses().items() if engines in (set(shared.ENGINES), {"random"})}
    problems = []
    for case in part_of(cases, part):
        if "_expanded" in case.name or case.name in elsewhere:
            continue
        found = problem(case, tmp_path)
        if bool(found) != (case.name in DIFFER):
            problems.append(f"{case.name}: {found or 'is right'}")
    assert not problems
