"""The recorded results of MXNet's operators: the cases of tests/data/mxnet/*.npz."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import anylayer
from anylayer.api import Net
from anylayer.network import Array
from anylayer.testing import assert_same
from tests.engine_names import ALL
from tests.stored_cases import stored_cases

FOLDER = Path(__file__).parents[2] / "data" / "mxnet"
FILES = sorted(path.stem for path in FOLDER.glob("*.npz"))


@dataclass(frozen=True)
class Recorded:
    """A network with inputs by name, and outputs in their order."""

    name: str
    symbol: bytes
    params: bytes
    inputs: dict[str, Array]
    outputs: list[Array]

    def save(self, folder: Path) -> list[Path]:
        """Write the files of the network, and return their paths."""
        paths = [folder / "net-symbol.json", folder / "net-0000.params"]
        for path, content in zip(paths, (self.symbol, self.params)):
            path.write_bytes(content)
        return paths if self.params else paths[:1]

    def read(self, folder: Path) -> Net:
        """Write the files of the network, and read them."""
        return anylayer.read(*self.save(folder))

    @property
    def type(self) -> str:
        """The type of the only operator; "" for a network of several."""
        types = [node["op"] for node in json.loads(self.symbol)["nodes"] if node["op"] != "null"]
        return str(types[0]) if len(types) == 1 else ""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs."""
        return {name: x.shape for name, x in self.inputs.items()}


@cache
def recorded(file: str = "operators") -> dict[str, Recorded]:
    """Return every case of a file by name."""
    index, data, arrays = stored_cases(FOLDER / f"{file}.npz")
    return {
        e["name"]: Recorded(
            e["name"], data[slice(*e["symbol"])], data[slice(*e["params"])], arrays(e["inputs"]),
            [*arrays(e["outputs"]).values()],
        )
        for e in index
    }  # fmt: skip


def as_recorded(*types: str, engines: Any = ALL, file: str = "operators", tolerance: float = 1e-5) -> Any:
    """Return a test that these operators match the recorded results in every case and on every engine."""
    mine = [name for name in recorded(file) if name.split()[0] in types]
    assert {name.split()[0] for name in mine} == set(types), "an operator is not recorded"

    @pytest.mark.parametrize("engine", engines)
    @pytest.mark.parametrize("name", mine)
    def test(name: str, engine: str, tmp_path: Path) -> None:
        case = recorded(file)[name]
        model = case.read(tmp_path).compile(engine, shapes=case.shapes, threads=1)
        assert not model.host_calls
        results = [*model(case.inputs).values()]
        assert len(results) == len(case.outputs)
        for result, expected in zip(results, case.outputs):
            assert result.dtype == expected.dtype
            assert_same(result, expected, name, tolerance)

    return test
