"""Tests of MediaPipe's custom operators, with results of MediaPipe's own graph."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "TransformLandmarks",
    "TransformTensorBilinear", "Landmarks2TransformMatrix",
)  # fmt: skip
