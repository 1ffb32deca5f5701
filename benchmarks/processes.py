"""The parent's side of the worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


class WorkerError(Exception):
    """A worker could not execute a command. The message is the worker's."""


class Worker:
    """A process of `python` with one runner. Use it as a context manager."""

    def __init__(self, python: str, runner: str, threads: int = 2) -> None:
        self.runner = runner
        self.errors = tempfile.TemporaryFile("w+", prefix="anylayer-bench-")  # noqa: SIM115 (closed by close)
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            cwd=ROOT,
            env=environment,
            text=True,
        )

    def ask(self, **command: Any) -> dict[str, Any]:
        """Return the answer to a command. Raise WorkerError if it fails."""
        self.send(**command)
        return self.answer()

    def send(self, **command: Any) -> None:
        """Send a command without waiting; `answer` waits for its answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._end()) from None

    def answer(self) -> dict[str, Any]:
        """Return the answer to the command that was sent. Raise WorkerError if it fails."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise WorkerError(self._end())
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply

    def outputs(self, call: str, folder: Path) -> dict[str, np.ndarray]:
        """Return the outputs of one frame."""
        path = folder / f"outputs_{self.runner}.npz"
        self.ask(do="outputs", call=call, path=str(path))
        with np.load(path) as file:
            return {name: file[name] for name in file.files}

    def _end(self) -> str:
        self.process.wait()
        self.errors.seek(0)
        last = self.errors.read().strip().splitlines()[-1:] or ["it said nothing"]
        return f"{self.runner} ended ({self.process.returncode}): {last[0]}"

    def close(self) -> None:
        """End the process."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with suppress(BrokenPipeError):  # the worker has ended without reading it
                    stream.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
