"""Tests of TFLite's operators that run subgraphs."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded("IF", "WHILE", "STABLEHLO_COMPOSITE")
