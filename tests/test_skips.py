"""The end of a run lists why tests were skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SKIPPING = """import pytest

@pytest.mark.parametrize("i", range(3))
def test_reference(i):
    pytest.skip("../shared/golden is absent")

@pytest.mark.skipif(True, reason="no such processor")
def test_processor():
    pass

@pytest.mark.xfail
def test_wrong():
    raise AssertionError

@pytest.mark.needs("a_package_that_nobody_has")
def test_package():
    pass
"""


def test_summary_counts_tests_per_reason(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(SKIPPING)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "     3 ../shared/golden is absent\n     1 no such processor\n" in done.stdout
    assert "     1 a_package_that_nobody_has is not installed\n" in done.stdout
