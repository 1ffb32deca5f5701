"""Tests of TFLite's convolutions of volumes."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded("CONV_3D", "CONV_3D_TRANSPOSE")
