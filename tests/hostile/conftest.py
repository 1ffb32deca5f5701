from __future__ import annotations

from collections.abc import Iterator

import pytest

from .trial import Trials


@pytest.fixture(scope="package")
def trials() -> Iterator[Trials]:
    """A process that tries networks within 8 GB of addresses and 60 s of the processor each."""
    with Trials(memory=8000, seconds=60) as found:
        yield found
