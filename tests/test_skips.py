"""The settings of the suite: the reasons for skipped tests, and what a test leaves behind."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.conftest import OPTIONAL, remedy

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

SLOW = """import pytest

@pytest.mark.slow(3)
@pytest.mark.parametrize("i", range(7))
def test_slow(i):
    print("ran", i)
"""


LEAVING = """import sys
import anylayer
import pytest
from anylayer.layer.registry import registered

@pytest.mark.parametrize("i", range(2))
def test_registers(i):
    assert not registered()
    anylayer.layer("Left")(object)

def test_fails_without_a_package_that_it_hides(monkeypatch):
    monkeypatch.setitem(sys.modules, "HIDDEN", None)
    import HIDDEN
"""


def run(folder: Path, text: str, *options: str) -> str:
    """Return what pytest prints for a file of tests with the settings of this suite."""
    (folder / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (folder / "test_it.py").write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder).stdout


def test_summary_counts_tests_per_reason(tmp_path: Path) -> None:
    printed = run(tmp_path, SKIPPING)
    assert "     3 ../shared/golden is absent\n       Nothing to do: the folder, " in printed
    assert "     1 no such processor\n     1 a_package_that_nobody_has is not installed\n" in printed
    assert "       Run `make extras`, which installs it.\n" in printed
    assert " failed" not in printed


def test_slow_test_runs_every_nth_case_unless_all_are_asked_for(tmp_path: Path) -> None:
    printed = run(tmp_path, SLOW, "-s")
    assert re.findall(r"ran (\d)", printed) == ["0", "3", "6"]
    assert "     4 without --slow, slow tests run only in part\n       Run `make test-all`" in printed
    assert "7 passed" in run(tmp_path, SLOW, "--slow")


def test_registered_classes_end_with_their_test(tmp_path: Path) -> None:
    assert "2 passed" in run(tmp_path, LEAVING.split("\ndef test_fails")[0])


def test_package_that_a_test_hides_is_not_a_reason_to_skip(tmp_path: Path) -> None:
    package = next(name for name in OPTIONAL if find_spec(name))
    assert "1 failed, 2 passed" in run(tmp_path, LEAVING.replace("HIDDEN", package))


SKIPPERS = ("skip", "skipif", "importorskip")


def reasons(file: Path) -> Iterator[str]:
    """Yield the reasons for which a file skips tests, as far as they are literals."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SKIPPERS:
            given = [k.value for k in node.keywords if k.arg == "reason"]
            given += node.args if node.func.attr == "skip" else []
            for text in given:
                if isinstance(text, ast.JoinedStr):
                    yield "".join(
                        str(part.value) if isinstance(part, ast.Constant) else "X" for part in text.values
                    )
                elif isinstance(text, ast.Constant):
                    yield str(text.value)


def test_every_reason_to_skip_has_a_remedy() -> None:
    files = [file for file in Path(__file__).parent.rglob("*.py") if file != Path(__file__)]
    found = {reason for file in files for reason in reasons(file)}
    assert len(found) > 20
    assert not [reason for reason in found if remedy(reason) is None]
