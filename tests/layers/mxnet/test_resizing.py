"""Tests of MXNet's operators that resize, pad or crop maps."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "UpSampling", "_contrib_BilinearResize2D", "_contrib_AdaptiveAvgPooling2D", "Pad", "Crop", "space_to_depth",
    "depth_to_space",
)  # fmt: skip
