"""Tests of MXNet's convolutions, pooling and resizing."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded("Convolution", "Pooling", "Pooling_v1")
