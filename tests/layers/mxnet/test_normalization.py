"""Tests of MXNet's normalization."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU",
    "InstanceNorm", "LayerNorm", "GroupNorm",
    "L2Normalization", "LRN",
)  # fmt: skip
