"""Compare every engine with the results of real Caffe."""

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

GOLDEN = REFERENCE / "golden"
CASES = sorted(p.parent for p in GOLDEN.glob("*/*/case.json"))
INFO: dict[Path, dict[str, Any]] = {c: json.loads((c / "case.json").read_text()) for c in CASES}
ACCEPTED = excuses("accepted")
REFUSALS = excuses("refusals")
DEVIATIONS = excuses("openvino")

pytestmark = needs_data("golden")


def key(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def load(case: Path, engine: str) -> tuple[Any, dict[str, np.ndarray]]:
    weights = case / "weights.caffemodel"
    net = anylayer.read(
        case / "deploy.prototxt", weights if weights.exists() else None, dialect=INFO[case]["dialect"]
    )
    return net.compile(engine=engine), {name: np.load(case / f"input_{name}.npy") for name in INFO[case]["inputs"]}


computed = [c for c in CASES if not INFO[c].get("rejected")]
rejected = [c for c in CASES if INFO[c].get("rejected")]


@pytest.mark.one_per(lambda case: case.parent.name)
@pytest.mark.parametrize("case", computed, ids=key)
def test_engine_matches_caffe(case: Path, engine: str) -> None:
    model, inputs = load(case, engine)
    outputs = model(inputs)
    assert list(outputs) == sorted(INFO[case]["outputs"])
    assert model.host_calls == []
    deep = case.parent.name == "Nets"
    for name in INFO[case]["outputs"]:
        want = np.load(case / f"output_{name}.npy").astype(np.float32)
        if engine == "openvino" and key(case) in DEVIATIONS:
            with pytest.raises(AssertionError):
                assert_same(outputs[name], want, name)
            continue
        assert_same(outputs[name], want, f"{key(case)} {name}", 1e-4 if deep else None)


@pytest.mark.parametrize("case", [c for c in rejected if key(c) not in ACCEPTED], ids=key)
def test_refuses_what_caffe_refuses(case: Path) -> None:
    with pytest.raises(anylayer.AnyLayerError, match=REFUSALS.get(key(case), "")) as caught:
        model, inputs = load(case, "numpy")
        model(inputs)
    assert "deploy.prototxt" in str(caught.value) or "weights.caffemodel" in str(caught.value)
    assert re.search(r"layers? '", str(caught.value)), "the message names the layer"


def test_accepts_only_listed_cases_that_caffe_refuses() -> None:
    for case in rejected:
        if key(case) in ACCEPTED:
            model, inputs = load(case, "numpy")
            assert model(inputs), ACCEPTED[key(case)]


def test_every_listed_exception_is_a_case() -> None:
    assert not without_case({**ACCEPTED, **REFUSALS, **DEVIATIONS}, CASES)
