"""OpenCV 4 in a process of its own, which runs written Caffe networks.

The environment variable ANYLAYER_OPENCV4 names its Python; the default is the Python of the tests.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from anylayer.network import Array

MAX_SECONDS = 20
"""How long one network may take."""
_SERVER = """
import sys
import cv2
import numpy as np
if not hasattr(cv2.dnn, "readNetFromCaffe"):
    sys.exit("no Caffe reader in OpenCV " + cv2.__version__)
cv2.setNumThreads(1)
print(cv2.__version__, flush=True)
for line in sys.stdin:
    text, weights, given, result = line.rstrip("\\n").split("\\t")
    try:
        net = cv2.dnn.readNetFromCaffe(text, weights)
        with np.load(given) as arrays:
            for name in arrays.files:
                net.setInput(arrays[name], name)
        names = list(net.getUnconnectedOutLayersNames())
        found = {"output " + n: a for n, a in zip(names, net.forward(names))}
        found["last"] = net.forward()
        np.savez(result, **found)
        print("ok", flush=True)
    except Exception as error:
        print(str(error).replace("\\n", " "), flush=True)
"""


class OpenCVError(Exception):
    """The message of OpenCV for a network that it cannot read or run."""


class OpenCV4:
    """A process that reads and runs networks with OpenCV 4."""

    def __init__(self, python: str) -> None:
        self.python = python
        self.process: subprocess.Popen[str] | None = None
        self.version = ""
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [self.python, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env={**os.environ, "PYTHONPATH": ""},
        )  # fmt: skip
        self.version = self.answer()

    def answer(self) -> str:
        """Return a line of the process; "" if it has died or does not answer in time."""
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], MAX_SECONDS)
        if not ready:
            self.process.kill()
        return self.process.stdout.readline().strip()

    def run(self, text: Path, weights: Path | None, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by the names of their layers, and as "" the result of a plain `forward()`."""
        assert self.process is not None and self.process.stdin is not None
        with tempfile.TemporaryDirectory() as folder:
            given, result = Path(folder) / "given.npz", Path(folder) / "result.npz"
            np.savez(given, **inputs)
            self.process.stdin.write("\t".join(map(str, (text, weights or "", given, result))) + "\n")
            self.process.stdin.flush()
            said = self.answer()
            if not said:
                self.start()
                raise OpenCVError("the process died, or did not answer in time")
            if said != "ok":
                raise OpenCVError(said)
            with np.load(result) as arrays:
                return {name.removeprefix("output ") if name != "last" else "": a for name, a in arrays.items()}


@lru_cache(None)
def server() -> OpenCV4 | None:
    """Return the one process of the test session; None where there is no OpenCV 4."""
    try:
        process = OpenCV4(os.environ.get("ANYLAYER_OPENCV4") or sys.executable)
    except OSError:
        return None
    return process if process.version else None


def opencv4() -> OpenCV4:
    """Return the process of the test session. Skip the test where there is no OpenCV 4."""
    process = server()
    if process is None:
        pytest.skip("OpenCV 4 is not installed")
    return process
