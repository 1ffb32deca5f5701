"""Resizing and cropping of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import attribute, layer, need
from anylayer.layer.arguments import channels_first, integers, restored
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer
from anylayer.network import Array

_f = np.float32
_MAX_SIDE = 1 << 20  # pixels per axis of an output
_TABLE = 1 << 10
"""Number of steps per cell in which the cubic weights are tabulated (resize_bicubic_op.cc, kTableSize)."""


def plane_size(x: Array, size: Array) -> list[int]:
    """Return the height and width to which images (N, H, W, C) are resized."""
    need(len(x.shape) == 4, f"the input must have 4 axes, got shape {tuple(x.shape)}")
    plane = integers(size, "size")
    need(len(plane) == 2 and min(plane) > 0, f"size must be a height and a width of 1 or more, got {plane}")
    need(
        max(plane) <= _MAX_SIDE,
        f"size asks for {max(plane)} pixels along an axis, at most {_MAX_SIDE} are supported",
    )
    need(min(x.shape[1:3]) > 0, f"an image of shape {tuple(x.shape)} has no pixels")
    return plane


def _resize(
    x: Array, size: Array, align_corners: bool, half_pixel_centers: bool, coordinates: str = "", **rule: Any
) -> Array:
    """Return images (N, H, W, C), resized to `size` by a rule of `ops.resize`. `coordinates` replaces half pixels.

    Source: tensorflow/core/util/image_resizer_state.h.
    """
    need(
        not (align_corners and half_pixel_centers),
        "align_corners and half_pixel_centers exclude each other, but both are given",
    )
    half_pixel = coordinates or "half_pixel" if half_pixel_centers else "asymmetric"
    where = "align_corners" if align_corners else half_pixel
    y = ops.resize(channels_first(x, "NHWC"), plane_size(x, size), coordinates=where, by_step=True, **rule)
    return restored(y, "NHWC")


def _nearest(x: Array, size: Array, align_corners: bool, half_pixel_centers: bool) -> Array:
    nearest = "round_prefer_ceil" if align_corners else "floor"
    flags = align_corners, half_pixel_centers, "tf_half_pixel_for_nn"
    return _resize(x, size, *flags, mode="nearest", nearest=nearest)


def _bicubic(x: Array, size: Array, align_corners: bool, half_pixel_centers: bool) -> Array:
    for old, new in zip(x.shape[1:3], plane_size(x, size)):
        need(
            old * new < 1 << 26,
            f"a resize of {old} cells to {new} needs more weights than the supported {1 << 26}",
        )
    how: Any = {"exclude_outside": half_pixel_centers, "cubic_a": -0.5 if half_pixel_centers else -0.75}
    x = x.astype(np.float32)
    return _resize(x, size, align_corners, half_pixel_centers, mode="cubic", table=_TABLE, **how)


_FLAG = attribute("bool", False)

operators(
    TensorFlowLayer,
    f"{SOURCE}image/{{}}.",
    {
        "ResizeBilinear": row("Resize images by bilinear interpolation.",
            lambda x, size, **flags: _resize(x.astype(np.float32), size, **flags, mode="linear"),
            "resize_bilinear_op.cc",
            "(N, H, W, C) to (N, height, width, C) in float32; `size` = (height, width) is a constant. Row y of "
            "the output lies at y * scale of the input, or at (y + 0.5) * scale - 0.5 with half_pixel_centers. "
            "The scale is old / new, or (old - 1) / (new - 1) with align_corners."),
        "ResizeNearestNeighbor": row("Resize images by nearest-neighbor interpolation.", _nearest,
            "resize_nearest_neighbor_op.cc",
            "(N, H, W, C) to (N, height, width, C); `size` = (height, width) is a constant. Row y of the output "
            "is row floor(y * scale) of the input; with align_corners the nearest row, where halves are rounded "
            "up; with half_pixel_centers row floor((y + 0.5) * scale). Columns likewise."),
        "ResizeBicubic": row("Resize images by bicubic interpolation.", _bicubic, "resize_bicubic_op.cc",
            "(N, H, W, C) to (N, height, width, C) in float32; `size` = (height, width) is a constant. The "
            "weights are those of a cubic with a = -0.75 and repeated edges, tabulated in steps of 1 / 1024. With "
            "half_pixel_centers a = -0.5, and cells outside the image have weight 0."),
    },
    attributes={"align_corners": _FLAG, "half_pixel_centers": _FLAG},
)  # fmt: skip


@layer("CropAndResize")
class CropAndResize(TensorFlowLayer):
    """Crop boxes from images and resize them to crop_size.

    Inputs: images (N, H, W, C); boxes (K, 4) as (y1, x1, y2, x2), where 0 and 1 are the centers of the first and
    the last cell; the index of the image of each box (K,); crop_size = (height, width), a constant. The output (K,
    height, width, C) is float32. Points outside the image give extrapolation_value. method is bilinear or nearest.
    Source: tf.raw_ops.CropAndResize; tensorflow/core/kernels/image/crop_and_resize_op.cc.
    """

    method: str = attribute("string", "bilinear")
    extrapolation_value: float = attribute("float", 0.0)

    def forward(self, x: Array, boxes: Array, which: Array, size: Array) -> Array:
        need(self.method in ("bilinear", "nearest"), f"method must be bilinear or nearest, got '{self.method}'")
        need(
            len(x.shape) == 4 and len(boxes.shape) == 2 and boxes.shape[1] == 4,
            f"expected images (N, H, W, C) and boxes (K, 4), got {tuple(x.shape)} and {tuple(boxes.shape)}",
        )
        plane = integers(size, "crop_size")
        need(len(plane) == 2 and min(plane) > 0, f"crop_size must be a height and a width, got {plane}")
        n, height, width, channels = x.shape
        rows = _points(boxes[:, 0], boxes[:, 2], height, plane[0])
        columns = _points(boxes[:, 1], boxes[:, 3], width, plane[1])
        inside = _within(rows, height)[:, :, None] & _within(columns, width)[:, None, :]
        flat = x.astype(np.float32).reshape(n * height * width, channels)
        start = which.astype(np.int64).reshape(-1, 1, 1) * np.int64(height * width)

        def pixels(row: Array, column: Array) -> Array:
            index = start + _cells(row, height)[:, :, None] * width + _cells(column, width)[:, None, :]
            return ops.gather(flat, index, axis=0)

        if self.method == "nearest":
            samples = pixels(_round_half_up(rows), _round_half_up(columns))
        else:
            top, left = np.floor(rows), np.floor(columns)
            down, right = (rows - top)[:, :, None, None], (columns - left)[:, None, :, None]
            low, high = np.ceil(rows), np.ceil(columns)
            upper = pixels(top, left) + (pixels(top, high) - pixels(top, left)) * right
            lower = pixels(low, left) + (pixels(low, high) - pixels(low, left)) * right
            samples = upper + (lower - upper) * down
        return np.where(inside[:, :, :, None], samples, _f(self.extrapolation_value))


def _points(first: Array, last: Array, old: int, new: int) -> Array:
    """Return the coordinates of the output points of each box along an axis: (boxes, new)."""
    first, last = first.reshape(-1, 1), last.reshape(-1, 1)
    if new == 1:
        return (first + last) * _f(0.5) * _f(old - 1)
    step = (last - first) * _f(old - 1) * (_f(1) / _f(new - 1))
    return first * _f(old - 1) + np.arange(new, dtype=np.float32) * step


def _within(at: Array, old: int) -> Array:
    return (at >= 0) & (at <= old - 1)


def _round_half_up(at: Array) -> Array:
    """Return the nearest integer, with halves rounded up."""
    return np.floor(at + _f(0.5))


def _cells(at: Array, old: int) -> Array:
    return np.clip(at, 0, old - 1).astype(np.int64)
