"""Draw the values of Caffe's fillers (include/caffe/filler.hpp), random ones included."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from anylayer.errors import LayerError, nearest
from anylayer.network import Array, Shape


class Filler(Protocol):
    """The fields of Caffe's FillerParameter."""

    type: str
    min: float
    max: float
    mean: float
    std: float
    sparse: int
    variance_norm: str

    def fill(self, shape: Shape) -> Array | None:
        """Return the values, or None where they are random."""


random = np.random.default_rng()
"""The generator of all random values; set_random_seed replaces its state."""


def set_random_seed(seed: int) -> None:
    """Make the random values of the fillers repeatable. They are not those that Caffe draws for the same seed."""
    random.bit_generator.state = np.random.default_rng(seed).bit_generator.state


def is_random(filler: Any) -> bool:
    """Return whether a filler draws random values."""
    return filler is not None and filler.type in _DRAWN


def draw(filler: Any, shape: Shape) -> Array:
    """Return float32 values of this shape: zeros without a filler. Raises LayerError for an unknown filler."""
    if filler is None:
        return np.zeros(shape, np.float32)
    drawn = _DRAWN.get(filler.type)
    if drawn is not None:
        return np.asarray(drawn(filler, shape), np.float32)
    values = filler.fill(shape)
    if values is None:
        names = ["constant", "bilinear", *_DRAWN]
        raise LayerError(
            f"there is no filler '{filler.type}'{nearest(filler.type, names)}; fillers: {', '.join(names)}"
        )
    return np.array(values, np.float32)


def _gaussian(filler: Filler, shape: Shape) -> Array:
    """Draw normal values. With `sparse`, about that many inputs per output are not zero."""
    values = random.normal(filler.mean, filler.std, shape)
    if filler.sparse >= 0 and len(shape):
        values *= random.random(shape) < filler.sparse / max(shape[0], 1)
    return values


def _xavier(filler: Filler, shape: Shape) -> Array:
    """Draw from -s..s with s = sqrt(3 / n) (Glorot and Bengio 2010)."""
    limit = math.sqrt(3 / _fan(filler, shape))
    return random.uniform(-limit, limit, shape)


def _msra(filler: Filler, shape: Shape) -> Array:
    """Draw normal values of deviation sqrt(2 / n) (He et al., arXiv 1502.01852)."""
    return random.normal(0, math.sqrt(2 / _fan(filler, shape)), shape)


def _unit_ball(filler: Filler, shape: Shape) -> Array:
    """Draw values from 0..1 that sum to 1 for each index of axis 0."""
    values = random.random(shape)
    values /= values.sum(axis=tuple(range(1, len(shape))), keepdims=True)
    return values


def _fan(filler: Filler, shape: Shape) -> float:
    """Return the number of inputs per output, of outputs per input, or their mean, as variance_norm asks for."""
    count = math.prod(shape)
    inputs = count / max(shape[0] if shape else 1, 1)
    outputs = count / max(shape[1] if len(shape) > 1 else 1, 1)
    fan = {"FAN_IN": inputs, "FAN_OUT": outputs, "AVERAGE": (inputs + outputs) / 2}[filler.variance_norm]
    return max(fan, 1.0)


_DRAWN: dict[str, Callable[[Filler, Shape], Array]] = {
    "gaussian": _gaussian,
    "uniform": lambda filler, shape: random.uniform(filler.min, filler.max, shape),
    "xavier": _xavier,
    "msra": _msra,
    "positive_unitball": _unit_ball,
}
