"""What the conformance tests share: the excuses, and the engines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.engine_names import ALL

ENGINES = ALL


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        metafunc.parametrize("engine", ENGINES)


def without_case(names: Iterable[str], cases: Iterable[Path]) -> set[str]:
    """Return the names `<Layer>/<case>` that are not cases, of the layers of which there are cases."""
    known = {f"{case.parent.name}/{case.name}" for case in cases}
    layers = {name.partition("/")[0] for name in known}
    return {name for name in names if name not in known and name.partition("/")[0] in layers}


def excuses(name: str) -> dict[str, str]:
    """Return the `id: reason` lines of an excuses file. A case in it must fail without its excuse."""
    lines = (Path(__file__).parent / f"{name}.txt").read_text().splitlines()
    pairs = (line.split(": ", 1) for line in lines if line.strip() and not line.startswith("#"))
    return {key.strip(): reason.strip() for key, reason in pairs}
