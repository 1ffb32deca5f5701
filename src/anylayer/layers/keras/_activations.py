"""Keras' activation functions by name: keras/src/activations/activations.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, nearest

Function = Callable[..., Any]

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def relu(x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Any:
    """max(x, 0), from `threshold` on up to `max_value`, below it `negative_slope` * (x - threshold)."""
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


def softmax(x: Any, axis: int = -1) -> Any:
    return ops.softmax(x, axis=axis)


def log_softmax(x: Any, axis: int = -1) -> Any:
    return ops.log_softmax(x, axis=axis)


def elu(x: Any, alpha: float = 1.0) -> Any:
    return ops.elu(x, alpha=float(alpha))


def selu(x: Any) -> Any:
    return np.float32(_SELU_SCALE) * ops.elu(x, alpha=_SELU_ALPHA)


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    return ops.leaky_relu(x, alpha=float(negative_slope))


def gelu(x: Any, approximate: bool = False) -> Any:
    return ops.gelu(x, approximate="tanh" if approximate else "none")


def softsign(x: Any) -> Any:
    return x / (np.float32(1) + np.abs(x))


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6."""
    return ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


def hard_sigmoid_2(x: Any) -> Any:
    """Keras 2's: 0.2 x + 0.5 within 0 and 1."""
    return ops.hard_sigmoid(x, alpha=0.2, beta=0.5)


def silu(x: Any) -> Any:
    return x * ops.sigmoid(x)


def hard_silu(x: Any) -> Any:
    return x * hard_sigmoid(x)


def mish(x: Any) -> Any:
    return x * np.tanh(ops.softplus(x))


def celu(x: Any, alpha: float = 1.0) -> Any:
    a = np.float32(alpha)
    return np.maximum(x, np.float32(0)) + a * np.expm1(np.minimum(x, np.float32(0)) / a)


def glu(x: Any, axis: int = -1) -> Any:
    left, right = np.split(x, 2, axis=axis)
    return left * ops.sigmoid(right)


def squareplus(x: Any, b: float = 4.0) -> Any:
    return (x + np.sqrt(x * x + np.float32(b))) / np.float32(2)


def soft_shrink(x: Any, threshold: float = 0.5) -> Any:
    t = np.float32(threshold)
    return np.sign(x) * np.maximum(np.abs(x) - t, np.float32(0))


def hard_shrink(x: Any, threshold: float = 0.5) -> Any:
    return np.where(np.abs(x) > np.float32(threshold), x, np.float32(0))


def hard_tanh(x: Any) -> Any:
    return np.clip(x, np.float32(-1), np.float32(1))


def tanh_shrink(x: Any) -> Any:
    return x - np.tanh(x)


def threshold(x: Any, threshold: float, default_value: float) -> Any:
    return np.where(x > np.float32(threshold), x, np.float32(default_value))


def sparse_plus(x: Any) -> Any:
    middle = np.float32(0.25) * (x + np.float32(1)) * (x + np.float32(1))
    return np.where(x <= -1, np.float32(0), np.where(x >= 1, x, middle))


def sparse_sigmoid(x: Any) -> Any:
    return np.clip(np.float32(0.5) * (x + np.float32(1)), np.float32(0), np.float32(1))


def log_sigmoid(x: Any) -> Any:
    return -ops.softplus(-x)


def relu6(x: Any) -> Any:
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
"""Layer objects given as activations: the function, and the fields it takes."""


def activation(spec: Any, dialect: str | None = None) -> Function:
    """The function that a configuration's `activation` means: a name, None, or a serialised function or layer.
    In the dialect "keras2" hard_sigmoid is another.

    Raises LayerError for a function of the user's own, whose code is not in the file.
    """
    if spec is None:
        return FUNCTIONS["linear"]
    if isinstance(spec, str):
        return _named(spec, dialect)
    if isinstance(spec, Mapping):
        config = spec.get("config")
        if isinstance(config, str):
            return _named(config, dialect)
        name = str(spec.get("class_name", "")).lower()
        if isinstance(config, Mapping) and name in _LAYERS:
            function, fields = _LAYERS[name]
            given = {field: config[field] for field in fields if config.get(field) is not None}
            return lambda x: function(x, **given)
        if isinstance(config, Mapping) and name == "activation":
            return activation(config.get("activation"), dialect)
        raise LayerError(f"activation {spec.get('class_name')!r} is Python code, which is not run. {_REMEDY}")
    raise LayerError(f"parameter 'activation' must be a name, got {spec!r}")


_REMEDY = "Save the model with the activation as a layer of its own, and define that layer's class"


def _named(name: str, dialect: str | None) -> Function:
    if dialect == "keras2" and name == "hard_sigmoid":
        return hard_sigmoid_2
    if name not in FUNCTIONS:
        raise LayerError(f"there is no activation '{name}' in Keras{nearest(name, FUNCTIONS) or '. ' + _REMEDY}")
    return FUNCTIONS[name]
