"""Networks with reference results of real Caffe, as PyTorch modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import needs_data

import anylayer
from anylayer.testing import assert_same
from tests.conformance.test_golden import INFO, computed, key

pytestmark = [
    pytest.mark.needs("torch", "safetensors"),
    needs_data("golden"),
]


@pytest.mark.parametrize("case", computed, ids=key)
def test_module_matches_caffe(case: Path, tmp_path: Path) -> None:
    import torch

    weights = case / "weights.caffemodel"
    net = anylayer.read(
        case / "deploy.prototxt", weights if weights.exists() else None, dialect=INFO[case]["dialect"]
    )
    inputs = {name: np.load(case / f"input_{name}.npy") for name in INFO[case]["inputs"]}
    shapes = {name: x.shape for name, x in inputs.items()}
    net.generate("pytorch", tmp_path / "project", test=False, shapes=shapes, inputs=inputs)
    space: dict[str, Any] = {"__name__": "model", "__file__": str(tmp_path / "project" / "model.py")}
    exec(compile((tmp_path / "project" / "model.py").read_text(), "model.py", "exec"), space)
    with torch.no_grad():
        results = space["load"]()(*(torch.from_numpy(inputs[name].astype(np.float32)) for name in space["INPUTS"]))
    results = results if isinstance(results, tuple) else (results,)
    found = {name: r.numpy() for name, r in zip(space["OUTPUTS"], results, strict=True)}
    deep = case.parent.name == "Nets"
    for name in INFO[case]["outputs"]:
        want = np.load(case / f"output_{name}.npy").astype(np.float32)
        assert_same(found[name], want, f"{key(case)} {name}", 1e-4 if deep else None)
