"""What the conformance tests share: the folder of reference data, and the engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine_names import ALL

SHARED = Path(__file__).resolve().parents[3] / "shared"
ENGINES = ALL


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        metafunc.parametrize("engine", ENGINES)


def excuses(name: str) -> dict[str, str]:
    """Return the `id: reason` lines of an excuses file. A case in it must fail without its excuse."""
    lines = (Path(__file__).parent / f"{name}.txt").read_text().splitlines()
    pairs = (line.split(": ", 1) for line in lines if line.strip() and not line.startswith("#"))
    return {key.strip(): reason.strip() for key, reason in pairs}
