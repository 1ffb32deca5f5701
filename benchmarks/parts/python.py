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
    setup = replace(setup, peers=setup.compilers)
    for one in cases():
        if setup.wants(one.name):
            with Field(setup, one.name) as field:
                yield _row(setup, one, field)


def _row(setup: Setup, one: Case, field: Field) -> Row:
    arrays = one.inputs(np.random.default_rng(1))
    path = save_inputs(field.folder / "inputs.npz", {str(i): x for i, x in enumerate(arrays)})
    spec: dict[str, Any] = {"function": one.name, "inputs": path}
    ours = {**spec, "engine": setup.engine, "file": None}
    field.load("anylayer", "anylayer_function", ours)
    field.load("file", "anylayer_function", {**ours, "file": str(field.folder / f"{one.name}.onnx")})
    for tool in TOOLS:
        more = {"tool": tool, "kept": str(ROOT / ".venv-compilers" / "pythran")}
        field.load(tool, "python_tools", {**spec, **more}, peer=True)
    field.compare("numpy")
    field.measure()
    return field.row(PART)
