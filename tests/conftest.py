"""Settings of the whole suite: fixed examples, slow tests, and tests that need an optional package that is not
installed.
"""

from __future__ import annotations

import gc
import math
import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnxruntime
import pytest
from hypothesis import settings
from tools.reference import VARIABLE

from anylayer.layer import registry
from anylayer.runtime import timing
from tests.readers.onnx.node_tests import HOME

OPTIONAL = ("cv2", "h5py", "ncnn", "openvino", "pyfive", "safetensors", "torch")
"""The packages without which tests are skipped; the reason names the missing package."""
MISSING = {package for package in OPTIONAL if find_spec(package) is None}
"""Those that are not installed. A package that only a test hides is not one of them."""

REMEDIES = {
    r"\b(apt-get|pip) install ": "",  # the reason names its remedy
    r"^the test needs tools that are not installed: ": "",  # likewise
    r"^(cv2|h5py|ncnn|openvino|openvino-telemetry|pyfive) is not installed": "Run: pip install -e '.[dev]'",
    r"^(tensorrt|cuda-bindings) is not installed": "With an NVIDIA GPU, run: pip install -e '.[tensorrt]'",
    r"^OpenCV 4 is not installed": "Run `make test-opencv4`, which installs it in an environment of its own.",
    r"^OpenCV (is older than 5|\w is not installed)": "Run: pip install 'opencv-python-headless>=5'",
    r"^ONNX Runtime is installed with CUDA": "Replace the package onnxruntime-gpu by onnxruntime.",
    r"^clang\+\+ is not installed": "On Debian, run: apt-get install clang",
    r"^(chromium|cmake|strace) is not installed": r"On Debian, run: apt-get install \1",
    r"^there is no C\+\+ compiler": "On Debian, run: apt-get install g++",
    r"^(\S+) is not installed": "Run `make extras`, which installs it.",
    rf"\bSet {VARIABLE} to ": "",  # the reason names its remedy
    r"^the expected results are those of onnx (\S+)": r"Run: pip install 'onnx==\1.*'",
    r"^this PyAV does not encode HEVC": "Run: pip install --force-reinstall --only-binary av av",
    r"^the OpenCL device does not share memory": "PoCL does. On Debian, run: apt-get install pocl-opencl-icd",
    r"^the system (is not Linux|has no fork)": "Run the tests on Linux.",
    r"^the user of the tests is root": "Run the tests as another user.",
    r"^without --slow": "Run `make test-all`, which runs every case.",
}
"""The remedy for each reason for skipped tests. The keys are regular expressions."""

LONGEST = (
    "tests/serve/",
    "tests/ray/",
    "tests/cli/test_onray.py",
    "tests/generators/test_operators.py",
    "tests/generators/test_clang.py",
    "tests/generators/opencv/",
    "tests/generators/openvino/",
    "tests/test_docs.py",
)
"""The beginnings of the names of tests that take many seconds each. The first ones wait most of the time."""

MAX_WORKERS = 8
"""The largest number of processes that run tests. Each takes up to 1 GB."""

settings.register_profile("fixed", derandomize=True, database=None)
settings.register_profile("fresh", database=None, print_blob=True)
settings.load_profile("fixed")  # --hypothesis-profile=fresh draws new examples; see `make test-fresh`


_home: TemporaryDirectory[str] | None = None


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers inherit the environment
        global _home
        _home = TemporaryDirectory(prefix="anylayer-home-")
        os.environ["XDG_CONFIG_HOME"] = f"{_home.name}/config"  # no file of the user's own configuration is read
        os.environ["XDG_CACHE_HOME"] = f"{_home.name}/cache"  # no library that an earlier run has built is loaded
        os.environ["ANYLAYER_ALWAYS_MEASURE"] = "1"  # a test does not see the choice that another one has made
        os.environ["POCL_CACHE_DIR"] = f"{_home.name}/pocl"
        os.environ["PYOPENCL_NO_CACHE"] = "1"
        os.environ[HOME] = _home.name
        os.environ["PATH"] = f"{share_objects(Path(_home.name))}{os.pathsep}{os.environ.get('PATH', '')}"
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's threads would wait in loops on shared cores
    onnxruntime.InferenceSession = RestingSession
    timing._TURN_SECONDS, timing._EQUAL = 0.003, math.inf  # "auto" need not find the fastest engine
    config.addinivalue_line("markers", "needs(*packages): skip where one of these packages is not installed")
    config.addinivalue_line("markers", "breadth: run only with --slow")
    config.addinivalue_line("markers", "one_per(kind): without --slow, run one case for each kind; see is_breadth")


class RestingSession(onnxruntime.InferenceSession):
    """A session whose threads do not wait for the next call in a loop. They would take 40 ms of a processor after
    each call.
    """

    def __init__(self, model: Any, sess_options: Any = None, *args: Any, **options: Any) -> None:
        sess_options = sess_options or onnxruntime.SessionOptions()
        sess_options.add_session_config_entry("session.force_spinning_stop", "1")
        super().__init__(model, sess_options, *args, **options)


def share_objects(home: Path) -> Path:
    """Return a folder with the C++ compilers, which keep their object files in the folder of the run: see
    sharing-c++.
    """
    objects, folder = home / "objects", home / "compilers"
    objects.mkdir()
    folder.mkdir()
    script = Path(__file__).with_name("sharing-c++")
    for name in ("c++", "g++"):
        compiler = shutil.which(name)
        if compiler is not None and shutil.which("bash") is not None:
            words = shlex.join(map(str, (script, compiler, objects)))
            (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (folder / name).chmod(0o755)
    return folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return one process more than there are processors, because hundreds of tests wait for processes that they
    start, but not more than MAX_WORKERS. xdist counts cores: half the processors where each has two threads. None
    where xdist's variable states the number.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    available = getattr(os, "sched_getaffinity", None)
    processors = len(available(0)) if available is not None else os.cpu_count() or 1
    return min(processors + 1, MAX_WORKERS)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage while pytest creates its 20,000 tests: it takes as long as all else, and finds none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests on all engines, and breadth")
    config = pluginmanager.get_plugin("pytestconfig")
    if config is not None and "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the variable
        one_engine = "--slow" not in config.invocation_params.args
        os.environ["ANYLAYER_TESTS_OF_ONE_ENGINE"] = "1" if one_engine else ""  # see engine_names.py


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with the tests that take longest, so that no worker computes one when the others have finished.
    Without --slow, skip breadth.
    """
    kinds: set[tuple[str, ...]] = set()
    for item in [] if config.getoption("--slow") else items:
        if is_breadth(item, kinds):
            item.add_marker(pytest.mark.skip(reason="without --slow: breadth"))
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def is_breadth(item: pytest.Item, kinds: set[tuple[str, ...]]) -> bool:
    """Return whether a test only adds breadth: it is marked so, or another case has shown each of its kinds.

    A mark `one_per` gives a kind of the case: the values of the parameters that it names, or what its function
    returns for the parameters that the function takes. Without an argument, all cases are of one kind. `kinds` has
    the kinds of the cases before this one, and gets those of this one. A test that is skipped, as one without a
    single case is, has no kind.
    """
    if item.get_closest_marker("skip") is not None:
        return False
    own = set()
    for number, mark in enumerate(item.iter_markers("one_per")):
        values = item.callspec.params if hasattr(item, "callspec") else {}
        if mark.args and callable(mark.args[0]):
            kind = mark.args[0](*(values[name] for name in signature(mark.args[0]).parameters))
        else:
            kind = [values[name] for name in mark.args]
        own.add((item.nodeid.partition("[")[0], str(number), repr(kind)))
    is_new = not own <= kinds
    kinds |= own
    return item.get_closest_marker("breadth") is not None or (bool(own) and not is_new)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _home is not None:
        _home.cleanup()


@pytest.fixture(autouse=True)
def restored_registry() -> Iterator[None]:
    """Let a layer class that a test registers exist in that test only."""
    before = dict(registry._users)
    yield
    registry._users.clear()
    registry._users.update(before)
    opencv = sys.modules.get("anylayer.opencv.registry")
    if opencv is not None:
        for type_ in [t for t, classes in opencv._registered.items() for _ in classes]:
            opencv.dnn_unregisterLayer(type_)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for package in mark.args:
            if find_spec(package) is None:
                pytest.skip(f"{package} is not installed")


def missing_package(error: BaseException | None) -> str | None:
    """Return the optional package whose absence caused an error, or None if the error has another cause."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name in MISSING:
            return error.name
        error = error.__cause__ or error.__context__
    return None


def skip_if_missing(
    report: pytest.TestReport | pytest.CollectReport, info: pytest.ExceptionInfo[BaseException] | None, path: str
) -> None:
    """Turn the report of a failure into a skip if an optional package is missing."""
    package = missing_package(info.value) if info else None
    if report.outcome == "failed" and package:
        report.outcome = "skipped"
        report.longrepr = (path, 0, f"Skipped: {package} is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport | None]:
    report: pytest.TestReport = yield
    skip_if_missing(report, call.excinfo, str(item.path))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[pytest.CollectReport | None]:
    report: pytest.CollectReport = yield
    skip_if_missing(report, report.call.excinfo if report.outcome == "failed" else None, str(collector.path))
    return report


def skips(reports: Sequence[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Return the lines of the summary: each reason for skipped tests with their number, the most frequent reason
    first, and the remedy below it.
    """
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in reports
        if isinstance(report.longrepr, tuple)  # other reports are expected failures
    )
    lines = []
    for reason, number in reasons.most_common():
        lines += [f"{number:6} {reason}", *([f"{'':7}{text}"] if (text := remedy(reason)) else [])]
    return lines


def remedy(reason: str) -> str | None:
    """Return how to run the tests that are skipped for a reason. Return "" if the reason says it itself, and
    None if nothing is known.
    """
    found = ((re.search(rule, reason), text) for rule, text in REMEDIES.items())
    return next((match.expand(text) for match, text in found if match), None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not terminalreporter.config.getoption("--slow"):
        terminalreporter.line("without --slow: tests whose subject is not an engine ran on NumPy and one engine")
    found = skips(terminalreporter.stats.get("skipped", []))
    if found:
        terminalreporter.section("skipped: tests, or files of tests, and why")
        for line in found:
            terminalreporter.line(line)
