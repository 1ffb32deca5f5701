"""Tests of MXNet's convolutions and pooling."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded("Convolution", "Deconvolution", "Pooling", "Pooling_v1")
test_target_shape_matches_the_recorded_results = as_recorded("float64", engines=("numpy",))
