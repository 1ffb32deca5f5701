"""The recorded outputs of Keras: the cases of tests/data/keras/<file>.npz."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.layers.harness import Case

DATA = Path(__file__).parents[2] / "data" / "keras"


class KerasCase(Case):
    """A Case whose params are complete: {"config": {...}}, and {"call": {...}} for calls with other arguments."""

    def _messages(self) -> dict[str, Any]:
        return dict(self.params)


def recorded(file: str, tolerance: float | None = None) -> dict[str, Callable[[], None]]:
    """Return a test `test_<case>` for each case of a file: the layer matches Keras on every engine."""
    with np.load(DATA / f"{file}.npz") as stored:
        arrays = dict(stored)
    names = [key.removesuffix(".json") for key in arrays if key.endswith(".json")]
    return {f"test_{name}": _test(made_of(arrays, name, tolerance)) for name in names}


def made_of(arrays: dict[str, Any], name: str, tolerance: float | None = None) -> KerasCase:
    """Return the Case `name` from the arrays of a file."""
    spec = json.loads(str(arrays[f"{name}.json"]))

    def listed(kind: str) -> list[Any]:
        count = sum(key.startswith(f"{name}.{kind}") for key in arrays)
        return [arrays[f"{name}.{kind}{i}"] for i in range(count)]

    params: dict[str, Any] = {"config": spec["config"]}
    args = spec["args"][0] if len(spec["args"]) == 1 and isinstance(spec["args"][0], list) else spec["args"]
    if spec["kwargs"] or not all(isinstance(a, dict) for a in args):
        params["call"] = {"args": spec["args"], "kwargs": spec["kwargs"]}
    return KerasCase(
        spec["class_name"],
        params,
        listed("in"),
        listed("out"),
        listed("w"),
        format="keras",
        tolerance=tolerance,
    )


def _test(made: KerasCase) -> Callable[[], None]:
    def test() -> None:
        made.run()

    test.case = made
    return test
