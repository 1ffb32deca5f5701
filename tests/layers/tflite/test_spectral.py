"""Tests of TFLite's Fourier transforms and complex numbers."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded("RFFT2D")
