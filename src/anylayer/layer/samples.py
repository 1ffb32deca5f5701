"""Values such as real data have, for inputs of layers where normal noise means nothing: regions, scores, priors.

A layer names them in `Layer.samples`. A comparison without data draws the network's inputs by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.network import Array, TensorType

Sampler = Callable[[Any, Sequence[TensorType], TensorType, np.random.Generator], Array]
"""A function of a layer with its fields set, the types of its inputs, the type to draw, and random numbers. It
returns an array of this shape, which is cast to the dtype."""


def indicators(layer: Any, inputs: Sequence[TensorType], kind: TensorType, random: np.random.Generator) -> Array:
    """Return values of 0 and 1."""
    return random.integers(0, 2, kind.shape)


def scores(layer: Any, inputs: Sequence[TensorType], kind: TensorType, random: np.random.Generator) -> Array:
    """Return values from 0 to 1, of which some exceed any threshold."""
    return random.random(kind.shape)


def indices(layer: Any, inputs: Sequence[TensorType], kind: TensorType, random: np.random.Generator) -> Array:
    """Return indices of the batch of input 0."""
    return random.integers(0, max(inputs[0].shape[0], 1), kind.shape)


def rows(layer: Any, inputs: Sequence[TensorType], kind: TensorType, random: np.random.Generator) -> Array:
    """Return indices of a table with `input_dim` rows."""
    return random.integers(0, layer.input_dim, kind.shape)


def boxes(layer: Any, inputs: Sequence[TensorType], kind: TensorType, random: np.random.Generator) -> Array:
    """Return boxes [x1, y1, x2, y2] inside the picture of which input 0 is a map of `spatial_scale`."""
    return _boxes(_picture(layer, inputs), kind, random).reshape(kind.shape)


def regions(layer: Any, inputs: Sequence[TensorType], kind: TensorType, random: np.random.Generator) -> Array:
    """Return regions [image, x1, y1, x2, y2] inside the pictures of which input 0 is a map of `spatial_scale`."""
    count = TensorType.of((int(np.prod(kind.shape)) // 5, 4))
    images = random.integers(0, max(inputs[0].shape[0], 1), (count.shape[0], 1))
    rows = np.concatenate([images, _boxes(_picture(layer, inputs), count, random)], axis=1)
    return rows.reshape(kind.shape)


def picture(layer: Any, inputs: Sequence[TensorType], kind: TensorType, random: np.random.Generator) -> Array:
    """Return the height, width and scale of the picture of which input 0 is a map with `feat_stride`."""
    height, width = (d * layer.feat_stride for d in inputs[0].shape[2:4])
    head = [height, width, *[1] * (kind.shape[-1] - 2)]
    return np.broadcast_to(np.array(head), kind.shape)


def priors(layer: Any, inputs: Sequence[TensorType], kind: TensorType, random: np.random.Generator) -> Array:
    """Return the boxes of priors, in the unit square, and their variances."""
    result = np.full(kind.shape, 0.1)
    result[:, :1] = (
        _boxes((1, 1), kind, random, whole=False).reshape(-1)[: result[:, :1].size].reshape(result[:, :1].shape)
    )
    return result


def _picture(layer: Any, inputs: Sequence[TensorType]) -> tuple[float, float]:
    """Return the width and height of the picture in pixels."""
    each = getattr(layer, "spatial_scale", 1.0)
    scales = [getattr(layer, f"spatial_scale_{side}", 0.0) or each for side in "wh"]
    width, height = (size / (scale or 1.0) for size, scale in zip(inputs[0].shape[:1:-1], scales))
    return width, height


def _boxes(
    sizes: tuple[float, float], kind: TensorType, random: np.random.Generator, *, whole: bool = True
) -> Array:
    """Return boxes [x1, y1, x2, y2] (R, 4). whole: whether the corners are pixels, as those of data sets are."""
    count = int(np.prod(kind.shape)) // 4
    corners = np.sort(random.random((count, 2, 2)), axis=1) * np.array(sizes)
    rounded: Array = np.floor(corners) if whole else corners
    return rounded.reshape(count, 4)
