"""Write networks with reference results of real Caffe to every format, and compare the files
with their sources.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tools.reference import needs_data

import anylayer

from .test_golden import INFO, computed, key

pytestmark = needs_data("golden")


@pytest.mark.one_per(lambda case, suffix: (case.parent.name, suffix))
@pytest.mark.parametrize("suffix", [".onnx", ".prototxt"])
@pytest.mark.parametrize("case", computed, ids=key)
def test_written_file_matches_caffe(case: Path, suffix: str, tmp_path: Path) -> None:
    weights = case / "weights.caffemodel"
    net = anylayer.read(
        case / "deploy.prototxt", weights if weights.exists() else None, dialect=INFO[case]["dialect"]
    )
    inputs = {name: np.load(case / f"input_{name}.npy") for name in INFO[case]["inputs"]}
    shapes = {name: array.shape for name, array in inputs.items()}
    done = net.write(tmp_path / f"net{suffix}", shapes=shapes, verify=inputs)
    assert done.checks and all(check.ok for check in done.checks)
    shutil.rmtree(tmp_path)
