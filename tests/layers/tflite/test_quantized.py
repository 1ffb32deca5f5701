"""Tests of quantized operators: they are within one step of the recorded integers, and most are equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.layers.tflite._quantized import ON_INTEGERS
from anylayer.testing import assert_same
from tests.engine_names import ALL

from .recorded import cases_of

CASES = cases_of("quantized.npz")
SHARE = 0.8
"""The share of exactly equal integers in each case, at least."""
EXACT = {*ON_INTEGERS, "EQUAL", "GREATER", "LESS", "MAX_POOL_2D", "NOT_EQUAL", "SPACE_TO_BATCH_ND"}
"""Operators of which all integers are equal."""


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("name", CASES)
def test_operator_is_within_a_step_of_the_recorded_integers(name: str, engine: str, tmp_path: Path) -> None:
    case = CASES[name]
    model = anylayer.read(case.save(tmp_path)).compile(engine, threads=1)
    assert not model.host_calls
    got = model(case.inputs)
    assert set(got) == set(case.outputs)
    for output, want in case.outputs.items():
        assert (got[output].dtype, got[output].shape) == (want.dtype, want.shape)
        if want.dtype == np.float32:
            assert_same(got[output], want, name, 1e-5)
            continue
        steps = np.abs(got[output].astype(np.int64) - want)
        assert steps.max() <= (0 if name.split()[0] in EXACT else 1)
        assert (steps == 0).mean() >= SHARE
