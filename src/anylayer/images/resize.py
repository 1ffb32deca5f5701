"""cv2.resize with INTER_LINEAR, to the last bit, in NumPy.

For uint8 it is OpenCV's fixed-point arithmetic with 11 bits for the weights (modules/imgproc/src/resize.cpp: the
vertical pass drops 4 bits of the sums before it multiplies), and it can be traced. For other dtypes it is its own
float32 arithmetic, and integers of 16 bits are rounded; where OpenCV uses Intel's IPP in place of it (its x86
packages), IPP's results differ by 1e-5, or by one where they are rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anylayer.graph.symbolic import Size
from anylayer.network import Array
from anylayer.ops._interpolation import positions

_BITS = 11
"""The precision of OpenCV's fixed-point resize of 8-bit images: weights are multiples of 1 / 2048."""


def resize(image: Array, size: tuple[int, int], factor: float | None = None) -> Array:
    """Return an image (..., H, W, C) resized to `size` (height, width): half-pixel centers, no antialiasing.

    `factor` is the exact scale if `size` is rounded (cv::resize called with fx and fy).
    """
    if image.dtype != np.uint8:
        return _resized_numbers(image, size, factor)
    height, width = image.shape[-3:-1]
    y, b0, b1 = _taps(height, size[0], factor)
    x, a0, a1 = _taps(width, size[1], factor)
    inside = (x >= 0) & (x < width - 1)
    a0, a1 = (np.where(inside, w, np.int32(v))[:, None] for w, v in ((a0, 1 << _BITS), (a1, 0)))
    b0, b1 = b0[:, None, None], b1[:, None, None]
    left = np.clip(x, 0, width - 1)
    right = np.minimum(left + 1, width - 1)
    top, bottom = np.clip(y, 0, height - 1), np.clip(y + 1, 0, height - 1)

    def rows(numbers: Array) -> Array:
        source = image[..., numbers, :, :].astype(np.int32)
        return (source[..., left, :] * a0 + source[..., right, :] * a1) >> 4

    if isinstance(height, Size):  # how many rows are used depends on the size
        upper, lower = rows(top), rows(bottom)
    else:
        used, where = np.unique(np.stack([top, bottom]), return_inverse=True)
        once, both = rows(used), where.reshape(2, -1)
        upper, lower = once[..., both[0], :, :], once[..., both[1], :, :]
    return ((_weigh(b0, upper) + _weigh(b1, lower) + 2) >> 2).astype(np.uint8)


def _resized_numbers(image: Array, size: tuple[int, int], factor: float | None) -> Array:
    """Resize an image of another dtype than uint8 in float32."""
    height, width = image.shape[:2]
    steps = _step(height, size[0], factor), _step(width, size[1], factor)
    if steps == (2, 2):
        return _halve(image, size)
    (rows, at_y), (columns, at_x) = (_positions(target, step) for target, step in zip(size, steps))
    at_x[(columns < 0) | (columns >= width - 1)] = 0  # OpenCV moves these taps of columns, but no taps of rows
    left = np.clip(columns, 0, width - 1)
    right = np.minimum(left + 1, width - 1)
    one, pixels = np.float32(1), image.astype(np.float32, copy=False)
    at_x, at_y = at_x[:, None], at_y[:, None, None]
    lines = [
        pixels[r][:, left] * (one - at_x) + pixels[r][:, right] * at_x
        for r in (np.clip(rows, 0, height - 1), np.clip(rows + 1, 0, height - 1))
    ]
    blended: Array = lines[0] * (one - at_y) + lines[1] * at_y
    return blended if image.dtype == np.float32 else np.rint(blended).astype(image.dtype)


def _halve(image: Array, size: tuple[int, int]) -> Array:
    """Return the means of 2 x 2 pixels, which OpenCV computes where both sizes are halved.

    At the end of an odd number of pixels, one pixel counts twice.
    """
    height, width = image.shape[:2]
    (top, bottom), (left, right) = _pairs(height, size[0]), _pairs(width, size[1])
    whole = image.dtype.kind in "ui"
    pixels = image.astype(np.int32) if whole else image
    sums = pixels[top][:, left] + pixels[top][:, right] + pixels[bottom][:, left] + pixels[bottom][:, right]
    return ((sums + 2) >> 2).astype(image.dtype) if whole else sums * np.float32(0.25)


def _pairs(count: int, size: int) -> list[NDArray[np.intp]]:
    """Return the positions of the two pixels of each target pixel."""
    return [np.minimum(np.arange(size) * 2 + i, count - 1) for i in (0, 1)]


def _weigh(weight: Array, line: Array) -> Any:
    """Return (weight * line) >> 16 without numbers beyond 24 bits, which OpenVINO would round."""
    high = line >> 8
    return (weight * high + ((weight * (line - (high << 8))) >> 8)) >> 8


def _taps(source: int, target: int, factor: float | None) -> tuple[Array, Array, Array]:
    """Return, for each target pixel, the index of the first of two source pixels, and their integer weights."""
    if isinstance(source, Size) and factor is None:
        return _integer_taps(source, target)
    first, second = _positions(target, _step(source, target, factor))
    return first, _to_fixed_point(np.float32(1) - second), _to_fixed_point(second)


def _step(source: int, target: int, factor: float | None) -> float:
    """Return the distance between target pixels, in pixels of the source."""
    return 1.0 / (factor if factor is not None else target / source)


def _positions(target: int, step: float) -> tuple[Array, Array]:
    """Return the index of the first of two source pixels of each target pixel, and the weight of the second."""
    position = positions(0, target, "half_pixel", step=np.float64(step)).astype(np.float32)
    first = np.floor(position)
    return first.astype(np.int64), position - first


def _to_fixed_point(weight: Array) -> Array:
    return np.rint(weight * np.float32(1 << _BITS)).astype(np.int32)


def _integer_taps(source: int, target: int) -> tuple[Array, Array, Array]:
    """Return what `_taps` returns, computed with integers of 32 bits, which every engine computes exactly.

    OpenCV rounds a position to float32, which has 24 bits: the larger the position, the fewer bits its fraction
    has. So the fraction is rounded twice, to even: to these bits, and to the bits of the weights. Equal to `_taps`
    for images of at most 16384 pixels that become at most 1024, and 8192 that become fewer than 2048. Above,
    float64 rounds a few ties differently.
    """
    whole = 2 * target
    sizes = np.full(target, source)
    first, rest = _divide(sizes * (2 * np.arange(target) + 1) + target, whole)  # the position plus 1
    first = first - 1
    exponent = (first[:, None] >= 2 ** np.arange(1, 24)).astype(np.int64).sum(1)
    bits = 23 - np.arange(24)
    coarse, fine, unused = (
        np.take(2 ** np.clip(n, 0, None), exponent) for n in (np.minimum(bits, _BITS), bits - _BITS, _BITS - bits)
    )
    high, rest = _divide(rest * coarse, whole)  # in two steps, because of the 32 bits
    low, rest = _divide(rest * fine, whole)
    fraction, rest = _divide(_to_even(high * fine + low, rest, whole), fine)
    weight = (_to_even(fraction, rest, fine) * unused).astype(np.int32)
    return first, (1 << _BITS) - weight, weight


def _divide(number: Array, by: Any) -> tuple[Array, Array]:
    """Return the quotient and the rest of a division, also where an engine divides integers in float32."""
    quotient = number // by
    rest = number - quotient * by
    quotient = quotient + (rest >= by) - (rest < 0)
    return quotient, number - quotient * by


def _to_even(quotient: Array, rest: Array, by: Any) -> Array:
    """Return the quotient rounded by the rest of the division; the half to even."""
    is_odd = quotient - quotient // 2 * 2
    return quotient + (2 * rest + is_odd > by)
