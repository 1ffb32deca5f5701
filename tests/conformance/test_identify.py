"""Identify the dialect of each case of real Caffe and its forks by its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.layer import Registry
from anylayer.numerics import largest_error, scale_of

from .conftest import SHARED

CASES = sorted(p.parent for p in (SHARED / "golden").glob("*/*/case.json"))
INFO: dict[Path, dict[str, Any]] = {c: json.loads((c / "case.json").read_text()) for c in CASES}
COMPUTED = [c for c in CASES if not INFO[c].get("rejected")]

pytestmark = pytest.mark.skipif(not CASES, reason="../shared/golden is absent")


def arrays(case: Path, kind: str) -> dict[str, np.ndarray]:
    return {name: np.load(case / f"{kind}_{name}.npy") for name in INFO[case][f"{kind}s"]}


def files(case: Path) -> tuple[Path, Path | None]:
    weights = case / "weights.caffemodel"
    return case / "deploy.prototxt", weights if weights.exists() else None


def error_of(case: Path, dialect: str | None) -> float:
    """Return the largest error of a case that is read in a dialect, infinite where it is refused."""
    try:
        outputs = anylayer.read(*files(case), dialect=dialect).compile("numpy")(arrays(case, "input"))
    except anylayer.AnyLayerError:
        return np.inf
    pairs = [(outputs[name], want) for name, want in arrays(case, "output").items()]
    return max(
        largest_error(got, want) / scale_of(want) if got.shape == want.shape else np.inf for got, want in pairs
    )


@pytest.mark.parametrize("case", COMPUTED, ids=lambda c: f"{c.parent.name}/{c.name}")
def test_dialects_that_compute_the_numbers_are_listed(case: Path) -> None:
    found = anylayer.identify(*files(case), inputs=arrays(case, "input"), expect=arrays(case, "output"))
    own = INFO[case]["dialect"]
    assert (own if own in found.tried else None) in found.dialects
    errors = {dialect: error_of(case, dialect) for dialect in found.tried}
    limit = max(2e-6, 10 * min(errors.values()))
    assert found.dialects == [dialect for dialect, error in errors.items() if error <= limit]


@pytest.mark.slow(7)
@pytest.mark.parametrize("case", COMPUTED, ids=lambda c: f"{c.parent.name}/{c.name}")
def test_dialects_that_are_not_tried_change_nothing(case: Path) -> None:
    found = anylayer.identify(*files(case), inputs=arrays(case, "input"), expect=arrays(case, "output"))
    without = error_of(case, None)
    for dialect in Registry.of("caffe").dialects() - set(found.tried):
        assert error_of(case, dialect) == without, dialect
