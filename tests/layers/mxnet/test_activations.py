"""Tests of MXNet's activations, softmax and losses."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded("Activation", "SoftmaxOutput")
