"""Measure networks of keras.applications from the files that Keras saves: see part tensorflow."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.parts.tensorflow import rows
from benchmarks.setup import Row, Setup

PART = "keras"


def run(setup: Setup) -> Iterator[Row]:
    """Yield a row for each network that is asked for."""
    yield from rows(setup, PART, ".keras")
