"""Tests of MXNet's functions of elements."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div"
)
