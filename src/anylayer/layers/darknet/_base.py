"""What all sections of Darknet share: options as fields, weights in the file's order, activations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, Node, need
from anylayer.network import Flag

EPSILON = 1e-6
"""What OpenCV adds to the variance. pjreddie's Darknet adds it to the root, and AlexeyAB's fork adds 1e-5."""
_TRAINING = (
    r"clip|onlyforward|dont_update|burnin_update|stopbackward|train_only_bn|learning_rate|smooth|truth|"
    r"nobackward|stream|wait_stream"
)
"""Options of every section on which only training or the order of computation depends, as a pattern."""
_NEUTRAL = {"dontload": 0, "dontloadscales": 0, "dontsave": 0, "numload": 0}
_one = np.float32(1)


class DarknetLayer(Layer):
    """A section of a Darknet network, whose options are fields."""

    message = "options"
    prefix: ClassVar[str] = ""
    """OpenCV's name of such a section, followed by the section's number; "" for the type."""
    single: ClassVar[str] = ""
    """OpenCV's whole name of such a section, for a type of which a network has one."""
    reads_image: ClassVar[bool] = False
    """Whether the network's input is the last input of the section."""
    sources: ClassVar[tuple[str, ...]] = ()
    """The options that name earlier sections as inputs; the section must have them."""
    ignored: ClassVar[str] = ""
    """Further options on which only training depends, as a pattern."""
    neutral: ClassVar[dict[str, int]] = {}
    """Options that are not supported, with the value at which they have no effect."""
    transposes: ClassVar[bool] = False
    """Whether old weights files hold the matrices of the section transposed."""

    @classmethod
    def fits(cls, values: Mapping[str, object], inputs: int, outputs: int) -> bool:
        return super().fits({name: v for name, v in values.items() if cls.is_read(name)}, inputs, outputs)

    @classmethod
    def is_read(cls, name: str) -> bool:
        """Return whether an option is a field, or unknown."""
        is_ignored = name in {**_NEUTRAL, **cls.neutral} or re.fullmatch(f"{_TRAINING}|{cls.ignored}", name)
        return name in cls.fields or not is_ignored

    def prepare(self, node: Node, dialect: str | None) -> None:
        neutral = {**_NEUTRAL, **self.neutral}
        options = node.params.get("options", {})
        for name, value in options.items():
            need(not isinstance(value, Flag), f"{name} must be a number, got {value}, which Darknet reads as 0")
            needed = neutral.get(name, value)
            need(value == needed, f"{name}={value} is not supported, only {name}={needed}")
        options = {name: value for name, value in options.items() if self.is_read(name)}
        super().prepare(replace(node, params={"options": options}), dialect)

    def statistics(self, first: int, count: int) -> tuple[Array, Array, Array]:
        """Return the scales, means and variances, which begin at weight `first`, each of `count` numbers."""
        names = ("scale factors", "means", "variances")
        scale, mean, variance = (self.blob(first + i, (count,), what=name) for i, name in enumerate(names))
        return scale, mean, variance


def _gelu(x: Array) -> Array:
    inner = np.float32(0.797885) * x + np.float32(0.035677) * x * x * x
    return np.float32(0.5) * x * (_one + np.tanh(inner))


def _stair(x: Array) -> Array:
    half, whole = np.floor(x * np.float32(0.5)), np.floor(x)
    return np.where(whole == half * np.float32(2), half, x - whole + half)


def _shares(x: Array, values: Array) -> Array:
    """Return values (N, C, ...), divided by their sum over the channels plus 1e-4."""
    return values / (values.sum(axis=1, keepdims=True) + np.float32(1e-4))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda x: x,
    "logistic": lambda x: ops.sigmoid(x),
    "loggy": lambda x: np.float32(2) * ops.sigmoid(x) - _one,
    "relu": lambda x: ops.relu(x),
    "relu6": lambda x: np.clip(x, np.float32(0), np.float32(6)),
    "elu": lambda x: ops.elu(x, alpha=1.0),
    "selu": lambda x: np.float32(1.0507) * ops.elu(x, alpha=1.6732),
    "gelu": _gelu,
    "relie": lambda x: ops.leaky_relu(x, alpha=0.01),
    "ramp": lambda x: ops.relu(x) + np.float32(0.1) * x,
    "leaky": lambda x: ops.leaky_relu(x, alpha=0.1),
    "revleaky": lambda x: ops.leaky_relu(x, alpha=0.1),
    "tanh": lambda x: np.tanh(x),
    "plse": lambda x: np.where(
        x < -4,
        np.float32(0.01) * (x + np.float32(4)),
        np.where(x > 4, np.float32(0.01) * (x - np.float32(4)) + _one, np.float32(0.125) * x + np.float32(0.5)),
    ),
    "stair": _stair,
    "hardtan": lambda x: np.clip(x, -_one, _one),
    "lhtan": lambda x: np.where(
        x < 0, np.float32(0.001) * x, np.where(x > 1, np.float32(0.001) * (x - _one) + _one, x)
    ),
    "swish": lambda x: x * ops.sigmoid(x),
    "mish": lambda x: x * np.tanh(ops.softplus(x)),
    "hard_mish": lambda x: np.where(x > 0, x, np.where(x > -2, x * x * np.float32(0.5) + x, np.float32(0))),
    "normalize_channels": lambda x: _shares(x, ops.relu(x)),
    "normalize_channels_softmax": lambda x: _shares(x, np.exp(x)),
    "normalize_channels_softmax_maxval": lambda x: _shares(x, np.exp(x - x.max(axis=1, keepdims=True))),
}
"""The functions of `activation`. Source: AlexeyAB/darknet src/activations.h and activations.c."""
ACTIVATION = Enum(*ACTIVATIONS)
