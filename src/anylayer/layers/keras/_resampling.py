"""Resizing with half-pixel centers as tf.image.resize, by interpolation or by averages.

Source: tensorflow/core/kernels/image: resize_bilinear_op.cc, resize_nearest_neighbor_op.cc, resize_bicubic_op.cc,
scale_and_translate_op.cc, sampling_kernels.h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.graph.symbolic import same_shape
from anylayer.network import Array

METHODS = ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic", "area")


def resample(x: Array, sizes: tuple[int, int], method: str, antialias: bool) -> Any:
    """Return `x` (N, C, H, W), resized to sizes = (height, width)."""
    if same_shape(x.shape[2:], sizes):
        return x
    if method == "nearest":
        return _along_both(x, sizes, lambda y, axis, size: np.take(y, _nearest(y.shape[axis], size), axis=axis))
    if method == "bilinear" and not antialias:
        return ops.resize(x, sizes, mode="linear", coordinates="half_pixel")
    rows, columns = (_weights(x.shape[axis], size, method, antialias) for axis, size in zip((2, 3), sizes))
    return rows @ (x @ columns.T)


def _along_both(x: Array, sizes: tuple[int, int], function: Callable[[Any, int, int], Any]) -> Array:
    for axis, size in zip((2, 3), sizes):
        x = function(x, axis, size)
    return x


def _nearest(size: int, samples: int) -> Array:
    scale = np.float32(size) / np.float32(samples)
    places = np.floor((np.arange(samples, dtype=np.float32) + np.float32(0.5)) * scale)
    last: Array = np.minimum(places.astype(np.int64), size - 1)
    return last


def _weights(size: int, samples: int, method: str, antialias: bool) -> Array:
    """Return the interpolation matrix (samples, size) of an axis."""
    if method == "area":
        return _areas(size, samples)
    if method == "bicubic" and not antialias:
        return _cubic(size, samples)
    kernel, radius = _KERNELS[method]
    scale = size / samples
    spread = max(scale, 1.0) if antialias else 1.0
    centres = (np.arange(samples) + 0.5) * scale
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


def _cubic(size: int, samples: int) -> Array:
    """Return the matrix of Keys' cubic over four cells, at points that TensorFlow rounds to 1/1024 of a cell."""
    scale = np.float32(size) / np.float32(samples)
    places = (np.arange(samples, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    first = np.floor(places)
    part = np.rint((places - first) * 1024) / 1024
    weights = np.zeros((samples, size))
    for tap in (-1, 0, 1, 2):
        cells = first.astype(np.int64) + tap
        inside = (cells >= 0) & (cells < size)
        shares = np.where(inside, _keys(np.abs(tap - part)), 0)
        weights[np.arange(samples), np.clip(cells, 0, size - 1)] += shares
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def _triangle(x: Array) -> Array:
    return np.asarray(np.maximum(1 - x, 0))


def _keys(x: Array) -> Array:
    near, far = ((1.5 * x - 2.5) * x) * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.asarray(np.where(x >= 2, 0, np.where(x >= 1, far, near)))


def _mitchell(x: Array) -> Array:
    far = (((-7 / 18) * x + 2) * x - 10 / 3) * x + 16 / 9
    near = (((7 / 6) * x - 2) * x) * x + 8 / 9
    return np.asarray(np.where(x >= 2, 0, np.where(x >= 1, far, near)))


def _gaussian(x: Array) -> Array:
    return np.asarray(np.exp(-(x**2) / (2 * 0.5**2)))


def _lanczos(radius: float) -> Callable[[Array], Array]:
    return lambda x: np.where(x <= radius, np.sinc(x) * np.sinc(x / radius), 0)


_KERNELS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "bilinear": (_triangle, 1.0),
    "bicubic": (_keys, 2.0),
    "lanczos3": (_lanczos(3.0), 3.0),
    "lanczos5": (_lanczos(5.0), 5.0),
    "gaussian": (_gaussian, 1.5),
    "mitchellcubic": (_mitchell, 2.0),
}
