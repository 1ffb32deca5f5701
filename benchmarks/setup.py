"""What every part of the benchmark uses: options, and the steps of a row (load engines, compare, measure)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.guard import Guard
from benchmarks.processes import Worker, WorkerError

TOLERANCE = 1e-4
"""Engines whose outputs differ by more than this, relative to the output's largest value, are not measured."""
Row = dict[str, Any]
View = Callable[[np.ndarray], np.ndarray]


@dataclass
class Setup:
    """The options. `peers`: the Python of the environment with OpenCV and ncnn, or None. `compilers`: that of the
    environment with compilers of NumPy code. `only`: names of rows, or empty. `workers`: the columns whose worker
    serves all rows, because it takes long to start. `processor`: whether the processor's time counts.
    """

    guard: Guard
    folder: Path
    peers: str | None
    rounds: int = 12
    threads: int = 2
    only: Sequence[str] = ()
    engine: str = "auto"
    python: str = field(default=sys.executable)
    compilers: str | None = None
    workers: dict[str, Worker | None] = field(default_factory=dict)
    processor: bool = False

    def wants(self, name: str) -> bool:
        """Return whether a row is asked for."""
        return not self.only or any(part in name for part in self.only)

    def room(self, name: str) -> Path:
        """Return a folder for a row's files."""
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        return path


def save_inputs(path: Path, inputs: Mapping[str, np.ndarray]) -> str:
    """Write the inputs to an .npz file and return its path."""
    np.savez(path, **inputs)
    return str(path)


def difference(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> float:
    """Return the largest difference of any output, relative to the output's largest value. It is infinite if
    shapes differ or if a value is not finite.
    """
    worst = 0.0
    for name, expected in want.items():
        if name not in got or got[name].size != expected.size:
            return float("inf")
        found = got[name].astype(np.float64).ravel()
        scale = max(float(np.abs(expected).max(initial=0.0)), 1e-12)
        off = float(np.abs(found - expected.astype(np.float64).ravel()).max(initial=0.0)) / scale
        worst = max(worst, off if np.isfinite(off) else float("inf"))
    return worst


def _as_they_are(array: np.ndarray) -> np.ndarray:
    return array


def _seen(view: View, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: view(array) for name, array in arrays.items()}


class Field:
    """The engines of one row, all of them running. Use it as a context manager."""

    def __init__(self, setup: Setup, name: str) -> None:
        self.setup, self.name = setup, name
        self.folder = setup.room(name)
        self.entries: dict[str, dict[str, Any]] = {}
        self._workers: dict[str, Worker] = {}
        self._calls: dict[str, list[str]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Field:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def load(self, column: str, runner: str, spec: Mapping[str, Any], peer: bool = False) -> dict[str, Any]:
        """Start a worker for a column. Return its facts, or an empty dict if it cannot run; the column then states
        the reason.
        """
        return self.loaded(column, self.start(column, runner, spec, peer))

    def start(self, column: str, runner: str, spec: Mapping[str, Any], peer: bool = False) -> Worker | None:
        """Start a worker for a column, which loads while others load. One of `Setup.workers` serves all rows."""
        if peer and self.setup.peers is None:
            self.entries[column] = {"error": "peers absent"}
            return None
        python = self.setup.peers if peer and self.setup.peers else self.setup.python
        worker = self.setup.workers.get(column)
        if worker is None or worker.process.poll() is not None:
            worker = Worker(python, runner, self.setup.threads)
            if column in self.setup.workers:
                self.setup.workers[column] = worker
            else:
                self._stack.enter_context(worker)
        worker.send(do="load", runner=runner, spec={"threads": self.setup.threads, **spec})
        return worker

    def loaded(self, column: str, worker: Worker | None) -> dict[str, Any]:
        """Wait for a worker that `start` returned: see load."""
        if worker is None:
            return {}
        try:
            reply = worker.answer()
        except WorkerError as error:
            self.entries[column] = {"error": str(error)}
            if column not in self.setup.workers:
                worker.close()
            return {}
        self._workers[column], self._calls[column] = worker, reply["calls"]
        self.entries[column] = {"facts": reply["facts"], "load_seconds": reply["load_seconds"]}
        facts: dict[str, Any] = reply["facts"]
        return facts

    def compare(self, reference: str, tolerance: float = TOLERANCE, view: View = _as_they_are) -> None:
        """Compare every way of calling every engine with the outputs of the column `reference`; `view` selects
        what is compared. What differs by more than `tolerance` is not measured.
        """
        if reference not in self._workers:
            return
        want = _seen(view, self._workers[reference].outputs(self._calls[reference][0], self.folder))
        for column, worker in list(self._workers.items()):
            errors, trouble = {}, ""
            for call in list(self._calls[column]):
                try:
                    errors[call] = difference(_seen(view, worker.outputs(call, self.folder)), want)
                except WorkerError as error:
                    trouble = str(error)
                    errors[call] = float("inf")
                if errors[call] > tolerance:
                    self._calls[column].remove(call)
            self.entries[column]["errors"] = {c: None if e == float("inf") else e for c, e in errors.items()}
            if not self._calls[column]:
                self.entries[column]["error"] = trouble or f"differs: {min(errors.values()):.1e}"

    def limit(self, column: str, calls: Sequence[str]) -> None:
        """Measure only these ways of calling a column."""
        if column in self._calls:
            self._calls[column] = list(calls)

    def measure(self, calls: Mapping[str, Sequence[str]] | None = None, short: bool = False) -> None:
        """Measure the remaining columns. `calls` limits a column to some ways of calling it. `short`: see
        measure.measure; then engines are not called with bound arrays either, because that makes no difference for
        such calls.
        """
        contestants = [
            measure.Contestant(column, call, self._workers[column], processor=self.setup.processor)
            for column, names in self._calls.items()
            for call in names
            if (not calls or column not in calls or call in calls[column])
            and not (short and call.endswith("bound"))
        ]
        measure.measure(contestants, self.setup.guard, self.setup.rounds, short)
        for column, entry in measure.columns(contestants).items():
            self.entries[column].update(entry)

    def row(self, part: str, **more: Any) -> Row:
        """Return the row with its results."""
        for entry in self.entries.values():
            entry.get("facts", {}).pop("onnx", None)
        return {"part": part, "name": self.name, "columns": self.entries, **more}
