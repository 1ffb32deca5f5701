"""python -m tests.sanitized [PYTEST ARGUMENT...]: run the tests that compile generated C++ code, with GCC's
address sanitizer. A read or write outside an array ends the test's process with a report.

`$CXX`, the script sanitizing-g++, adds the sanitizer to what the tests compile. Its library must be loaded before
Python's: `$LD_PRELOAD`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = (
    "tests/loops",
    "tests/engines/test_cpp.py",
    "tests/runtime/test_custom.py",
    "tests/generators/dv",
    "tests/generators/opencv",
    "tests/generators/test_operators.py",
)
"""The tests that run C++ code of anylayer/loops or of a generator (tests/generators/openvino runs only OpenCL)."""


def environment() -> dict[str, str] | None:
    """Return the environment in which compiled code is checked, or None where g++ or its sanitizer is missing."""
    gcc = shutil.which("g++")
    if gcc is None or not sys.platform.startswith("linux"):
        return None
    found = [_library(gcc, name) for name in ("libasan.so", "libstdc++.so.6")]
    if not all(map(os.path.isabs, found)):
        return None
    return {
        **os.environ,
        "CXX": str(Path(__file__).with_name("sanitizing-g++")),
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself does not free everything at its end
        "TBB_ENABLE_SANITIZERS": "1",  # OpenVINO's TBB loads a library in a way that the sanitizer refuses
    }


def _library(gcc: str, name: str) -> str:
    return subprocess.run([gcc, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()


def main() -> int:
    environ = environment()
    if environ is None:
        print("the address sanitizer of GCC is not installed, so generated code is not checked with it")
        return 0
    words = ["-m", "pytest", "-n", "auto", "--dist", "worksteal", *TESTS, *sys.argv[1:]]
    return subprocess.run([sys.executable, *words], env=environ).returncode


if __name__ == "__main__":
    sys.exit(main())
