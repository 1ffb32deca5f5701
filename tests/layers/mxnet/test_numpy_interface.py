"""Tests of the operators of MXNet's NumPy interface."""

from __future__ import annotations

from .recorded import as_recorded, recorded

_TYPES = sorted({name.split()[0] for name in recorded("numpy")})
test_operators_match_the_recorded_results = as_recorded(*_TYPES, file="numpy")
