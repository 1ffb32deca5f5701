"""Tests of TFLite's Fourier transforms and complex numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError

from .recorded import as_recorded, recorded

test_operators_match_the_recorded_results = as_recorded("RFFT2D")


def test_length_that_a_file_merely_claims_is_refused(tmp_path: Path) -> None:
    case = next(c for name, c in recorded().items() if name.startswith("RFFT2D"))
    net = anylayer.read(case.save(tmp_path))
    (constant,) = [node for node in net.network.nodes if node.type == "CONSTANT"]
    constant.blobs = [np.array([8, 8388612], np.int32)]
    with pytest.raises(LayerError, match=r"fft_length must be two sizes from 1 to 65536, got \[8, 8388612\]"):
        net.compile("numpy")(case.inputs)
