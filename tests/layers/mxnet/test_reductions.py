"""Tests of MXNet's reductions and sorting."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "sum",
    "nansum",
    "nanprod",
    "moments",
    "mean",
    "prod",
    "max",
    "min",
    "norm",
    "argmax",
    "argmin",
    "argmax_channel",
    "topk",
    "sort",
    "argsort",
)
