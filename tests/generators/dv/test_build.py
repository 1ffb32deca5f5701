"""The layers of the DV700 that a graph becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.generators.dv.build import build
from anylayer.generators.dv.plan import Convolution, Custom, FullyConnected
from anylayer.network import Array
from anylayer.optimize.simplify import simplify
from tests.corrections.harness import noise, traced

X, BIAS, KERNEL = noise(1, 3, 8, 8), noise(4, seed=1), noise(4, 3, 3, 3, seed=2)
FLAT, MATRIX = noise(1, 12, seed=3), noise(12, 5, seed=4)


def kinds(function: Callable[..., Any], *inputs: Array) -> list[type]:
    """Return the types of the layers that a function of arrays becomes."""
    return [type(layer.kind) for layer in build(simplify(traced(function, *inputs), "dv"), {}).layers]


def test_convolution_with_a_computed_bias_is_not_a_layer_of_the_hardware() -> None:
    assert kinds(lambda x: ops.conv(x, KERNEL, BIAS), X) == [Convolution]
    assert kinds(lambda x, b: ops.conv(x, KERNEL, b), X, BIAS) == [Custom]


def test_matrix_product_with_constant_weights_is_fully_connected() -> None:
    assert kinds(lambda x: x @ MATRIX, FLAT) == [FullyConnected]
    plan = build(simplify(traced(lambda x: x @ MATRIX, FLAT), "dv"), {})
    kind = plan.layers[0].kind
    assert isinstance(kind, FullyConnected)
    np.testing.assert_array_equal(kind.weight, MATRIX.T)
    assert not kind.bias.any()
