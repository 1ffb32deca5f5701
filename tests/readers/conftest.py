from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def work_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in an empty folder, so that messages have short file names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
