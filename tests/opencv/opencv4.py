"""Programs that OpenCV 4 runs in an environment of its own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def results_of(program: str, folder: Path, reader: str) -> dict[str, Any]:
    """Run a program with a folder, and return its results.pickle. Skip where OpenCV has no function `reader`."""
    python = os.environ.get("ANYLAYER_OPENCV4") or sys.executable
    done = subprocess.run([python, "-c", program, folder], capture_output=True, text=True)
    if f"has no attribute '{reader}'" in done.stderr or "No module named 'cv2'" in done.stderr:
        pytest.skip("OpenCV 4 is not installed")
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = pickle.loads((folder / "results.pickle").read_bytes())
    return results
