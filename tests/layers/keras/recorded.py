"""The word `recorded`: the cases of tests/data/keras/<file>.npz, which real Keras computed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.layers.harness import Case

DATA = Path(__file__).parents[2] / "data" / "keras"


class KerasCase(Case):
    """A Case whose params are whole: {"config": {...}}, and where it is more than its inputs {"call": {...}}."""

    def _messages(self) -> dict[str, Any]:
        return dict(self.params)


def recorded(file: str, tolerance: float | None = None) -> dict[str, Callable[[], None]]:
    """A test for each case of a file, named `test_<case>`: the layer gives Keras' outputs on every engine."""
    with np.load(DATA / f"{file}.npz") as stored:
        arrays = dict(stored)
    names = [key.removesuffix(".json") for key in arrays if key.endswith(".json")]
    return {f"test_{name}": _test(made_of(arrays, name, tolerance)) for name in names}


def made_of(arrays: dict[str, Any], name: str, tolerance: float | None = None) -> KerasCase:
    """The Case `name` among a file's arrays."""
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

    test.case = made  # type: ignore[attr-defined]
    return test
