"""The work of one process: a compiled network that is called with batches of rows."""

from __future__ import annotations

import hashlib
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

Prepare = Callable[[str], Mapping[str, Array]]
"""A function from a file to the arrays of the network's inputs, each with an axis for samples."""


@dataclass(frozen=True)
class Task:
    """What each process does. `output` is the folder of the results; None where they are returned as columns."""

    engine: str
    threads: int
    outputs: Sequence[str] | None
    batch: int
    output: str | None


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
        return self._columns(rows) if self._task.output is None else self._files([str(p) for p in rows["path"]])

    def _columns(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Return the rows with the outputs as further columns. Raises the error of the first row that fails."""
        names = list(self._net.network.inputs)
        for name in names:
            need(name in rows, f"the data set has no column '{name}'; its columns: {', '.join(rows)}", InputError)
        count = len(rows[names[0]])
        requests = [{name: np.asarray(rows[name][i])[None] for name in names} for i in range(count)]
        found = []
        for outputs in self._run([self._typed(request) for request in requests]):
            if isinstance(outputs, AnyLayerError):
                raise outputs
            found.append(outputs)
        return {**rows, **{name: np.stack([outputs[name][0] for outputs in found]) for name in found[0]}}

    def _typed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        known = self._net.network.inputs
        return {n: x.astype(kind.dtype) if (kind := known[n]) else x for n, x in arrays.items()}

    def _files(self, paths: Sequence[str]) -> dict[str, Any]:
        """Run files, and write the results as one Parquet file. Return the files, each with the error that it
        raised."""
        prepare = given(self._prepare, "give prepare=, a function from a file to the network's inputs", InputError)
        errors = dict.fromkeys(paths, "")
        requests: dict[str, Mapping[str, Array]] = {}
        for path in paths:
            try:
                requests[path] = self._typed(prepare(path))
            except Exception as error:  # a user's function, and files of any kind, raise anything
                errors[path] = (
                    f"{type(error).__name__}: {error}" if not isinstance(error, AnyLayerError) else str(error)
                )
        results: dict[str, dict[str, Array]] = {}
        while requests:
            try:
                for path, found in zip(requests, self._run(list(requests.values()))):
                    if isinstance(found, AnyLayerError):
                        errors[path] = str(found)
                    else:
                        results[path] = found
                break
            except AnyLayerError as error:  # the network does not compile for the types of the first file
                types = {
                    path: [(n, x.shape, x.dtype) for n, x in arrays.items()] for path, arrays in requests.items()
                }
                first = types[next(iter(types))]
                errors.update({path: str(error) for path in types if types[path] == first})
                requests = {path: arrays for path, arrays in requests.items() if types[path] != first}
        if results:
            self._write(results)
        return {"path": np.array(paths, object), "error": np.array([errors[p] for p in paths], object)}

    def _write(self, results: Mapping[str, Mapping[str, Array]]) -> None:
        """Write results. The name of the file is a hash of the input files' names, so that a batch that runs again
        replaces its file.
        """
        from anylayer.libraries.pyarrow import write_parquet

        paths = list(results)
        name = hashlib.sha256("\0".join(paths).encode()).hexdigest()[:24]
        names = list(results[paths[0]])
        columns: dict[str, Sequence[Any]] = {"path": paths}
        columns |= {n: [results[path][n] for path in paths] for n in names}
        write_parquet(Path(self._task.output or "", f"{name}.parquet"), columns)
