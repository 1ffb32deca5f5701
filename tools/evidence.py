"""Print what anylayer was compared with: `python -m tools.evidence`, the table of README.md.

It runs the tests that compare with what other programs computed, on NumPy and all engines. For each program it
prints the number of comparisons that hold, and the largest difference of a float32 output where the tests measure
it, relative to the output's largest value. Tests that fail or are left out are counted apart: those of ONNX's own
tests that anylayer does not compute are listed with their reasons in tests/readers/onnx/excuses.txt. The reference
data of Caffe are not part of the repository: see CONTRIBUTING.md.

As a plugin of pytest, this module records the differences that `anylayer.testing.assert_same` sees.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

ROWS = {
    "Caffe of BVLC, of its forks and of Sophgo, layers and published networks": (
        "tests/conformance/test_golden.py",
        "tests/conformance/test_sophgo.py",
        "tests/conformance/test_models.py",
    ),
    "Keras 2 and 3, layers and models": ("tests/layers/keras", "tests/readers/keras/test_models.py"),
    "TensorFlow, operations": ("tests/layers/tensorflow",),
    "TensorFlow Lite, operators, also quantized": tuple(
        f"tests/layers/tflite/test_{what}.py"
        for what in (
            *("control", "elementwise", "quantized", "recurrent", "reductions"),
            *("selections", "shapes", "volumes", "windows"),
        )
    ),
    "MXNet 1.9.1, operators and networks": ("tests/layers/mxnet", "tests/readers/mxnet"),
    "Darknet of pjreddie, sections": ("tests/layers/darknet/test_program.py",),
    "OpenCV 4, networks and layers": (
        "tests/opencv/test_darknet.py",
        "tests/opencv/test_opencv4.py",
        "tests/layers/caffe/test_detection_output.py",
    ),
    "ONNX, its own node tests": ("tests/readers/onnx/test_node_tests.py",),
}
"""The files and folders of tests that compare with each program."""
_worst = 0.0


@dataclass
class Row:
    """What the tests of a row showed: the comparisons that hold, the tests that fail or are left out, and the
    largest difference."""

    held: int = 0
    failed: int = 0
    skipped: int = 0
    worst: float = 0.0


def pytest_configure(config: pytest.Config) -> None:
    from anylayer import testing
    from anylayer.numerics import absolute_errors, scale_of

    compare = testing.assert_same

    def recording(actual: Any, want: Any, *args: Any, **options: Any) -> None:
        global _worst
        compare(actual, want, *args, **options)
        if want.dtype == np.float32 and want.size:
            _worst = max(_worst, float(absolute_errors(actual, want).max()) / scale_of(want))

    testing.assert_same = recording


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    global _worst
    _worst = 0.0
    try:
        yield
    finally:
        item.user_properties.append(("worst", _worst))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = {name: Row() for name in ROWS}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            name = next((n for n, paths in ROWS.items() if report.nodeid.startswith(paths)), "")
            if not name:
                continue
            row = rows[name]
            properties = dict(report.user_properties)
            row.held += int(properties.get("compared", 1)) if outcome == "passed" else 0
            row.failed += outcome in ("failed", "error")
            row.skipped += outcome == "skipped"
            row.skipped += int(properties.get("left out", 0))
            row.worst = max(row.worst, float(properties.get("worst", 0)))
    terminalreporter.write_line(
        f"{platform.machine()}, {os.cpu_count()} cores; float32, relative to the largest value"
    )
    terminalreporter.write_line("| program | comparisons | largest difference | failed | left out |")
    terminalreporter.write_line("|---|---:|---:|---:|---:|")
    for name, row in rows.items():
        worst = f"{row.worst:.1g}" if row.worst else ""
        terminalreporter.write_line(f"| {name} | {row.held:,} | {worst} | {row.failed} | {row.skipped} |")


if __name__ == "__main__":
    paths = [path for row in ROWS.values() for path in row]
    sys.exit(
        subprocess.call(
            [sys.executable, "-m", "pytest", "-p", "tools.evidence", "-q", "--slow", *sys.argv[1:], *paths]
        )
    )
