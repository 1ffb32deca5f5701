"""Tests of MXNet's variables with values, and of whole networks."""

from __future__ import annotations

from .recorded import as_recorded

test_networks_match_the_recorded_results = as_recorded(
    "lenet", "resnet", "mobilenet", "inception", "segmentation", "gluon", "version", "params"
)
