"""The functions of keras.activations (keras/src/activations/activations.py), and activation layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, nearest
from anylayer.layer import attribute, need
from anylayer.layers._table import OperatorType, computes, operators, row
from anylayer.layers.keras._base import PassesMask, axes_of, plain_value
from anylayer.network import Array, Function

_one = np.float32(1)
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def relu(x: Array, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Array:
    """Compute x from `threshold` up to `max_value`, and negative_slope * (x - threshold) below the threshold."""
    if threshold:
        below = np.float32(negative_slope) * (x - np.float32(threshold))
        y = np.where(x >= np.float32(threshold), x, below)
    elif negative_slope:
        y = ops.leaky_relu(x, alpha=float(negative_slope))
    elif max_value is not None:
        return np.clip(x, np.float32(0), np.float32(max_value))
    else:
        return ops.relu(x)
    return y if max_value is None else np.minimum(y, np.float32(max_value))


def _glu(x: Array, axis: int = -1) -> Array:
    left, right = np.split(x, 2, axis=axis)
    return left * ops.sigmoid(right)


def _hard_sigmoid(x: Array) -> Array:
    return ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


def _sparse_plus(x: Array) -> Array:
    middle = np.float32(0.25) * (x + _one) * (x + _one)
    return np.where(x <= -1, np.float32(0), np.where(x >= 1, x, middle))


ACTIVATIONS: dict[str, OperatorType] = {
    "linear": computes("x itself", lambda x: x),
    "relu": row("Compute x from a threshold up to max_value, with a slope below the threshold.", relu),
    "relu6": computes("min(max(x, 0), 6)", lambda x: np.clip(x, np.float32(0), np.float32(6))),
    "softmax": computes("exp(x), divided by its sum along `axis`", lambda x, axis=-1: ops.softmax(x, axis=axis)),
    "log_softmax": computes("log(softmax(x)) along `axis`", lambda x, axis=-1: ops.log_softmax(x, axis=axis)),
    "elu": computes("x where x > 0, else alpha * (exp(x) - 1)",
        lambda x, alpha=1.0: ops.elu(x, alpha=float(alpha))),
    "selu": computes("1.0507 * x where x > 0, else 1.0507 * 1.67326 * (exp(x) - 1) (arXiv 1706.02515)",
        lambda x: np.float32(_SELU_SCALE) * ops.elu(x, alpha=_SELU_ALPHA)),
    "celu": computes(
        "max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)",
        lambda x, alpha=1.0: (
            np.maximum(x, np.float32(0))
            + np.float32(alpha) * np.expm1(np.minimum(x, np.float32(0)) / np.float32(alpha))
        ),
    ),
    "gelu": computes("x * P(X <= x) for a standard normal X, or its tanh approximation (arXiv 1606.08415)",
        lambda x, approximate=False: ops.gelu(x, approximate="tanh" if approximate else "none")),
    "glu": computes("a * sigmoid(b), where a and b are the halves of x along `axis`", _glu),
    "leaky_relu": computes("x where x > 0, else negative_slope * x",
        lambda x, negative_slope=0.2: ops.leaky_relu(x, alpha=float(negative_slope))),
    "sigmoid": computes("1 / (1 + exp(-x))", lambda x: ops.sigmoid(x)),
    "log_sigmoid": computes("log(sigmoid(x))", lambda x: -ops.softplus(-x)),
    "hard_sigmoid": computes("clip(x + 3, 0, 6) / 6", _hard_sigmoid),
    "hard_silu": computes("x * clip(x + 3, 0, 6) / 6", lambda x: x * _hard_sigmoid(x)),
    "silu": computes("x * sigmoid(x)", lambda x: x * ops.sigmoid(x)),
    "tanh": computes("the hyperbolic tangent of x", lambda x: np.tanh(x)),
    "hard_tanh": computes("clip(x, -1, 1)", lambda x: np.clip(x, -_one, _one)),
    "tanh_shrink": computes("x - tanh(x)", lambda x: x - np.tanh(x)),
    "softplus": computes("log(1 + exp(x))", lambda x: ops.softplus(x)),
    "softsign": computes("x / (1 + |x|)", lambda x: x / (_one + np.abs(x))),
    "soft_shrink": computes("sign(x) * max(|x| - threshold, 0)",
        lambda x, threshold=0.5: np.sign(x) * np.maximum(np.abs(x) - np.float32(threshold), np.float32(0))),
    "hard_shrink": computes("x where |x| > threshold, else 0",
        lambda x, threshold=0.5: np.where(np.abs(x) > np.float32(threshold), x, np.float32(0))),
    "squareplus": computes("(x + sqrt(x * x + b)) / 2",
        lambda x, b=4.0: (x + np.sqrt(x * x + np.float32(b))) / np.float32(2)),
    "mish": computes("x * tanh(log(1 + exp(x))) (arXiv 1908.08681)", lambda x: x * np.tanh(ops.softplus(x))),
    "exponential": computes("e to the power of x", lambda x: np.exp(x)),
    "threshold": computes("x where x > threshold, else default_value",
        lambda x, threshold, default_value: np.where(x > np.float32(threshold), x, np.float32(default_value))),
    "sparse_plus": computes("0 for x <= -1, x for x >= 1, else (x + 1)^2 / 4", _sparse_plus),
    "sparse_sigmoid": computes("clip((x + 1) / 2, 0, 1)",
        lambda x: np.clip(np.float32(0.5) * (x + _one), np.float32(0), _one)),
}  # fmt: skip
"""The functions of keras.activations, by their names."""
for _alias, _name in (("hard_swish", "hard_silu"), ("swish", "silu"), ("exp", "exponential")):
    ACTIVATIONS[_alias] = ACTIVATIONS[_name]
FUNCTIONS: dict[str, Function] = {name: row.function for name, row in ACTIVATIONS.items()}

_LAYERS = {
    "relu": ("relu", ("negative_slope", "max_value", "threshold")),
    "leakyrelu": ("leaky_relu", ("negative_slope",)),
    "elu": ("elu", ("alpha",)),
    "softmax": ("softmax", ("axis",)),
}
"""Layers that a file may give as activations: the function's name, and the fields that are its arguments."""


def activation(spec: Any, dialect: str | None = None) -> Function:
    """Return the function that the field `activation` of a configuration states.

    `spec` is a name, None, or a serialized function or layer. hard_sigmoid differs in the dialect "keras2". Raise
    LayerError for a function of the user's own, whose code is not in the file.
    """
    if spec is None:
        return FUNCTIONS["linear"]
    if isinstance(spec, str):
        return _function_named(spec, dialect)
    if isinstance(spec, Mapping):
        config = spec.get("config")
        if isinstance(config, str):
            return _function_named(config, dialect)
        name = str(spec.get("class_name", "")).lower()
        if isinstance(config, Mapping) and name in _LAYERS:
            function, fields = _LAYERS[name]
            options = {field: config[field] for field in fields if config.get(field) is not None}
            return lambda x: FUNCTIONS[function](x, **options)
        if isinstance(config, Mapping) and name == "activation":
            return activation(config.get("activation"), dialect)
        raise LayerError(f"activation {spec.get('class_name')!r} is Python code, which is not run. {_REMEDY}")
    raise LayerError(f"parameter 'activation' must be a name, got {spec!r}")


_REMEDY = "Save the model with the activation as a layer of its own, and define that layer's class"


def _function_named(name: str, dialect: str | None) -> Function:
    if dialect == "keras2" and name == "hard_sigmoid":
        return lambda x: ops.hard_sigmoid(x, alpha=0.2, beta=0.5)
    if name not in FUNCTIONS:
        raise LayerError(f"there is no activation '{name}' in Keras{nearest(name, FUNCTIONS) or '. ' + _REMEDY}")
    return FUNCTIONS[name]


_activation_of = activation


def _activate(x: Array, mask: Any = None, *, activation: Any, dialect: str | None) -> Array:
    return _activation_of(activation, dialect)(x)


def _real(value: Any) -> float:
    """Return a number of the configuration."""
    value = plain_value(value)
    need(type(value) in (int, float), f"must be a number, got {value!r}")
    return float(value)


def _relu(x: Array, mask: Any = None, *, max_value: Any, negative_slope: Any, threshold: Any) -> Array:
    limit = None if max_value is None else _real(max_value)
    return relu(x, _real(negative_slope or 0.0), limit, _real(threshold or 0.0))


def _leaky_relu(x: Array, mask: Any = None, *, negative_slope: Any, alpha: Any) -> Array:
    slope = next((v for v in (negative_slope, alpha) if v is not None), 0.3)
    return ops.leaky_relu(x, alpha=_real(slope))


def _prelu(x: Array, mask: Any = None, *, shared_axes: Any, blob: Any) -> Array:
    axes = axes_of(shared_axes or [], len(x.shape), "shared_axes")
    need(0 not in axes, "shared_axes must not contain the batch axis 0")
    return ops.prelu(x, blob(0, tuple(1 if i in axes else n for i, n in enumerate(x.shape) if i), what="alpha"))


def _softmax(x: Array, mask: Array | None = None, *, axis: Any) -> Array:
    if mask is not None:
        x = x + (np.float32(1) - mask.astype(np.float32)) * np.float32(-3e38)
    axes = axes_of(axis, len(x.shape))
    if len(axes) == 1:
        return ops.softmax(x, axis=axes[0])
    e = np.exp(x - np.max(x, axis=axes, keepdims=True))
    return e / np.sum(e, axis=axes, keepdims=True)


_SAME = "(N, ...) to the same shape."

operators(
    PassesMask,
    "Source: {}.",
    {
        "Activation": row("Apply the activation function that is given by name.", _activate,
            "keras/src/layers/activations/activation.py", _SAME,
            activation=attribute("any", doc="name of the function, or a serialized function")),
        "ReLU": row("Compute x from a threshold up to max_value, and a linear slope below the threshold.", _relu,
            "keras/src/layers/activations/relu.py",
            f"{_SAME} For x < threshold the output is negative_slope * (x - threshold).",
            max_value=attribute("any", None, doc="largest output; none: no limit"),
            negative_slope=attribute("any", 0.0, doc="slope below the threshold"),
            threshold=attribute("any", 0.0, doc="threshold from which x is passed on")),
        "LeakyReLU": row("Compute x where x > 0, else negative_slope * x.", _leaky_relu,
            "keras/src/layers/activations/leaky_relu.py", _SAME,
            negative_slope=attribute("any", None, doc="slope of the negative part; default 0.3"),
            alpha=attribute("any", None, doc="name of negative_slope in Keras 2")),
        "ELU": row("Compute x where x > 0, else alpha * (exp(x) - 1).",
            lambda x, mask=None, *, alpha: ops.elu(x, alpha=_real(alpha)),
            "keras/src/layers/activations/elu.py", _SAME,
            alpha=attribute("any", 1.0, doc="-alpha is the limit for x towards minus infinity")),
        "ThresholdedReLU": row("Compute x where x > theta, else 0.",
            lambda x, mask=None, *, theta: np.where(x > np.float32(_real(theta)), x, np.float32(0)),
            "keras.layers.ThresholdedReLU of Keras 2; Keras 3 has no such layer", _SAME,
            theta=attribute("any", 1.0, doc="the threshold")),
        "PReLU": row("Compute x where x > 0, else alpha * x with a learned alpha.", _prelu,
            "keras/src/layers/activations/prelu.py",
            f"{_SAME} Weights: alpha, with the shape of an item, in which shared axes have size 1.",
            shared_axes=attribute("any", None, doc="axes along which alpha does not vary, counted from 1")),
        "Softmax": row("Compute exp(x), divided by its sum over `axis`.", _softmax,
            "keras/src/layers/activations/softmax.py", f"{_SAME} Elements where `mask` is false become 0.",
            axis=attribute("any", -1, doc="axis or axes of the sum")),
    },
    __module__=__name__,
)  # fmt: skip
