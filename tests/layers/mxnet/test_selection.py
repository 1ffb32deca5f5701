"""Tests of MXNet's operators that select."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "take",
    "Embedding",
    "pick",
    "gather_nd",
    "one_hot",
    "where",
    "batch_take",
    "scatter_nd",
    "SequenceMask",
    "SequenceLast",
    "SequenceReverse",
)
