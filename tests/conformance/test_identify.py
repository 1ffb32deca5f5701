"""Identify the dialect of each case of real Caffe and its forks by its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.inspect.identification import Identification
from anylayer.layer import Registry, need
from anylayer.numerics import largest_error, scale_of
from anylayer.runtime import run

CASES = sorted(p.parent for name in ("golden", "golden_sophgo") for p in (REFERENCE / name).glob("*/*/case.json"))
INFO: dict[Path, dict[str, Any]] = {c: json.loads((c / "case.json").read_text()) for c in CASES}
COMPUTED = [c for c in CASES if not (INFO[c].get("rejected") or INFO[c].get("unstable"))]

pytestmark = needs_data("golden", "golden_sophgo")


def key(case: Path) -> str:
    return "/".join(case.parts[-3:])


def arrays(case: Path, kind: str) -> dict[str, np.ndarray]:
    return {name: np.load(case / f"{kind}_{name}.npy") for name in INFO[case][f"{kind}s"]}


def files(case: Path) -> tuple[Path, Path | None]:
    weights = case / "weights.caffemodel"
    return case / "deploy.prototxt", weights if weights.exists() else None


def error_of(case: Path, dialect: str | None) -> float:
    """Return the largest error of a case that is read in a dialect, infinite where it is refused."""
    try:
        model = anylayer.read(*files(case), dialect=dialect).compile("numpy")
        outputs = model({name: array for name, array in arrays(case, "input").items() if name in model.inputs})
    except anylayer.AnyLayerError:
        return np.inf
    pairs = [(outputs.get(name, np.array(np.nan)), want) for name, want in arrays(case, "output").items()]
    return max(
        largest_error(got, want) / scale_of(want) if got.shape == want.shape else np.inf for got, want in pairs
    )


def identify(case: Path) -> Identification:
    return anylayer.identify(*files(case), inputs=arrays(case, "input"), expect=arrays(case, "output"))


@pytest.mark.one_per(lambda case: case.parent.name)
@pytest.mark.parametrize("case", COMPUTED, ids=key)
def test_dialects_that_compute_the_numbers_are_listed(case: Path) -> None:
    own = INFO[case]["dialect"]
    empty = not any(array.size for array in arrays(case, "output").values())
    if empty or error_of(case, own) == np.inf:  # a layer or blob that is refused or left out
        with pytest.raises(anylayer.AnyLayerError):
            need(identify(case).dialects, "no dialect is named")
        return
    found = identify(case)
    assert (own if own in found.tried else None) in found.dialects
    errors = {dialect: error_of(case, dialect) for dialect in found.tried}
    limit = max(2e-6, 10 * min(errors.values()))
    assert found.dialects == [dialect for dialect, error in errors.items() if error <= limit]


@pytest.mark.parametrize("case", [c for c in COMPUTED if c.parent.name in ("Pooling", "DummyData")], ids=key)
def test_mean_of_windows_that_overhang_tells_sophgo_from_caffe(case: Path) -> None:
    """The two programs differ only where a window of AVE pooling is clipped, and in layers of type DummyData."""
    errors = {dialect: error_of(case, dialect) for dialect in (None, "sophgo")}
    differ = abs(errors[None] - errors["sophgo"]) > 1e-4
    own = "sophgo" if INFO[case]["dialect"] == "sophgo" else None
    assert identify(case).dialects == ([own] if differ else [None, "sophgo"])


@pytest.mark.one_per(lambda case: INFO[case].get("dialect"))
@pytest.mark.parametrize("case", COMPUTED, ids=key)
def test_dialects_that_are_not_tried_change_nothing(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_need_memory", lambda *_: None)  # it traces each layer, as long as all else takes
    try:
        found = identify(case)
    except anylayer.AnyLayerError:
        return
    without = error_of(case, None)
    for dialect in Registry.of("caffe").dialects() - set(found.tried):
        assert error_of(case, dialect) == without, dialect
