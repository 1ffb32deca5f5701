"""Resizing with half-pixel centers as tf.image.resize, by interpolation or by averages.

Source: tensorflow/core/kernels/image: resize_bilinear_op.cc, resize_nearest_neighbor_op.cc, resize_bicubic_op.cc,
scale_and_translate_op.cc, sampling_kernels.h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anylayer import ops
from anylayer.layer.arguments import same_shape
from anylayer.network import Array
from anylayer.ops._interpolation import positions

_TABLE = 1 << 10
"""The number of steps per cell for which TensorFlow tabulates bicubic weights."""
METHODS = ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic", "area")


def resample(x: Array, sizes: tuple[int, int], method: str, antialias: bool) -> Array:
    """Return `x` (N, C, H, W), resized to sizes = (height, width)."""
    if same_shape(x.shape[2:], sizes):
        return x
    if method == "nearest":
        coordinates = "tf_half_pixel_for_nn"
        return ops.resize(x, sizes, mode="nearest", coordinates=coordinates, nearest="floor", by_step=True)
    if method == "bilinear" and not antialias:
        return ops.resize(x, sizes, mode="linear", coordinates="half_pixel", by_step=True)
    if method == "bicubic" and not antialias:
        return ops.resize(x, sizes, mode="cubic", cubic_a=-0.5, exclude_outside=True, by_step=True, table=_TABLE)
    rows, columns = (_weights(x.shape[axis], size, method, antialias) for axis, size in zip((2, 3), sizes))
    return rows @ (x @ columns.T)


def _weights(size: int, samples: int, method: str, antialias: bool) -> Array:
    """Return the interpolation matrix (samples, size) of an axis."""
    if method == "area":
        return _areas(size, samples)
    kernel, radius = _KERNELS[method]
    scale = size / samples
    spread = max(scale, 1.0) if antialias else 1.0
    centres = positions(size, samples, "tf_half_pixel_for_nn", step=np.float64(scale))
    cells = np.arange(size) + 0.5
    away = (cells[None, :] - centres[:, None]) / spread
    weights = np.where(np.abs(away) <= radius, kernel(np.abs(away)), 0.0)
    total = weights.sum(axis=1, keepdims=True)
    return np.where(total != 0, weights / np.where(total == 0, 1, total), 0).astype(np.float32)


def _areas(size: int, samples: int) -> Array:
    edges = np.arange(samples + 1) * (size / samples)
    cells = np.arange(size)
    low = np.maximum(edges[:-1, None], cells[None, :])
    high = np.minimum(edges[1:, None], cells[None, :] + 1)
    weights = np.maximum(high - low, 0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def _keys(x: Array) -> Array:
    near, far = ((1.5 * x - 2.5) * x) * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.asarray(np.where(x >= 2, 0, np.where(x >= 1, far, near)))


def _mitchell(x: Array) -> Array:
    far = (((-7 / 18) * x + 2) * x - 10 / 3) * x + 16 / 9
    near = (((7 / 6) * x - 2) * x) * x + 8 / 9
    return np.asarray(np.where(x >= 2, 0, np.where(x >= 1, far, near)))


def _lanczos(radius: float) -> Callable[[Array], Array]:
    return lambda x: np.where(x <= radius, np.sinc(x) * np.sinc(x / radius), 0)


_KERNELS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "bilinear": (lambda x: np.maximum(1 - x, 0), 1.0),
    "bicubic": (_keys, 2.0),
    "lanczos3": (_lanczos(3.0), 3.0),
    "lanczos5": (_lanczos(5.0), 5.0),
    "gaussian": (lambda x: np.exp(-(x**2) / (2 * 0.5**2)), 1.5),
    "mitchellcubic": (_mitchell, 2.0),
}
