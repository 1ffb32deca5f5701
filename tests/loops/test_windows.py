"""Loops of operators over windows: pooling, convolutions, local response normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import load_layers
from anylayer.layer.bound import Bound, bind
from anylayer.loops import at_fixed_sizes, lower, opened, to_cpp
from anylayer.network import Array, Node, TensorType
from tests.loops.harness import build, call, needs_compiler

pytestmark = needs_compiler


def noise(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


BIAS = noise(6)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "max_pool": lambda x: ops.max_pool(x, (3, 2), strides=2, pads=1),
    "max_pool_dilated": lambda x: ops.max_pool(x, 3, dilations=2, ceil_mode=True, strides=2),
    "average_pool": lambda x: ops.average_pool(x, 3, strides=2, pads=1),
    "average_pool_ceil": lambda x: ops.average_pool(x, 4, strides=3, pads=1, ceil_mode=True),
    "average_pool_with_padding": lambda x: ops.average_pool(x, 3, strides=2, pads=1, count_include_pad=True),
    "average_pool_whole": lambda x: ops.average_pool(x, (8, 9)),
    "conv": lambda x: ops.conv(x, noise(6, 4, 3, 2), BIAS, strides=(1, 2), pads=(1, 2, 0, 1), dilations=2),
    "conv_grouped": lambda x: ops.conv(x, noise(6, 2, 2, 2), None, group=2),
    "conv_depthwise": lambda x: ops.conv(x, noise(4, 1, 3, 3), None, group=4, pads=1),
    "conv_transpose": lambda x: ops.conv_transpose(x, noise(4, 6, 3, 2), BIAS, strides=2, pads=(1, 0, 0, 1)),
    "conv_transpose_grouped": lambda x: ops.conv_transpose(
        x, noise(4, 3, 4, 3), None, strides=(3, 1), group=2, dilations=(1, 2), output_padding=(2, 0)
    ),
    "lrn": lambda x: ops.lrn(x, 3, alpha=0.5, beta=0.75, bias=1.5),
    "lrn_even": lambda x: ops.lrn(x, 4, alpha=0.5, beta=0.75),
}
OPEN = [n for n in FUNCTIONS if not any(word in n for word in ("transpose", "ceil", "whole", "dilated", "lrn"))]


def layer(name: str) -> Bound:
    """Return a layer that computes a function."""

    class Windows:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Sequence[Any]) -> Sequence[Any]:
            return [FUNCTIONS[name](inputs[0])]

    definition = load_layers([("A", Windows)])["A"]
    return bind(Node("a", "A", ["x"], ["y"], {}, []), [definition], [TensorType.of((2, 4, 8, 9))])


def test_windows_match_numpy_at_the_sizes_of_the_trace_and_at_others(tmp_path: Path) -> None:
    layers = {n: opened(layer(n)) if n in OPEN else at_fixed_sizes(layer(n)) for n in FUNCTIONS}
    codes = {name: to_cpp(lower(traced), name) for name, traced in layers.items()}
    library = build(list(codes.values()), tmp_path)
    for name, traced in layers.items():
        for shape in [(2, 4, 8, 9), (1, 4, 11, 7)] if name in OPEN else [(2, 4, 8, 9)]:
            x, sizes = noise(*shape), {s: shape[a] // k for s, (_, a, k) in traced.sizes.items()}
            (got,) = call(library, codes[name], [x], sizes) or [np.zeros(0)]
            np.testing.assert_allclose(got, FUNCTIONS[name](x), rtol=1e-5, atol=1e-5, err_msg=name)
    assert all(len(layers[name].sizes) >= 3 for name in OPEN), {n: list(t.sizes) for n, t in layers.items()}
