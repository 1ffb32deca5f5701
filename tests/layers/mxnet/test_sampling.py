"""Tests of MXNet's operators that sample a map at given points."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "BilinearSampler", "GridGenerator", "SpatialTransformer", "Correlation", "DeformableConvolution",
    "ModulatedDeformableConvolution", file="detection",
)  # fmt: skip
