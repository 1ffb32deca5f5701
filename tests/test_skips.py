"""The settings of the suite: the reasons for skipped tests, tests that wait, and what a test leaves behind."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tools.reference import absent

from tests.conftest import MAX_WORKERS, OPTIONAL, pytest_xdist_auto_num_workers, remedy
from tests.threads import MAX_SECONDS

ROOT = str(Path(__file__).parents[1])

SKIPPING = """import pytest
from tools.reference import absent

@pytest.mark.parametrize("i", range(3))
def test_reference(i):
    pytest.skip(absent("nothing"))

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

BREADTH = """import os
import pytest

def test_engines():
    print("ran: one engine" if os.environ["ANYLAYER_TESTS_OF_ONE_ENGINE"] else "ran: every engine")

@pytest.mark.breadth
def test_broad():
    print("ran: broad")

@pytest.mark.one_per()
@pytest.mark.parametrize("i", range(3))
def test_one(i):
    print(f"ran: one {i}")

@pytest.mark.one_per("size")
@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", ["sum", "sum of rows", "mean"])
def test_kinds(size, name):
    print(f"ran: {name} {size}")

@pytest.mark.one_per(lambda path: path.suffix)
@pytest.mark.parametrize("path", [])
def test_files_that_are_missing(path):
    print(path)
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
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))}
    environment.pop("PYTEST_XDIST_WORKER", None)  # the new process is not one of the workers
    pipe = subprocess.PIPE
    done = subprocess.run(
        words, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=folder, env=environment, timeout=MAX_SECONDS
    )
    return done.stdout


def test_summary_counts_tests_per_reason(tmp_path: Path) -> None:
    printed = run(tmp_path, SKIPPING)
    assert f"     3 {absent('nothing')}\n     1 " in printed  # the reason names its remedy
    assert "     1 no such processor\n     1 a_package_that_nobody_has is not installed\n" in printed
    assert "       Run `make extras`, which installs it.\n" in printed
    assert " failed" not in printed


def test_reference_data_are_those_of_the_variable(tmp_path: Path) -> None:
    (tmp_path / "golden" / "ReLU").mkdir(parents=True)
    (tmp_path / "models").mkdir()
    code = "from tools.reference import absent; print(absent('golden'), absent('golden', 'models'), sep='|')"
    environment = {**os.environ, "ANYLAYER_DATA": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    reason = "models is not in the reference data. Set ANYLAYER_DATA to a folder that has it: see CONTRIBUTING.md"
    assert done.stdout.strip() == f"|{reason}", done.stderr


def test_one_case_of_each_kind_runs_unless_all_are_asked_for(tmp_path: Path) -> None:
    printed = run(tmp_path, BREADTH, "-s")
    assert re.findall("ran: (.*)", printed) == ["one engine", "one 0", "sum 1", "sum 2", "mean 1"]
    assert "     6 without --slow: breadth\n       Run `make test-all`" in printed
    assert "without --slow: tests whose subject is not an engine ran on NumPy and one engine" in printed
    printed = run(tmp_path, BREADTH, "-s", "--slow")
    assert "11 passed" in printed and "ran: every engine" in printed


def test_registered_classes_end_with_their_test(tmp_path: Path) -> None:
    assert "2 passed" in run(tmp_path, LEAVING.split("\ndef test_fails")[0])


def test_package_that_a_test_hides_is_not_a_reason_to_skip(tmp_path: Path) -> None:
    package = next(name for name in OPTIONAL if find_spec(name))
    assert "1 failed, 2 passed" in run(tmp_path, LEAVING.replace("HIDDEN", package))


WAITING = """import threading

def test_waits():
    threading.Semaphore(0).acquire()
"""
FAILING = """import threading
from tests.threads import started

def test_fails():
    started(threading.Semaphore(0).acquire)
    assert 0
"""


def test_test_that_waits_for_ever_ends_with_a_traceback(tmp_path: Path) -> None:
    settings = ("-c", f"{ROOT}/pyproject.toml", "-o", "faulthandler_timeout=0.5")
    printed = run(tmp_path, WAITING, *settings)
    assert "Timeout (0:00:00.5" in printed and "in test_waits" in printed


def test_thread_that_waits_for_ever_does_not_outlast_its_test(tmp_path: Path) -> None:
    assert "1 failed" in run(tmp_path, FAILING)


def test_every_thread_of_the_tests_is_a_daemon() -> None:
    """The threads of tests.threads end with the process; others may wait for ever when an assertion fails."""
    folder = Path(__file__).parent
    calls = [
        (str(file.relative_to(folder)), node)
        for file in folder.rglob("*.py")
        if "Thread" in (text := file.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "Thread"
    ]
    assert [name for name, _ in calls] == ["threads.py"]
    assert [ast.unparse(k) for k in calls[0][1].keywords if k.arg == "daemon"] == ["daemon=True"]


SKIPPERS = ("skip", "skipif", "importorskip")


def reasons(file: Path) -> Iterator[str]:
    """Yield the reasons for which a file skips tests, as far as they are literals."""
    source = file.read_text("utf-8")
    for node in ast.walk(ast.parse(source)) if "skip" in source else ():
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


def test_one_process_more_than_processors_runs_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
    for processors, workers in ((1, 2), (4, 5), (64, MAX_WORKERS)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=processors: {*range(n)}, raising=False)
        assert pytest_xdist_auto_num_workers() == workers
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "3")
    assert pytest_xdist_auto_num_workers() is None  # xdist reads the variable
