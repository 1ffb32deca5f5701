"""The activation functions of Keras by name. Source: keras/src/activations/activations.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, nearest
from anylayer.network import Array

Function = Callable[..., Any]

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


def softmax(x: Array, axis: int = -1) -> Array:
    """Compute exp(x), divided by its sum along `axis`."""
    return ops.softmax(x, axis=axis)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """Compute x minus the logarithm of the sum of exp(x) along `axis`."""
    return ops.log_softmax(x, axis=axis)


def elu(x: Array, alpha: float = 1.0) -> Array:
    """Compute x where x > 0, else alpha * (exp(x) - 1)."""
    return ops.elu(x, alpha=float(alpha))


def selu(x: Array) -> Array:
    """Compute 1.0507 * x where x > 0, else 1.0507 * 1.67326 * (exp(x) - 1) (arXiv 1706.02515)."""
    return np.float32(_SELU_SCALE) * ops.elu(x, alpha=_SELU_ALPHA)


def leaky_relu(x: Array, negative_slope: float = 0.2) -> Array:
    """Compute x where x > 0, else negative_slope * x."""
    return ops.leaky_relu(x, alpha=float(negative_slope))


def gelu(x: Array, approximate: bool = False) -> Array:
    """Compute x * P(X <= x) for a standard normal X, or its tanh approximation (arXiv 1606.08415)."""
    return ops.gelu(x, approximate="tanh" if approximate else "none")


def softsign(x: Array) -> Array:
    """Compute x / (1 + |x|)."""
    return x / (np.float32(1) + np.abs(x))


def hard_sigmoid(x: Array) -> Array:
    """Compute clip(x + 3, 0, 6) / 6."""
    return ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


def hard_sigmoid_2(x: Any) -> Any:
    """Compute clip(0.2 * x + 0.5, 0, 1), the hard_sigmoid of Keras 2."""
    return ops.hard_sigmoid(x, alpha=0.2, beta=0.5)


def silu(x: Array) -> Any:
    """Compute x * sigmoid(x)."""
    return x * ops.sigmoid(x)


def hard_silu(x: Array) -> Array:
    """Compute x * clip(x + 3, 0, 6) / 6."""
    return x * hard_sigmoid(x)


def mish(x: Array) -> Any:
    """Compute x * tanh(log(1 + exp(x))) (arXiv 1908.08681)."""
    return x * np.tanh(ops.softplus(x))


def celu(x: Array, alpha: float = 1.0) -> Array:
    """Compute max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)."""
    a = np.float32(alpha)
    return np.maximum(x, np.float32(0)) + a * np.expm1(np.minimum(x, np.float32(0)) / a)


def glu(x: Array, axis: int = -1) -> Any:
    """Compute a * sigmoid(b), where a and b are the halves of x along `axis`."""
    left, right = np.split(x, 2, axis=axis)
    return left * ops.sigmoid(right)


def squareplus(x: Array, b: float = 4.0) -> Array:
    """Compute (x + sqrt(x * x + b)) / 2."""
    return (x + np.sqrt(x * x + np.float32(b))) / np.float32(2)


def soft_shrink(x: Array, threshold: float = 0.5) -> Array:
    """Compute sign(x) * max(|x| - threshold, 0)."""
    t = np.float32(threshold)
    return np.sign(x) * np.maximum(np.abs(x) - t, np.float32(0))


def hard_shrink(x: Array, threshold: float = 0.5) -> Array:
    """Compute x where |x| > threshold, else 0."""
    return np.where(np.abs(x) > np.float32(threshold), x, np.float32(0))


def hard_tanh(x: Array) -> Array:
    """Compute clip(x, -1, 1)."""
    return np.clip(x, np.float32(-1), np.float32(1))


def tanh_shrink(x: Array) -> Array:
    """Compute x - tanh(x)."""
    return x - np.tanh(x)


def threshold(x: Any, threshold: float, default_value: float) -> Any:
    """Compute x where x > threshold, else default_value."""
    return np.where(x > np.float32(threshold), x, np.float32(default_value))


def sparse_plus(x: Array) -> Array:
    """Compute 0 for x <= -1, x for x >= 1, else (x + 1)^2 / 4."""
    middle = np.float32(0.25) * (x + np.float32(1)) * (x + np.float32(1))
    return np.where(x <= -1, np.float32(0), np.where(x >= 1, x, middle))


def sparse_sigmoid(x: Array) -> Any:
    """Compute clip((x + 1) / 2, 0, 1)."""
    return np.clip(np.float32(0.5) * (x + np.float32(1)), np.float32(0), np.float32(1))


def log_sigmoid(x: Array) -> Array:
    """Compute log(sigmoid(x))."""
    return -ops.softplus(-x)


def relu6(x: Array) -> Array:
    """Compute min(max(x, 0), 6)."""
    return np.clip(x, np.float32(0), np.float32(6))


FUNCTIONS: dict[str, Function] = {
    "linear": lambda x: x,
    "relu": relu,
    "relu6": relu6,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "elu": elu,
    "selu": selu,
    "celu": celu,
    "gelu": gelu,
    "glu": glu,
    "leaky_relu": leaky_relu,
    "sigmoid": lambda x: ops.sigmoid(x),
    "log_sigmoid": log_sigmoid,
    "hard_sigmoid": hard_sigmoid,
    "hard_silu": hard_silu,
    "hard_swish": hard_silu,
    "silu": silu,
    "swish": silu,
    "tanh": np.tanh,
    "hard_tanh": hard_tanh,
    "tanh_shrink": tanh_shrink,
    "softplus": lambda x: ops.softplus(x),
    "softsign": softsign,
    "soft_shrink": soft_shrink,
    "hard_shrink": hard_shrink,
    "squareplus": squareplus,
    "mish": mish,
    "exponential": np.exp,
    "exp": np.exp,
    "threshold": threshold,
    "sparse_plus": sparse_plus,
    "sparse_sigmoid": sparse_sigmoid,
}

_LAYERS = {
    "relu": (relu, ("negative_slope", "max_value", "threshold")),
    "leakyrelu": (leaky_relu, ("negative_slope",)),
    "elu": (elu, ("alpha",)),
    "softmax": (softmax, ("axis",)),
}
"""Layers that a file may give as activations: the function, and the fields that are its arguments."""


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
            return lambda x: function(x, **options)
        if isinstance(config, Mapping) and name == "activation":
            return activation(config.get("activation"), dialect)
        raise LayerError(f"activation {spec.get('class_name')!r} is Python code, which is not run. {_REMEDY}")
    raise LayerError(f"parameter 'activation' must be a name, got {spec!r}")


_REMEDY = "Save the model with the activation as a layer of its own, and define that layer's class"


def _function_named(name: str, dialect: str | None) -> Function:
    if dialect == "keras2" and name == "hard_sigmoid":
        return hard_sigmoid_2
    if name not in FUNCTIONS:
        raise LayerError(f"there is no activation '{name}' in Keras{nearest(name, FUNCTIONS) or '. ' + _REMEDY}")
    return FUNCTIONS[name]
