"""Corrections: operators that an engine computes wrongly become others that it computes right, or are refused.

Every graph that goes to an engine, or into a file that an engine runs, passes through `corrected`. The rules that
make graphs faster are in optimize/rewrites and may be left out; these may not.
"""

from __future__ import annotations

from anylayer.corrections._machinery import Corrected, corrected
from anylayer.folders import load_all

__all__ = ["Corrected", "corrected"]

load_all("corrections")  # each module enters its corrections
