"""The torch code of every layer that the tests of layers run: it computes what the layer computes in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from anylayer.testing import assert_same
from anylayer.tracing import record
from tests.generators.pytorch.harness import module_of, run, traced
from tests.layers.harness import Case, cases

pytestmark = pytest.mark.needs("torch", "safetensors")

CASES = {name: case for name, case in cases() if case.inputs and case.engines}


@pytest.mark.parametrize("name", CASES)
def test_torch_code_of_layer_matches_numpy(name: str) -> None:
    case: Case = CASES[name]
    graph = traced(lambda *xs: case.bind()(xs), case.inputs)
    want = case.bind()([x.copy() for x in case.inputs])
    got = run(module_of(graph), case.inputs)
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want)):
        assert_same(g, np.asarray(w), f"output {i}", case.tolerance)


def test_logistic_function_becomes_sigmoid() -> None:
    x = np.linspace(-9, 9, 24, dtype=np.float32).reshape(2, 3, 4)
    written = module_of(traced(lambda v: 1 / (1 + np.exp(-v)), [x]))
    assert "sigmoid(" in written.text and "exp(" not in written.text
    assert_same(run(written, [x])[0], 1 / (1 + np.exp(-x)), "output 0")
    other = module_of(traced(lambda v: 2 / (1 + np.exp(-v)), [x]))
    assert "exp(" in other.text


def test_logistic_function_of_float64_keeps_its_operators() -> None:
    x = np.linspace(-40, 40, 24).reshape(2, 3, 4)
    written = module_of(traced(lambda v: 1 / (1 + np.exp(-v)), [x]))
    assert "exp(" in written.text and "sigmoid(" not in written.text
    np.testing.assert_allclose(run(written, [x])[0], 1 / (1 + np.exp(-x)), 1e-14)


def test_instance_normalization_becomes_a_module_with_weights() -> None:
    x, scale, bias = (np.random.default_rng(i).standard_normal(3).astype(np.float32) for i in range(3))
    x = np.multiply.outer(scale, x).reshape(1, 3, 3, 1) * np.ones((2, 1, 1, 2), np.float32)
    written = module_of(
        traced(lambda v: record("InstanceNormalization", [v, scale, bias], x.shape, x.dtype, epsilon=0.1), [x])
    )
    assert "nn.InstanceNorm2d(3, eps=0.1, affine=True)" in written.text
    centered = x - x.mean((2, 3), keepdims=True)
    want = centered / np.sqrt((centered**2).mean((2, 3), keepdims=True) + np.float32(0.1))
    assert_same(run(written, [x])[0], want * scale[:, None, None] + bias[:, None, None], "output 0")
