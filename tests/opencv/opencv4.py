"""Programs that OpenCV runs in a process of its own: version 4 in an environment of its own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def results_of(program: str, folder: Path, version: str = "4") -> dict[str, Any]:
    """Run a program with a folder, and return its results.pickle. Skip where cv2 has not this version."""
    python = (version == "4" and os.environ.get("ANYLAYER_OPENCV4")) or sys.executable
    printed = subprocess.run([python, "-c", "import cv2; print(cv2.__version__)"], capture_output=True, text=True)
    if not printed.stdout.startswith(f"{version}."):
        pytest.skip(f"OpenCV {version} is not installed")
    done = subprocess.run([python, "-c", program, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = pickle.loads((folder / "results.pickle").read_bytes())
    return results
