"""Keras files with random changes, the same in each run: each is read and run, or refused with its name."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.hostile import mutations
from tests.hostile.trial import Trials

DATA = Path(__file__).parents[2] / "data" / "keras"
VALUES: list[Any] = [
    None,
    -1,
    0,
    2,
    1e39,
    -1.5,
    "",
    "x",
    "same",
    [],
    {},
    True,
    10**12,
    [1, 2],
    [None],
    [["x", 0, 0]],
]


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    with Trials(memory=8000, seconds=60) as found:
        yield found


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(text: bytes, random: Random) -> bytes:
    """Return JSON in which one to three values are removed or replaced."""
    config = json.loads(text)
    for _ in range(random.choice((1, 1, 2, 3))):
        found = [path for path in places(config) if path]
        path, other = random.choice(found), random.choice(found)
        inside = at(config, path[:-1])
        kind = random.random()
        if kind < 0.2:
            del inside[path[-1]]
        else:
            inside[path[-1]] = json.loads(json.dumps(at(config, other))) if kind < 0.4 else random.choice(VALUES)
    return json.dumps(config).encode()


def packed(name: str, random: Random) -> bytes:
    """Return a .keras file in which the configuration or the weights are changed."""
    out = io.BytesIO()
    part = random.choice(("config.json", "config.json", "model.weights.h5"))
    with zipfile.ZipFile(DATA / name) as archive, zipfile.ZipFile(out, "w") as made:
        for item in archive.namelist():
            data = archive.read(item)
            if item == part:
                data = changed(data, random) if part == "config.json" else mutations.data(data, random)
            made.writestr(item, data)
    return out.getvalue()


@pytest.mark.one_per()
@pytest.mark.parametrize("name", ["nested.keras", "text.keras", "operations.keras"])
def test_changed_archives_are_read_or_refused(name: str, trials: Trials) -> None:
    random = Random(name)
    for _ in range(25):
        found = trials.run(packed(name, random), name="net.keras", engines=("numpy",))
        assert found.fine, f"{found.end}: {found.text}\n{found.trace}"


@pytest.mark.parametrize("name", ["k2_nested", "nested"])
def test_changed_json_is_read_or_refused(name: str, trials: Trials) -> None:
    random = Random(name)
    weights = (DATA / f"{name}.weights.h5").read_bytes()
    for _ in range(25):
        model = changed((DATA / f"{name}.json").read_bytes(), random)
        found = trials.run(model, weights, name="net.json", weights_name="w.h5", engines=("numpy",))
        assert found.fine, f"{found.end}: {found.text}\n{found.trace}"


@pytest.mark.one_per()
@pytest.mark.parametrize("name", ["k2_nested.h5", "k2_tf_functions.h5", "text.h5"])
def test_changed_bytes_are_read_or_refused(name: str, trials: Trials) -> None:
    random = Random(name)
    for _ in range(25):
        found = trials.run(mutations.data((DATA / name).read_bytes(), random), name="net.h5", engines=("numpy",))
        assert found.fine, f"{found.end}: {found.text}\n{found.trace}"
