"""Tests of MXNet's proposals of regions, and of their pooling."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "Proposal", "MultiProposal", "ROIPooling", "ROIAlign", file="detection"
)
