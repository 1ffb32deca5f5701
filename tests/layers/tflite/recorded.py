"""The recorded results of TFLite's operators: the cases in tests/data/tflite/."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import anylayer
from anylayer.network import Array
from anylayer.testing import assert_same
from tests.engine_names import ALL
from tests.stored_cases import stored_cases

FOLDER = Path(__file__).parents[2] / "data" / "tflite"


@dataclass(frozen=True)
class Recorded:
    """A model of one operator, with inputs and outputs by name."""

    name: str
    model: bytes
    inputs: dict[str, Array]
    outputs: dict[str, Array]

    def save(self, folder: Path) -> Path:
        """Write the model, and return its path."""
        path = folder / "model.tflite"
        path.write_bytes(self.model)
        return path


@cache
def recorded() -> dict[str, Recorded]:
    """Return every case of operators by name."""
    files = ("operators.npz", "mediapipe.npz", "converted.npz", "selections.npz", "states.npz")
    return {name: case for file in files for name, case in cases_of(file).items()}


def cases_of(name: str) -> dict[str, Recorded]:
    """Return the cases of a file by name."""
    index, data, arrays = stored_cases(FOLDER / name)
    return {
        e["name"]: Recorded(e["name"], data[slice(*e["model"])], arrays(e["inputs"]), arrays(e["outputs"]))
        for e in index
    }


def as_recorded(*types: str, engines: Any = ALL) -> Any:
    """Return a test that these operators match the recorded results in every case and on every engine."""
    mine = [name for name in recorded() if name.split()[0] in types]
    assert {name.split()[0] for name in mine} == set(types), "an operator is not recorded"

    @pytest.mark.parametrize("engine", engines)
    @pytest.mark.parametrize("name", mine)
    def test(name: str, engine: str, tmp_path: Path) -> None:
        case = recorded()[name]
        model = anylayer.read(case.save(tmp_path)).compile(engine, threads=1)
        assert not model.host_calls
        got = model(case.inputs)
        assert set(got) == set(case.outputs)
        for output, want in case.outputs.items():
            assert got[output].dtype == want.dtype
            assert_same(got[output], want, f"{name}, {output}", 1e-5)

    return test


def refuses(name: str, old: bytes, new: bytes, text: str) -> Any:
    """Return a test that a recorded model with other bytes is refused, with a message that has `text`."""

    def test(tmp_path: Path) -> None:
        stored = recorded()[name].model
        assert stored.count(old) == 1
        path = tmp_path / "model.tflite"
        path.write_bytes(stored.replace(old, new))
        with pytest.raises(anylayer.AnyLayerError) as error:
            anylayer.read(path).compile("numpy")
        assert text in str(error.value), str(error.value)

    return test
