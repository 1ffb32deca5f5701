"""Activations, softmax and losses."""

from __future__ import annotations

import math

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, operators, training
from anylayer.network import Function

_ACTIVATIONS: dict[str, Function] = {
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "tanh": np.tanh,
    "softrelu": ops.softplus,
    "softsign": lambda x: x / (np.abs(x) + x.dtype.type(1)),
}


def _softmax_output(x: Array, *, multi_output: bool, preserve_shape: bool) -> Array:
    if multi_output or preserve_shape:
        return ops.softmax(x, axis=1 if multi_output else -1)
    return _over_samples(x)


def _over_samples(x: Array) -> Array:
    """Return the softmax over all values of each sample."""
    flat = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    return ops.softmax(flat, axis=1).reshape(x.shape)


operators(
    {
        "Activation": row("Apply the activation act_type to each element.",
            lambda x, act_type: _ACTIVATIONS[act_type](x), "nn/activation.cc",
            act_type=attribute(Enum(*_ACTIVATIONS))),
        "SoftmaxOutput Softmax": row("Compute the softmax over the values of each sample.", _softmax_output,
            "softmax_output.cc",
            "With multi_output it is computed over axis 1, and with preserve_shape over the last axis. The label, "
            "the second input in the file, serves training.",
            {"data_inputs": 1,
             **training("grad_scale ignore_label use_ignore normalization out_grad smooth_alpha")},
            multi_output=FLAG, preserve_shape=FLAG),
    },
)  # fmt: skip
