"""Networks that TensorFlow saved match its outputs, on every engine."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

import anylayer
from anylayer.testing import assert_same
from tests.engine_names import ALL
from tests.hostile import mutations
from tests.hostile.trial import Trials
from tests.layers.tensorflow.recorded import recorded

SHARED = Path(__file__).parents[4] / "shared" / "tf_keras"


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/tf_keras is absent")
@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("name", ["blog", "deconv_upsample", "flatten_dense", "stride_same_even"])
def test_network_matches_tensorflow(name: str, engine: str) -> None:
    net = anylayer.read(SHARED / f"{name}.pb")
    model = net.compile(engine)
    assert not model.host_calls
    with np.load(SHARED / f"{name}.npz") as file:
        assert_same(model({"x": file["x"]})["Identity"], file["y"])


def test_changed_files_never_crash() -> None:
    random = Random("tensorflow")
    graphs = [case.graph for case in recorded().values()]
    with Trials(memory=8000, seconds=20) as trials:
        for _ in range(300):
            changed = mutations.data(random.choice(graphs), random)
            found = trials.run(changed, name="graph.pb", engines=["numpy"])
            named = found.end in ("ok", "EngineError") or found.text.startswith("graph.pb")
            assert found.fine and named, f"{found.end}: {found.text}\n{changed!r}\n{found.trace}"
