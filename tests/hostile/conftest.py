from __future__ import annotations

from collections.abc import Iterator

import pytest

from .trial import Trials


@pytest.fixture(scope="package")
def trials() -> Iterator[Trials]:
    """Return a process that tries networks with at most 8 GB of address space, and 60 s of processor time each."""
    with Trials(memory=8000, seconds=60) as found:
        yield found
