"""Compare with the results of Sophgo's Caffe, in the dialect sophgo.

sophgo.txt lists every case that is not computed: `case: why: text of the message`. "accepted" stands in place of
the text where this Caffe refuses a case that other forks compute.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.testing import assert_same

from .conftest import excuses, without_case

GOLDEN = REFERENCE / "golden_sophgo"
CASES = sorted(p.parent for p in GOLDEN.glob("*/*/case.json"))
INFO: dict[Path, dict[str, Any]] = {c: json.loads((c / "case.json").read_text()) for c in CASES}
TABLE = {key: reason.split(": ", 1) for key, reason in excuses("sophgo").items()}
REASONS = {
    "rejected": "Sophgo's Caffe aborts or crashes",
    "unstable": "Sophgo's Caffe returns other values in each run",
    "undecided": "no source states the rule, and the results do not determine it",
    "loss": "a loss for training is left out, and nothing else is an output",
    "elements": "Sophgo's Caffe reads elements that are not those of the output's place",
}
TOLERANCE = 1e-5  # of the largest value

pytestmark = needs_data("golden_sophgo")


def key(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def outputs(case: Path, engine: str) -> dict[str, np.ndarray]:
    weights = case / "weights.caffemodel"
    net = anylayer.read(case / "deploy.prototxt", weights if weights.exists() else None, dialect="sophgo")
    if not weights.exists():
        net = net.fill()
    files = {name: case / f"input_{name}.npy" for name in net.inputs}
    inputs = {n: np.load(f) if f.exists() else np.zeros(net.inputs[n].shape, np.float32) for n, f in files.items()}
    return net.compile(engine=engine)(inputs)


def same_as_sophgo(case: Path, engine: str) -> None:
    found = outputs(case, engine)
    assert list(found) == sorted(INFO[case]["outputs"])
    for name, y in found.items():
        want = np.load(case / f"output_{name}.npy").astype(np.float32)
        assert_same(y, want, f"{key(case)} {name}", TOLERANCE)


COMPUTED = [c for c in CASES if key(c) not in TABLE]


@pytest.mark.parametrize("case", COMPUTED, ids=key)
def test_layer_matches_sophgo(case: Path) -> None:
    assert not INFO[case].get("rejected") and not INFO[case].get("unstable")
    same_as_sophgo(case, "numpy")


@pytest.mark.one_per(lambda case: case.parent.name)
@pytest.mark.parametrize("case", COMPUTED, ids=key)
def test_onnxruntime_matches_sophgo(case: Path, recwarn: pytest.WarningsRecorder) -> None:
    same_as_sophgo(case, "onnxruntime")


@pytest.mark.parametrize("case", [c for c in CASES if key(c) in TABLE], ids=key)
def test_every_other_case_is_refused_for_its_reason(case: Path) -> None:
    why, text = TABLE[key(case)]
    assert why in REASONS
    marks = {mark for mark in ("rejected", "unstable") if INFO[case].get(mark)}
    assert why in marks or why == "undecided" or not marks
    if text == "accepted":
        assert why == "rejected" and outputs(case, "numpy")
        return
    with pytest.raises(anylayer.AnyLayerError, match=re.escape(text)) as caught:
        outputs(case, "numpy")
    assert re.search(r"layers? '", str(caught.value)), "the message names the layer"


def test_table_lists_only_cases() -> None:
    assert not without_case(TABLE, CASES)
