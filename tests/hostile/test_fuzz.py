"""Random networks and changed files, a few hundred of each, the same ones every time: each is read, inspected,
compiled and run, or refused by an error that names the file."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from . import mutations
from .networks import SMALL, layer
from .strategies import Try, definitions, tries
from .trial import End, Trials

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
FILES = ("deploy.prototxt", "net.caffemodel")


def refuses_well(found: End) -> bool:
    """Whether a network runs, or is refused by an error that begins with the file's name or is an engine's."""
    return found.end in ("ok", "EngineError") or (found.fine and found.text.startswith(FILES))


@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)
@given(network=tries(definitions()))
def test_random_layers(trials: Trials, network: Try) -> None:
    found = trials.run(network.text, network.weights)
    assert refuses_well(found), f"{found.end}: {found.text}\n{found.trace}"


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="../shared/golden is absent")
@pytest.mark.parametrize("kind", ["text", "weights", "network"])
def test_changed_files(kind: str, trials: Trials) -> None:
    random = Random(kind)
    cases = sorted(p.parent for p in GOLDEN.glob("*/*/weights.caffemodel"))
    for _ in range(150):
        case = random.choice(cases)
        model, weights = (case / "deploy.prototxt").read_bytes(), (case / "weights.caffemodel").read_bytes()
        if kind == "text":
            model = mutations.text(model.decode(), random).encode("utf-8", "surrogatepass")
        else:
            weights = mutations.data(weights, random)
        if kind == "network":
            found = trials.run(weights, name="net.caffemodel")
        else:
            found = trials.run(model, weights)
        assert refuses_well(found), f"{case}: {found.end}: {found.text}\n{model!r}\n{weights!r}\n{found.trace}"


def test_what_ends_the_process_is_named() -> None:
    with Trials(memory=8000, seconds=2) as brief:
        assert brief.job({"sleep": 60}).text == "no answer in 20 s"
        assert brief.job({"spin": 60}).text == "took more than 2 s of the processor"
        assert brief.job({"exit": 3}) == End("died", "exit status 3")
        assert brief.run(SMALL + layer("ReLU"), engines=()).end == "ok"
