"""The engines that tests run on: the files in src/anylayer/engines, so tests cover a new
engine without a change.
"""

from __future__ import annotations

import re
from pathlib import Path

from anylayer.engines import __file__ as _folder
from anylayer.engines import engines


def _states(name: str, line: str) -> bool:
    return bool(re.search(f"^{line}$", Path(_folder).with_name(f"{name}.py").read_text(), re.MULTILINE))


GENERAL = tuple(n for n in engines() if _states(n, "GENERAL = True") and not _states(n, "ON_CPU = False"))
"""The engines that run every graph on the CPU. Tests of one that is not installed are skipped with the reason."""

ALL = ("numpy", *GENERAL)
"""The engines that run every graph, and NumPy."""

EMBEDDING = tuple(n for n in engines() if _states(n, r"def embeds\(.*"))
"""The engines that run native layers inside their graphs."""
