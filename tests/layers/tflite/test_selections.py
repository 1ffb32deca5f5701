"""Tests of TFLite's operators that write by index, sum segments, or select boxes."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "SCATTER_ND", "SPARSE_TO_DENSE", "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "UNSORTED_SEGMENT_SUM",
    "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "SEGMENT_SUM", "MATRIX_DIAG",
    "MATRIX_SET_DIAG", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5",
)  # fmt: skip
