"""cv2.resize with INTER_LINEAR, to the last bit, in NumPy.

For uint8 it is OpenCV's fixed-point arithmetic with 11 bits for the weights (modules/imgproc/src/resize.cpp, the
vertical pass drops 4 bits of the sums before it multiplies). For other dtypes it is OpenCV's own float32
arithmetic, and integers of 16 bits are rounded; where OpenCV uses Intel's IPP in place of it (its x86 packages),
IPP's results differ by 1e-5, or by one where they are rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anylayer.network import Array

_ONE = 2048
"""1 as a fixed-point weight."""

Size = tuple[int, int]
Taps = tuple[NDArray[np.intp], NDArray[np.float32]]


def resize(image: Array, size: Size, factors: tuple[float, float] | None = None) -> Array:
    """Return an image (H, W, C) resized to `size`, which is (width, height).

    factors: how much the width and the height grow, where they are not those of the sizes.
    """
    height, width = image.shape[:2]
    grow_x, grow_y = factors or (size[0] / width, size[1] / height)
    step_x, step_y = 1 / grow_x, 1 / grow_y
    if step_x == step_y == 2:
        return _halved(image, size)
    columns, at_x = _taps(size[0], step_x)
    rows, at_y = _taps(size[1], step_y)
    outside = (columns < 0) | (columns >= width - 1)  # OpenCV moves these taps of columns, but no taps of rows
    at_x[outside] = 0
    left = np.clip(columns, 0, width - 1)
    right = np.minimum(left + 1, width - 1)
    above, below = np.clip(rows, 0, height - 1), np.clip(rows + 1, 0, height - 1)
    if image.dtype == np.uint8:
        return _fixed(image, (left, right), at_x[:, None], (above, below), at_y[:, None, None])
    one, pixels = np.float32(1), image.astype(np.float32, copy=False)
    at_x, at_y = at_x[:, None], at_y[:, None, None]
    lines = [pixels[r][:, left] * (one - at_x) + pixels[r][:, right] * at_x for r in (above, below)]
    found = np.asarray(lines[0] * (one - at_y) + lines[1] * at_y)
    return found if image.dtype == np.float32 else np.rint(found).astype(image.dtype)


def _taps(wanted: int, step: float) -> Taps:
    """Return the first of the two source positions of each target position, and the weight of the second."""
    centers = ((np.arange(wanted) + 0.5) * step - 0.5).astype(np.float32)
    first = np.floor(centers)
    return first.astype(np.intp), centers - first


def _fixed(image: Array, columns: Any, at_x: Array, rows: Any, at_y: Array) -> Array:
    """Interpolate uint8 with weights of 11 bits."""
    (x0, x1), (y0, y1) = [[np.rint(w * _ONE).astype(np.int32) for w in (1 - at, at)] for at in (at_x, at_y)]
    pixels = [image[r].astype(np.int32) for r in rows]
    above, below = [p[:, columns[0]] * x0 + p[:, columns[1]] * x1 for p in pixels]
    sums = ((y0 * (above >> 4)) >> 16) + ((y1 * (below >> 4)) >> 16)
    return np.asarray((sums + 2) >> 2, np.uint8)


def _halved(image: Array, size: Size) -> Array:
    """Return the means of 2 x 2 pixels, which OpenCV computes where both sizes are halved.

    At the end of an odd number of pixels, one pixel counts twice.
    """
    height, width = image.shape[:2]
    (top, bottom), (left, right) = _pairs(height, size[1]), _pairs(width, size[0])
    whole = image.dtype.kind in "ui"
    pixels = image.astype(np.int32) if whole else image
    sums = pixels[top][:, left] + pixels[top][:, right] + pixels[bottom][:, left] + pixels[bottom][:, right]
    return np.asarray(((sums + 2) >> 2).astype(image.dtype) if whole else sums * np.float32(0.25))


def _pairs(count: int, wanted: int) -> list[NDArray[np.intp]]:
    """Return the positions of the two pixels of each target pixel."""
    return [np.minimum(np.arange(wanted) * 2 + i, count - 1) for i in (0, 1)]
