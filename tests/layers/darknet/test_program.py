"""Sections compute what pjreddie's own program has computed."""

from __future__ import annotations

from .recorded import BY_DARKNET, as_named, recorded

test_sections_match_darknet = as_named([name for name in recorded() if name.endswith(BY_DARKNET)])
