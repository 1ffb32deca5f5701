"""Tests of MXNet's operators that reshape, rearrange, select, repeat and pad."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded("Flatten", "Concat")
