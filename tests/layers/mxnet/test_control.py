"""Tests of MXNet's loops and branches."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded("_foreach", "_while_loop", "_cond")
