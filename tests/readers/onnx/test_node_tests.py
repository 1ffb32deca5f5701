"""ONNX's own tests of its operators (onnx.backend.test), on the engines numpy and onnxruntime.

excuses.txt lists the tests that fail, with reasons. A test that it lists and that passes is a failure too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import anylayer
from anylayer.network import Array
from tests.readers.onnx.node_tests import node_tests

EXCUSES = Path(__file__).parent / "excuses.txt"
WRITTEN_FOR = "1.23"
"""The version of the onnx package whose tests excuses.txt lists."""
WRITTEN_WITH = "1.32"
"""The version of ONNX Runtime that excuses.txt is about."""
ENGINES = ("numpy", "onnxruntime")
PARTS = 12


def excuses() -> dict[str, set[str]]:
    """Return the engines on which each listed test fails."""
    found: dict[str, set[str]] = {}
    engines: set[str] = set()
    for line in EXCUSES.read_text().splitlines():
        if line.startswith("["):
            engines = set(ENGINES) if line == "[all]" else {line.strip("[]")}
        elif line and not line.startswith("#"):
            found[line] = engines
    return found


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    return node_tests()


def part_of(cases: list[Any], part: int) -> list[Any]:
    """Return one of PARTS parts of the tests. Part 0 has the first test of each operator."""
    first = {case.model.graph.node[0].op_type: case for case in reversed(cases)}
    names = {case.name for case in first.values()}
    return list(first.values()) if part == 0 else [c for c in cases if c.name not in names][part - 1 :: PARTS - 1]


def array(value: Any) -> Any:
    """Return a test's value as an array. Lists and None are returned as they are."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def wrong(got: Array, want: Array, rtol: float | None) -> str:
    """Return how an output differs from the expected one, or "" if it does not.

    rtol: the largest relative difference. None compares only type and shape.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if rtol is None:
        return ""
    if want.dtype.kind in "biu":
        return "" if (got == want).all() else "values differ"
    got, want = got.astype(np.float64), want.astype(np.float64)
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
    same = np.isclose(got, want, rtol=rtol, atol=1e-5 * scale + 1e-7, equal_nan=True)
    return "" if same.all() else f"{int((~same).sum())} of {same.size} values differ"


def engines_for(case: Any) -> tuple[str, ...]:
    """Return the engines for a test. A test that expands an operator into others runs on one engine only."""
    return ENGINES[1:] if "_expanded" in case.name else ENGINES


def failures(case: Any, folder: Path, rtol: float | None) -> Iterator[tuple[str, str]]:
    """Yield the engine and what is wrong, for each engine on which a test fails.

    rtol: see wrong().
    """
    path = folder / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    (inputs, outputs), *_ = case.data_sets
    names = [i.name for i in case.model.graph.input]
    feed = {name: array(value) for name, value in zip(names, inputs)}
    wanted = {o.name: array(value) for o, value in zip(case.model.graph.output, outputs)}
    if not all(isinstance(v, (np.ndarray, np.generic)) for v in [*feed.values(), *wanted.values()]):
        yield from ((engine, "not arrays") for engine in engines_for(case))
        return
    for engine in engines_for(case):
        try:
            net = anylayer.read(path)
            shapes = {n: v.shape for n, v in feed.items() if net.inputs[n] is None}
            got = net.compile(engine, shapes, threads=1)(feed)
        except anylayer.AnyLayerError as error:
            yield engine, str(error)
            continue
        problems = {n: wrong(got[n], np.asarray(w), rtol) for n, w in wanted.items()}
        if any(problems.values()):
            yield engine, str(problems)


@pytest.mark.one_per()
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings("ignore")
def test_operators_match_onnx(
    part: int, cases: list[Any], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    compared = left_out = 0
    excused, known = excuses(), re.match(r"\d+\.\d+", onnx.__version__)
    same = known is not None and known[0] == WRITTEN_FOR
    same = same and onnxruntime.__version__.startswith(f"{WRITTEN_WITH}.")
    problems = []
    for case in part_of(cases, part):
        listed = excused.get(case.name, set())
        found = dict(failures(case, tmp_path, None if "random" in listed else case.rtol))
        for engine in engines_for(case):
            expected = engine in listed
            compared += engine not in found
            left_out += engine in found and expected
            if engine in found and not expected:
                problems.append(f"{case.name} on {engine}: {found[engine][:300]}")
            if engine not in found and expected and same:
                problems.append(f"{case.name} on {engine} passes: it needs no excuse")
    record_property("compared", compared)
    record_property("left out", left_out)
    assert not problems if same else len(problems) < len(cases) // PARTS // 20, "\n".join(problems)


def test_listed_failures_are_existing_tests(cases: list[Any]) -> None:
    if onnx.__version__.startswith(WRITTEN_FOR):
        assert not set(excuses()) - {case.name for case in cases}
