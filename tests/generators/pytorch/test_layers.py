"""The torch code of every layer that the tests of layers run: it computes what the layer computes in NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

from anylayer.errors import LayerError
from anylayer.testing import assert_same
from tests.generators.pytorch.harness import module_of, run, traced
from tests.layers.harness import Case, cases

pytestmark = pytest.mark.needs("torch", "safetensors")

CASES = {name: case for name, case in cases() if case.inputs and case.engines}

REFUSED = {
    "NonMaxSuppression": "the operator NonMaxSuppression",
    "RoiAlign": "the operator RoiAlign",
    "MaxRoiPool": "the operator MaxRoiPool",
    "GRU": "a GRU that applies the reset gate before the product",
    "Slice": "a Slice whose bounds are computed",
}
"""What the generator refuses, by the operator that its message names last."""


@pytest.mark.parametrize("name", CASES)
def test_torch_code_of_layer_matches_numpy(name: str) -> None:
    case: Case = CASES[name]
    graph = traced(lambda *xs: case.bind()(xs), case.inputs)
    try:
        written = module_of(graph)
    except LayerError as error:
        operator = re.search(r"\((\w+)[,)]", str(error))
        assert operator is not None and f"cannot express {REFUSED[operator[1]]}" in str(error)
        return
    want = case.bind()([x.copy() for x in case.inputs])
    got = run(written, case.inputs)
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want)):
        assert_same(g, np.asarray(w), f"output {i}", case.tolerance)
