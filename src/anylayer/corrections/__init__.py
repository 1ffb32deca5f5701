"""Corrections: operators that an engine computes wrongly are replaced by others that it computes correctly, or
refused.

Every graph that is given to an engine, or written to a file that an engine runs, passes through `corrected`. In
contrast to the rewrite rules of optimize/rewrites, corrections cannot be left out.
"""

from __future__ import annotations

from anylayer.corrections._machinery import Corrected, corrected
from anylayer.folders import load_all

load_all("corrections")  # each module registers its corrections; the first one that applies is used

from anylayer.corrections.rounding import graph_for_file  # noqa: E402 (would register this module's before others)

__all__ = ["Corrected", "corrected", "graph_for_file"]
