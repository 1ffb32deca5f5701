"""Tests of MXNet's operators that resize, pad or crop maps."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "UpSampling", "_contrib_BilinearResize2D", "_contrib_AdaptiveAvgPooling2D", "Pad", "Crop", "space_to_depth",
    "depth_to_space", "_image_to_tensor", "_image_normalize", "_image_crop", "_image_flip_left_right",
    "_image_flip_top_bottom",
)  # fmt: skip
