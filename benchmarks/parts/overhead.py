"""Measure anylayer's own costs: its import, a call, a host call."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.parts.networks import direct
from benchmarks.processes import ROOT
from benchmarks.prototxt import Prototxt
from benchmarks.setup import Field, Row, Setup, save_inputs

PART = "overhead"
_IMPORTS = 9
_CLOCK = "import time; t = time.perf_counter(); import {0}; print(time.perf_counter() - t)"


def run(setup: Setup) -> Iterator[Row]:
    """Yield rows: the import, a call on each engine, a host call on each engine."""
    if setup.wants("import"):
        yield _import(setup)
    for engine in ("onnxruntime", "openvino"):
        for name, measured in ((f"one_relu_{engine}", _relu), (f"host_call_{engine}", _host)):
            if setup.wants(name):
                with Field(setup, name) as field:
                    row = measured(setup, field, engine)
                yield row


def _import(setup: Setup) -> Row:
    columns = {}
    for module in ("anylayer", "numpy"):
        times = []
        for _ in range(1 + _IMPORTS):
            command = [setup.python, "-c", _CLOCK.format(module)]
            times.append(
                float(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
            )
        times = times[1:]  # the first run compiled the files
        columns[module] = {"seconds": statistics.median(times), "low": min(times), "high": max(times)}
    return {"part": PART, "name": "import", "columns": columns, "note": "NumPy's own import is part of anylayer's"}


def _relu(setup: Setup, field: Field, engine: str) -> Row:
    net = Prototxt("one_relu")
    net.layer("y", "ReLU", net.input("x", (1, 16)))
    model = field.folder / "deploy.prototxt"
    model.write_text(net.text())
    path = save_inputs(field.folder / "inputs.npz", {"x": np.ones((1, 16), np.float32)})
    spec: dict[str, Any] = {"model": str(model), "inputs": path, "engine": engine, "export": str(field.folder)}
    ours = field.load("anylayer", "anylayer", spec)
    direct(field, ours, path, (engine,))
    field.compare("anylayer")
    field.measure({"anylayer": ["call"], engine: ["plain"]})
    return field.row(PART, note="seconds of anylayer less those of the engine's own call")


def _host(setup: Setup, field: Field, engine: str) -> Row:
    for column, call in (("with", "with"), ("without", "without"), ("forward", "forward")):
        field.load(column, "host_call", {"folder": str(field.folder), "engine": engine})
        field.limit(column, [call])
    field.measure()
    return field.row(PART, note="seconds with the layer, less those without it, less its forward alone")
