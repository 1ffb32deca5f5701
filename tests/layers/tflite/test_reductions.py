"""Tests of TFLite's matrix products, reductions and normalization."""

from __future__ import annotations

from anylayer.layers.tflite import reductions

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    *reductions._REDUCTIONS, "MEAN", "FULLY_CONNECTED", "BATCH_MATMUL", "ARG_MAX", "ARG_MIN", "CUMSUM", "TOPK_V2",
    "L2_NORMALIZATION", "LOCAL_RESPONSE_NORMALIZATION",
)  # fmt: skip
