"""Matrix products."""

from __future__ import annotations

import math

from anylayer import ops
from anylayer.layer import Array, attribute, need
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, INT, operators


def _fully_connected(
    x: Array, w: Array, bias: Array | None = None, *, num_hidden: int, no_bias: bool, flatten: bool
) -> Array:
    need(no_bias == (bias is None), f"no_bias is {no_bias}, but there are {2 if bias is None else 3} inputs")
    need(len(x.shape) >= 1, "the input must have 1 axis or more")
    if flatten:
        x = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    shape = (num_hidden, x.shape[-1])
    need(tuple(w.shape) == shape, f"the weights must be of shape {shape}, got {tuple(w.shape)}")
    need(bias is None or tuple(bias.shape) == (num_hidden,), f"the bias must be of shape ({num_hidden},)")
    if len(x.shape) == 2:
        return ops.gemm(x, w, bias, trans_b=True)
    y: Array = x @ w.transpose(1, 0)
    return y if bias is None else y + bias


operators(
    {
        "FullyConnected": row("Multiply by the transpose of weights (M, K), and add a bias (M,).",
            _fully_connected, "nn/fully_connected.cc",
            "(N, ...) to (N, M) for inputs of K values per sample; without flatten, (..., K) to (..., M). no_bias "
            "says that there is no third input, the bias.",
            num_hidden=INT, no_bias=FLAG, flatten=attribute("bool", True)),
    },
)  # fmt: skip
