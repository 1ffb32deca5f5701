"""Layers that compute a function of each element and have no parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Layer
from anylayer.layers._family import define
from anylayer.network import Array


class Elementwise(Layer):
    """A function of each element."""

    elementwise = True
    function: Callable[[Any], Any]

    def forward(self, x: Array) -> Any:
        return type(self).function(x)


_FUNCTIONS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "BNLL": (ops.softplus, "log(1 + exp(x)), the softplus", "BVLC/caffe src/caffe/layers/bnll_layer.cpp"),
    "GELU": (ops.gelu, "x * P(X <= x) for a standard normal X", "arXiv 1606.08415"),
    "HardSigmoid": (
        lambda x: ops.hard_sigmoid(x, 0.2, 0.5),
        "0.2 * x + 0.5, clipped to 0..1",
        "eric612/MobileNet-YOLO src/caffe/layers/hard_sigmoid_layer.cpp",
    ),
    "HardSwish": (
        lambda x: x * ops.hard_sigmoid(x, 1 / 6, 0.5),
        "x * min(max(x + 3, 0), 6) / 6",
        "MobileNet v3, arXiv 1905.02244",
    ),
    "Mish": (lambda x: x * np.tanh(ops.softplus(x)), "x * tanh(log(1 + exp(x)))", "arXiv 1908.08681"),
}
for _name, (_function, _what, _source) in _FUNCTIONS.items():
    _details = f"The output has the shape of the input.\n    Source: {_source}."
    define(_name, Elementwise, f"Compute {_what}.", _details, function=staticmethod(_function))
