"""Tests of TFLite's operators that reshape, rearrange, select and pad."""

from __future__ import annotations

from anylayer.layers.tflite import shapes

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    *shapes._SAME,
    "RESHAPE",
    "STRIDED_SLICE",
    "SPLIT",
    "SPLIT_V",
    "GATHER",
    "CONCATENATION",
    "PACK",
    "BROADCAST_ARGS",
    "DENSIFY",
    "READ_VARIABLE",
)
