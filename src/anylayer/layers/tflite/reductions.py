"""Matrix products, reductions, normalization over an axis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import reshape
from anylayer.layers._table import of_tensorflow, operators, row
from anylayer.layers.tflite._base import NO_ACTIVATION, SOURCE, TFLiteLayer, fused_row, same_as
from anylayer.network import Function

_ASYMMETRIC = {"asymmetric_quantize_inputs": attribute("bool", False)}
_REDUCTIONS = {
    "SUM": "Sum", "REDUCE_PROD": "Prod", "REDUCE_MAX": "Max", "REDUCE_MIN": "Min", "REDUCE_ANY": "Any",
    "REDUCE_ALL": "All",
}  # fmt: skip


def _fully_connected(
    x: Array, w: Array, bias: Array | None = None, *, keep_num_dims: bool, weights_format: str, hybrid: Function
) -> Array:
    need(len(w.shape) == 2, f"the weights must be a matrix, got shape {tuple(w.shape)}")
    size = w.shape[1]
    if keep_num_dims:
        need(x.shape[-1] == size, f"the last axis of the input must have size {size}, got shape {tuple(x.shape)}")
    elif len(x.shape) != 2 or x.shape[1] != size:
        x = reshape(x, [-1, size], "the input as rows of the weights' size,")
    y: Array = hybrid(x, -1) @ w.transpose(1, 0)
    if bias is None:
        return y
    need(bias.dtype == y.dtype, f"the bias of {bias.dtype} has no scale")
    return y + bias.reshape(w.shape[0])


def _batch_matmul(function: Function) -> Function:
    return lambda x, y, *, hybrid, adj_x, adj_y: function(
        hybrid(x, -2 if adj_x else -1), y, adj_x=adj_x, adj_y=adj_y
    )


def _mean(x: Array, axes: Array, keep_dims: bool) -> Array:
    need(x.dtype.kind == "f", f"the mean of {x.dtype} is not supported")
    return of_tensorflow("Mean")(x, axes, keep_dims)


def _l2_normalize(x: Array, *, fused_activation_function: str) -> Array:
    norms: Array = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    return x / np.maximum(norms, np.float32(1e-6))


operators(
    TFLiteLayer,
    SOURCE,
    {
        "FULLY_CONNECTED": fused_row("Multiply by the transpose of weights (M, K), and add a bias (M,).",
            _fully_connected, "fully_connected",
            "x is taken as rows of K values: the output is (N, M). With keep_num_dims it is x.shape[:-1] + (M,). "
            "The bias may be absent.",
            _ASYMMETRIC, keep_num_dims=attribute("bool", False),
            weights_format=attribute(Enum("DEFAULT"), "DEFAULT")),
        "BATCH_MATMUL": replace(same_as("BatchMatMul", "batch_matmul", _batch_matmul), body=_ASYMMETRIC),
        "MEAN": row("Compute the mean over the axes of a constant list; with keep_dims they stay, with size 1.",
            _mean, "reduce", keep_dims=attribute("bool", False)),
        **{name: same_as(kind, "reduce") for name, kind in _REDUCTIONS.items()},
        "ARG_MAX": same_as("ArgMax", "arg_min_max"),
        "ARG_MIN": same_as("ArgMin", "arg_min_max"),
        "CUMSUM": same_as("Cumsum", "cumsum"),
        "TOPK_V2": same_as("TopKV2", "topk_v2"),
        "L2_NORMALIZATION": row(
            "Divide by the square root of the sum of squares over the last axis, at least 1e-6.",
            _l2_normalize, "l2norm", fused_activation_function=NO_ACTIVATION),
        "LOCAL_RESPONSE_NORMALIZATION": row(
            "Compute x / (bias + alpha * s)^beta, where s is the sum of squares over the channels "
            "within a radius.",
            lambda x, radius, **how: of_tensorflow("LRN")(x, depth_radius=radius, **how),
            "local_response_norm", radius=attribute("int32"),
            **{name: attribute("float") for name in ("bias", "alpha", "beta")}),
    },
)  # fmt: skip
