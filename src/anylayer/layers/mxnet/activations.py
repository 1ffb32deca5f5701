"""Activations, softmax, losses, casts, and operators that return their input at inference."""

from __future__ import annotations

import math

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layers._table import OperatorType, of_tensorflow, row
from anylayer.layers.mxnet._base import DTYPE, FLAG, operators, training
from anylayer.network import Function

_ACTIVATIONS: dict[str, Function] = {
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "tanh": np.tanh,
    "softsign": lambda x: x / (np.abs(x) + x.dtype.type(1)),
    "softrelu": ops.softplus,
}
_LEAKY = Enum("leaky", "prelu", "elu", "rrelu", "selu", "gelu")
_UNARY = "tensor/elemwise_unary_op_basic.cc"


def _leaky_relu(
    x: Array, gamma: Array | None = None, *, act_type: str, slope: float, lower_bound: float, upper_bound: float
) -> Array:
    need((gamma is not None) == (act_type == "prelu"), "act_type prelu has a second input, and no other has one")
    if gamma is not None:
        need(len(gamma.shape) == 1, f"gamma must have one axis, got shape {tuple(gamma.shape)}")
        return ops.prelu(x, gamma.reshape(-1, *(1,) * (len(x.shape) - 2)))
    others: dict[str, Function] = {
        "elu": lambda x: ops.elu(x, slope), "selu": of_tensorflow("Selu"), "gelu": lambda x: ops.gelu(x),
    }  # fmt: skip
    if act_type in others:
        return others[act_type](x)
    return ops.leaky_relu(x, slope if act_type == "leaky" else (lower_bound + upper_bound) / 2)


def _softmax(what: str, function: Function) -> OperatorType:
    def compute(x: Array, axis: int, temperature: float) -> Array:
        return function(x if temperature == 1 else x / x.dtype.type(temperature), axis=axis)

    return row(f"Compute {what} over an axis, after x is divided by temperature.", compute, "nn/softmax.cc",
        body={"neutral": {"use_length": False, "dtype": None}}, axis=attribute("int32", -1),
        temperature=attribute("double", 1.0))  # fmt: skip


def _softmax_output(x: Array, *, multi_output: bool, preserve_shape: bool) -> Array:
    if multi_output or preserve_shape:
        return ops.softmax(x, axis=1 if multi_output else -1)
    flat = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    return ops.softmax(flat, axis=1).reshape(x.shape)


def _softmax_activation(x: Array, mode: str) -> Array:
    rule = "with mode instance, the input must have 2 axes: with more, MXNet with and without oneDNN differ"
    need(mode == "channel" or len(x.shape) == 2, rule)
    return ops.softmax(x, axis=1)


def _loss(what: str, function: Function, names: str, source: str = "regression_output.cc") -> OperatorType:
    details = "The label, the second input in the file, serves training."
    return row(f"Compute {what}.", function, source, details, {"data_inputs": 1, **training(names)})


operators(
    {
        "Activation": row("Apply the activation act_type to each element.",
            lambda x, act_type: _ACTIVATIONS[act_type](x), "nn/activation.cc",
            act_type=attribute(Enum(*_ACTIVATIONS))),
        "hard_sigmoid": row("Compute alpha * x + beta, clipped to 0..1.", ops.hard_sigmoid, _UNARY,
            alpha=attribute("float", 0.2), beta=attribute("float", 0.5)),
        "LeakyReLU": row("Compute x where x > 0, else slope * x, or another activation act_type.", _leaky_relu,
            "leaky_relu.cc",
            "rrelu has the mean of lower_bound and upper_bound as slope, and prelu one slope per channel, the "
            "second input.", act_type=attribute(_LEAKY, "leaky"), slope=attribute("float", 0.25),
            lower_bound=attribute("float", 0.125), upper_bound=attribute("float", 0.334)),
        "softmax": _softmax("exp(x), divided by its sum", ops.softmax),
        "softmin": _softmax("exp(-x), divided by its sum", lambda x, axis: ops.softmax(-x, axis=axis)),
        "log_softmax": _softmax("the logarithm of the softmax", ops.log_softmax),
        "SoftmaxActivation": row("Compute the softmax over axis 1.", _softmax_activation,
            "nn/softmax_activation.cc", mode=attribute(Enum("instance", "channel"), "instance")),
        "SoftmaxOutput Softmax": row("Compute the softmax over the values of each sample.", _softmax_output,
            "softmax_output.cc",
            "With multi_output it is computed over axis 1, and with preserve_shape over the last axis. The label, "
            "the second input in the file, serves training.",
            {"data_inputs": 1,
             **training("grad_scale ignore_label use_ignore normalization out_grad smooth_alpha")},
            multi_output=FLAG, preserve_shape=FLAG),
        "LinearRegressionOutput MAERegressionOutput": _loss("the input itself", lambda x: x, "grad_scale"),
        "LogisticRegressionOutput": _loss("1 / (1 + exp(-x))", ops.sigmoid, "grad_scale"),
        "SVMOutput": _loss("the input itself", lambda x: x, "margin regularization_coefficient use_linear",
            "svm_output.cc"),
        "BlockGrad stop_gradient _copy identity make_loss MakeLoss _contrib_gradientmultiplier": row(
            "Return the input.", lambda x: x, _UNARY,
            body=training("grad_scale valid_thresh normalization scalar is_int")),
        "IdentityAttachKLSparseReg": row("Return the first input.", lambda x, moving_avg: x,
            "identity_attach_KL_sparse_reg.cc", body=training("sparseness_target penalty momentum")),
        "Dropout": row("Return the input: values are dropped in training only.", lambda x: x, "nn/dropout.cc",
            "", {"neutral": {"mode": "training"}, **training("p axes")}),
        "Cast cast amp_cast": row("Cast the elements to dtype; real numbers are truncated to integers.",
            lambda x, dtype: x.astype(dtype), _UNARY, dtype=DTYPE),
    },
)  # fmt: skip
