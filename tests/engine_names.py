"""The engines that tests run on: the files in src/anylayer/engines, so tests cover a new
engine without a change.
"""

from __future__ import annotations

import re
from pathlib import Path

from anylayer.engines import __file__ as _folder
from anylayer.engines import engines

GENERAL = tuple(
    name
    for name in engines()
    if re.search(r"^GENERAL = True$", Path(_folder).with_name(f"{name}.py").read_text(), re.MULTILINE)
)
"""The engines that run every graph. Tests of an engine that is not installed are skipped with the reason."""

ALL = ("numpy", *GENERAL)
"""The engines that run every graph, and NumPy."""
