"""The engines that tests run on: the files in src/anylayer/engines, so tests cover a new
engine without a change.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from anylayer.engines import Program, engines, load_engine
from anylayer.engines import __file__ as _folder
from anylayer.graph import Graph


def _states(name: str, line: str) -> bool:
    return bool(re.search(f"^{line}$", Path(_folder).with_name(f"{name}.py").read_text(), re.MULTILINE))


ONE_ENGINE = "ANYLAYER_TESTS_OF_ONE_ENGINE"
"""The variable that leaves out all engines but NumPy and one. The tests set it unless they run with --slow."""

EVERY = tuple(n for n in engines() if _states(n, "GENERAL = True") and not _states(n, "ON_CPU = False"))
"""The engines that run every graph on the CPU. Tests of one that is not installed are skipped with the reason."""

GENERAL = EVERY[:1] if os.environ.get(ONE_ENGINE) else EVERY
"""Those on which tests run whose subject is not an engine."""

ALL = ("numpy", *GENERAL)
"""NumPy and the engines on which such tests run."""

EMBEDDING = tuple(n for n in GENERAL if _states(n, r"def embeds\(.*"))
"""Those that run native layers inside their graphs."""


def program_of(graph: Graph, engine: str) -> Program:
    """Return a graph compiled on an engine for one thread: one program for all inputs of a test."""
    return load_engine(engine).compile(graph, threads=1)
