"""Elementwise operators of one array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.network import Array
from tests.ops.harness import agree, noise, refuses

FAR = np.array([-1e30, -1e4, -100, -5, -0.3, -1e-6, 0, 1e-6, 0.2, 5, 100, 1e4, 1e30], np.float32)
DEFINITIONS: dict[str, Any] = {
    "sigmoid": lambda v: 1 / (1 + math.exp(-v)) if v > -700 else 0.0,
    "relu": lambda v: max(v, 0),
    "leaky_relu": lambda v: v if v > 0 else 0.01 * v,
    "elu": lambda v: v if v > 0 else math.expm1(v),
    "softplus": lambda v: v + math.log1p(math.exp(-v)) if v > 0 else math.log1p(math.exp(v)),
    "erf": math.erf,
    "hard_sigmoid": lambda v: min(max(0.2 * v + 0.5, 0), 1),
    "gelu": lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_activation_matches_its_definition(name: str) -> None:
    function = getattr(ops, name)
    for x in (FAR, noise(300) * 4):
        y = function(x)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, [DEFINITIONS[name](float(v)) for v in x], rtol=3e-6, atol=3e-7)
    assert function(noise(3).astype(np.float64)).dtype == np.float64


def test_parameters_change_the_activations() -> None:
    x = np.array([-2, -0.5, 0, 3], np.float32)
    np.testing.assert_allclose(ops.leaky_relu(x, 0.5), [-1, -0.25, 0, 3])
    np.testing.assert_allclose(ops.elu(x, 2.0), [2 * math.expm1(-2), 2 * math.expm1(-0.5), 0, 3], rtol=1e-6)
    np.testing.assert_allclose(ops.hard_sigmoid(x, 1.0, 0.25), [0, 0, 0.25, 1])
    tanh = [0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in x]
    np.testing.assert_allclose(ops.gelu(x, "tanh"), tanh, rtol=1e-5)


def test_prelu_uses_one_slope_per_channel() -> None:
    x, slope = noise(2, 3, 2, 2), np.array([0.5, -1, 0], np.float32).reshape(3, 1, 1)
    y = ops.prelu(x, slope)
    for c, s in enumerate((0.5, -1, 0)):
        np.testing.assert_array_equal(y[:, c], np.where(x[:, c] > 0, x[:, c], s * x[:, c]))
    np.testing.assert_array_equal(ops.prelu(x, np.float32(2).reshape(1)), np.where(x > 0, x, 2 * x))


def test_activations_match_numpy_on_engines() -> None:
    def run(x: Array) -> list[Array]:
        return [
            *(getattr(ops, name)(x) for name in DEFINITIONS),
            ops.leaky_relu(x, 0.3),
            ops.elu(x, 2.0),
            ops.hard_sigmoid(x, 0.5, 0.25),
            ops.gelu(x, "tanh"),
            ops.prelu(x, np.array([0.5, -1, 0], np.float32).reshape(3, 1, 1)),
        ]

    agree(run, noise(2, 3, 4, 5) * 3)


def test_activations_of_large_values_on_engines() -> None:
    x = FAR[1:-1]
    agree(lambda x: [ops.sigmoid(x), ops.hard_sigmoid(x), ops.erf(x)], x)
    agree(lambda x: [ops.softplus(x), ops.elu(x), ops.gelu(x), ops.leaky_relu(x), ops.relu(x)], x)


def test_activations_refuse_invalid_arguments() -> None:
    x = noise(2, 3, 4, 4)
    refuses("slope of shape (3,) does not broadcast to (2, 3, 4, 4)", ops.prelu, x, noise(3))
    refuses("slope of shape (1, 1, 3, 1, 1) does not broadcast", ops.prelu, x, noise(1, 1, 3, 1, 1))
    refuses("approximate must be 'none' or 'tanh', got 'sigmoid'", ops.gelu, x, "sigmoid")
