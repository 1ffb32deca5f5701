"""anylayer.opencv answers as OpenCV 4 does, on the same networks."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer.opencv as dnn
from tests.opencv import programs


@pytest.fixture(scope="module")
def opencv4(networks: Path) -> dict[str, Any]:
    """Return the results of all programs with OpenCV 4. Skip where there is none."""
    python = os.environ.get("ANYLAYER_OPENCV4") or sys.executable
    done = subprocess.run(
        [python, programs.__file__, networks], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}
    )
    if "no Caffe reader" in done.stderr or "No module named 'cv2'" in done.stderr:
        pytest.skip("OpenCV 4 is not installed")
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = pickle.loads((networks / "results.pickle").read_bytes())
    return results


def assert_same(got: Any, want: Any, place: str, exact: bool) -> None:
    """Check that two results are equal: dicts by key, lists by item, arrays by shape and value."""
    if isinstance(want, dict):
        assert set(got) == set(want), place
        for key, value in want.items():
            assert_same(got[key], value, f"{place}: {key}", exact)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), f"{place}: {len(got)} items, expected {len(want)}"
        for i, (one, other) in enumerate(zip(got, want)):
            assert_same(one, other, f"{place} {i}", exact)
    elif isinstance(want, (np.ndarray, float)):
        one, other = np.asarray(got), np.asarray(want)
        assert one.shape == other.shape, f"{place}: {one.shape}, expected {other.shape}"
        if exact and "soft" not in place:
            assert np.array_equal(one, other), place
        else:
            largest = max(1e-6, float(np.abs(other).max(initial=0)))
            near = 1 if place.startswith("models: boxes") else 1e-4 * largest  # a box is cut off to whole pixels
            np.testing.assert_allclose(one, other, rtol=0, atol=near, err_msg=place)
    else:
        assert got == want, f"{place}: {got!r}, expected {want!r}"


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda program: program.__name__)
def test_answers_match_opencv(
    opencv4: dict[str, Any], networks: Path, program: Callable[[Any, Path], dict[str, Any]]
) -> None:
    name = program.__name__
    assert_same(program(dnn, networks), opencv4[name], name, name in programs.EXACT)
