"""Measure NumPy functions: as a layer and in a file, beside NumPy and compilers of NumPy code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.functions import Case, cases
from benchmarks.processes import ROOT
from benchmarks.runners.python_tools import TOOLS
from benchmarks.setup import Field, Row, Setup, save_inputs

PART = "python"


def run(setup: Setup) -> Iterator[Row]:
    """Yield a row for each function that is asked for."""
    setup = replace(setup, peers=setup.compilers, workers=dict.fromkeys(TOOLS))
    try:
        for one in cases():
            if setup.wants(one.name):
                with Field(setup, one.name) as field:
                    yield _row(setup, one, field)
    finally:
        for worker in setup.workers.values():
            if worker is not None:
                worker.close()


def _row(setup: Setup, one: Case, field: Field) -> Row:
    arrays = one.inputs(np.random.default_rng(1))
    path = save_inputs(field.folder / "inputs.npz", {str(i): x for i, x in enumerate(arrays)})
    spec: dict[str, Any] = {"function": one.name, "inputs": path}
    ours = {**spec, "engine": setup.engine, "file": None}
    field.load("anylayer", "anylayer_function", ours)
    field.load("file", "anylayer_function", {**ours, "file": str(field.folder / f"{one.name}.onnx")})
    more = {"kept": str(ROOT / ".venv-compilers" / "pythran")}
    started = {t: field.start(t, "python_tools", {**spec, **more, "tool": t}, peer=True) for t in TOOLS}
    for tool, worker in started.items():
        field.loaded(tool, worker)
    field.compare("numpy")
    field.measure()
    return field.row(PART, threads=setup.threads, processor=setup.processor)
