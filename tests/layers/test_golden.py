"""What real Caffe and its forks computed, against the layers' definitions in NumPy: whole small networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, need
from anylayer.layer import bind
from anylayer.network import TensorType
from anylayer.testing import assert_same

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden"
CASES = sorted(path.parent for path in GOLDEN.glob("*/*/case.json"))

pytestmark = pytest.mark.skipif(not CASES, reason="needs ../shared/golden, which is not here")

ids = [f"{path.parent.name}/{path.name}" for path in CASES]


def _run(folder: Path, case: dict[str, Any], feed: dict[str, Any]) -> dict[str, Any]:
    """The outputs of the network, node by node."""
    net = anylayer.read(
        next(folder.glob("*.prototxt")), next(folder.glob("*.caffemodel*"), None), dialect=case.get("dialect")
    )
    network = net.network
    values = {name: feed[name] for name in network.inputs}
    for node in network.nodes:
        inputs = [values[name] for name in node.inputs]
        types = [TensorType.of(x.shape, x.dtype) for x in inputs]
        need(net.definitions[node.type], f"there is no layer type '{node.type}'")
        bound = bind(node, net.definitions[node.type], types, network.dialect)
        values.update(zip(node.outputs, bound(inputs)))
        assert bound.unfilled == []
    return {public: np.asarray(values[name]) for public, name in network.outputs.items()}


@pytest.mark.parametrize("folder", CASES, ids=ids)
def test_case(folder: Path) -> None:
    case = json.loads((folder / "case.json").read_text())
    feed = {p.stem.removeprefix("input_"): np.load(p) for p in folder.glob("input_*.npy")}
    if case.get("rejected"):
        with pytest.raises(AnyLayerError):
            _run(folder, case, feed)
        return
    got = _run(folder, case, feed)
    assert set(got) == set(case["outputs"])
    for name in case["outputs"]:
        want = np.load(folder / f"output_{name}.npy")
        assert_same(got[name], want.astype(np.float32), name)
