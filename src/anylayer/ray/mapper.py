"""The work of one process: a compiled network that is called with batches of rows."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.api import Net
from anylayer.errors import AnyLayerError, InputError, given, need
from anylayer.libraries.ray import ray
from anylayer.network import Array, TensorType
from anylayer.runtime.batches import Batches
from anylayer.runtime.model import Model

MANIFEST = "_anylayer.json"
"""The file that describes a folder of results, see `manifest`. Readers of Parquet folders skip it, for its "_"."""
ROWS = 32
"""Rows that a process gets at once, and the largest number of files whose results are one Parquet file."""
Prepare = Callable[[str], Mapping[str, Array]]
"""A function from a file to the arrays of the network's inputs, each with an axis for samples."""


@dataclass(frozen=True)
class Task:
    """What each process does. `output` is the folder of the results, to which the run `run` writes; None where
    they are returned as columns."""

    engine: str
    threads: int
    outputs: Sequence[str] | None
    batch: int
    output: str | None
    run: str = ""


def manifest(folder: Path) -> dict[str, str]:
    """Return what a folder says: which network its results are of, and which run writes to it."""
    try:
        return {str(key): str(value) for key, value in json.loads((folder / MANIFEST).read_text("utf-8")).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def written_paths(task: Task, paths: Sequence[str]) -> set[str]:
    """Return those of the files that have results in the Parquet file that `paths` get together."""
    from anylayer.libraries.pyarrow import strings

    file = _result(task, paths)
    return set(strings(file, "path")) if file.exists() else set()


def _result(task: Task, paths: Sequence[str]) -> Path:
    """Return the Parquet file of input files: its name is a hash of theirs."""
    name = hashlib.sha256("\0".join(paths).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return Path(task.output or "", f"{name}.parquet")


class Mapper:
    """A compiled network in a process of the cluster. `sent` is the reference to (network, prepare), in a list."""

    def __init__(self, sent: Sequence[Any], task: Task) -> None:
        self._net: Net
        self._prepare: Prepare | None
        self._net, self._prepare = ray.get(sent[0])
        self._task = task
        self._batches: Batches | None = None

    def _run(self, requests: Sequence[Mapping[str, Array]]) -> list[dict[str, Array] | AnyLayerError]:
        """Run requests. The network is compiled, and batches are measured, for the types of the first one."""
        if self._batches is None:
            types = {name: TensorType(x.shape, x.dtype) for name, x in requests[0].items()}
            task = self._task
            shapes = {name: kind.shape for name, kind in types.items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about host calls, which `anylayer inspect` explains
                model: Model = self._net.compile(task.engine, shapes, task.threads, task.outputs)
                self._batches = Batches(model, types, task.batch)
        return self._batches(requests)

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Return the rows with the outputs as further columns. Raises the error of the first row that fails."""
        names = list(self._net.network.inputs)
        for name in names:
            need(name in rows, f"the data set has no column '{name}'; its columns: {', '.join(rows)}", InputError)
        count = len(rows[names[0]])
        requests = [{name: np.asarray(rows[name][i])[None] for name in names} for i in range(count)]
        results = []
        for outputs in self._run([self._cast(request) for request in requests]):
            if isinstance(outputs, AnyLayerError):
                raise outputs
            results.append(outputs)
        return {**rows, **{name: np.stack([outputs[name][0] for outputs in results]) for name in results[0]}}

    def _cast(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        types = self._net.network.inputs
        return {n: x.astype(kind.dtype) if (kind := types[n]) else x for n, x in arrays.items()}

    def files(self, paths: Sequence[str]) -> dict[str, str]:
        """Run files, and write the results of each `ROWS` of them as one Parquet file. Return the errors of those
        that failed.

        Results that exist are those of a process that has died since then. They are not computed again.
        """
        errors: dict[str, str] = {}
        for i in range(0, len(paths), ROWS):
            part = paths[i : i + ROWS]
            finished = written_paths(self._task, part)
            errors |= self.files([path for path in part if path not in finished]) if finished else self._part(part)
        return errors

    def _part(self, paths: Sequence[str]) -> dict[str, str]:
        from anylayer.libraries.pyarrow import write_parquet

        prepare = given(self._prepare, "give prepare=, a function from a file to the network's inputs", InputError)
        errors: dict[str, str] = {}
        requests: dict[str, Mapping[str, Array]] = {}
        for path in paths:
            try:
                requests[path] = self._cast(prepare(path))
            except Exception as error:  # a user's function, and files of any kind, raise anything
                errors[path] = (
                    f"{type(error).__name__}: {error}" if not isinstance(error, AnyLayerError) else str(error)
                )
        results: dict[str, dict[str, Array]] = {}
        while requests:
            try:
                for path, outputs in zip(requests, self._run(list(requests.values()))):
                    if isinstance(outputs, AnyLayerError):
                        errors[path] = str(outputs)
                    else:
                        results[path] = outputs
                break
            except AnyLayerError as error:  # the network does not compile for the types of the first file
                types = {
                    path: [(n, x.shape, x.dtype) for n, x in arrays.items()] for path, arrays in requests.items()
                }
                first = types[next(iter(types))]
                errors.update({path: str(error) for path in types if types[path] == first})
                requests = {path: arrays for path, arrays in requests.items() if types[path] != first}
        if results:
            folder = self._task.output
            need(
                manifest(Path(folder or "")).get("run", self._task.run) == self._task.run,
                f"another run has begun to write to {folder}",
                InputError,
            )
            columns: dict[str, Sequence[Any]] = {"path": list(results)}
            columns |= {n: [outputs[n] for outputs in results.values()] for n in next(iter(results.values()))}
            write_parquet(_result(self._task, paths), columns)
        return errors
