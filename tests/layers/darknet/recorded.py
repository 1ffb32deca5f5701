"""The recorded results of Darknet's sections: the cases of the files in tests/data/darknet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.network import Array
from anylayer.testing import assert_same
from tests.engine_names import ALL

BY_DARKNET = " by Darknet"
FOLDER = Path(__file__).parents[2] / "data" / "darknet"


@dataclass(frozen=True)
class Recorded:
    """A network, its weights, its input, and its outputs by name: "" for the output where OpenCV gives none."""

    name: str
    cfg: str
    weights: bytes
    x: Array
    outputs: dict[str, Array]
    by_opencv: bool
    dialect: str | None = None
    tree: str = ""

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write the two files, and return their paths."""
        model, weights = folder / "net.cfg", folder / "net.weights"
        model.write_text(self.cfg)
        weights.write_bytes(self.weights)
        (folder / "small.tree").write_text(self.tree)
        return model, weights

    def read(self, folder: Path) -> anylayer.Net:
        """Return the network."""
        return anylayer.read(*self.save(folder), dialect=self.dialect)


@cache
def recorded() -> dict[str, Recorded]:
    """Return every case by name. Those that Darknet itself has computed end in BY_DARKNET."""
    return _cases("sections.npz", "") | _cases("fork.npz", "") | _cases("darknet.npz", BY_DARKNET)


def _cases(file: str, ending: str) -> dict[str, Recorded]:
    with np.load(FOLDER / file) as arrays:
        index, data = json.loads(arrays["index"].tobytes()), arrays["data"].tobytes()

    def get(entry: Any) -> Array:
        shape, start, stop = entry
        return np.frombuffer(data[start:stop], np.float32).reshape(shape)

    return {
        e["name"] + ending: Recorded(
            e["name"] + ending,
            e["cfg"],
            data[slice(*e["weights"])],
            get(e["x"]),
            {name: get(y) for name, y in e["outputs"].items()},
            e["opencv"],
            e.get("dialect"),
            e.get("tree", ""),
        )
        for e in index
    }


def check(got: dict[str, Array], case: Recorded, engine: str = "") -> None:
    """Check that outputs have the recorded names and values. OpenCV names the functions that follow a section."""
    named = case.outputs
    if set(named) != set(got):
        assert len(named) == len(got) == 1
        named = dict(zip(got, named.values()))
    for name, want in named.items():
        assert_same(got[name], want, f"{case.name}, {name}", 1e-4 if engine else 2e-5)


def as_recorded(*types: str, engines: Any = ALL) -> Any:
    """Return a test that these sections match the recorded results in every case and on every engine.

    The cases that Darknet itself has computed are in test_program.py.
    """
    mine = [name for name in recorded() if name.split()[0] in types and not name.endswith(BY_DARKNET)]
    assert {name.split()[0] for name in mine} == set(types), "a section is not recorded"
    return as_named(mine, engines)


def as_named(names: Sequence[str], engines: Any = ALL) -> Any:
    """Return a test that cases match the recorded results on every engine."""

    @pytest.mark.parametrize("engine", engines)
    @pytest.mark.parametrize("name", names)
    def test(name: str, engine: str, tmp_path: Path) -> None:
        case = recorded()[name]
        model = case.read(tmp_path).compile(engine, threads=1, shapes={"data": case.x.shape})
        assert not model.host_calls
        check(model({"data": case.x}), case, engine if engine != "numpy" else "")

    return test


def refuses(sections: str, text: str, size: str = "width=8\nheight=6\nchannels=8\n") -> Any:
    """Return a test that a network of these sections is refused with a message that contains `text`."""

    def test(tmp_path: Path) -> None:
        path = tmp_path / "net.cfg"
        path.write_text(f"[net]\n{size}{sections}")
        with pytest.raises(anylayer.AnyLayerError) as error:
            anylayer.read(path).fill().compile("numpy")
        assert text in str(error.value), str(error.value)

    return test
