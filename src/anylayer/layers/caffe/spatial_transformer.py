"""Layers that sample an image where an input points to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, Message, field, layer, need, need_shape
from anylayer.layers._resampling import need_plane, plane_of
from anylayer.layers.caffe._messages import engine_field

_THETA = ("theta_1_1", "theta_1_2", "theta_1_3", "theta_2_1", "theta_2_2", "theta_2_3")


def transform(x: Array, theta: Array | None, fixed: Sequence[float | None], size: tuple[int, int]) -> Array:
    """Return `x` (N, C, H, W), sampled at `size` points of an affine map t11 t12 t13 t21 t22 t23: (N, C, *size).

    Output pixel (r, c) has the coordinates (g0, g1) = (2 r / rows - 1, 2 c / columns - 1). It is the input at row
    (t11 g0 + t12 g1 + t13 + 1) / 2 * H and column (t21 g0 + t22 g1 + t23 + 1) / 2 * W, with zeros outside. `fixed`
    are the values that the file gives. `theta` (N, ...) holds the others for each image, in their order, or is
    None.
    """
    n, (h, w) = x.shape[0], plane_of(x)
    need_plane(*size)
    constants, pick = _theta(fixed, h, w)
    values: Any = np.broadcast_to(constants, (n, 6))
    free = fixed.count(None)
    if theta is None:
        need(free == 0, f"input 1 is missing: it contains the {free} values of theta that the file does not give")
    elif free:
        shape = tuple(theta.shape)
        count = int(np.prod(shape[1:]))
        need(
            shape[0] == n and count == free,
            f"input 1 must have {free} values for each of {n} images (6 less those given), got shape {shape}",
        )
        values = theta.reshape(n, free) @ pick + constants
    down, across, shift = (values.reshape(n, 2, 3)[:, :, i : i + 1] for i in range(3))
    rows, columns = ((2.0 * np.arange(s) / s - 1).astype(np.float32) for s in size)
    grid = (down * rows)[:, :, :, None] + (across * columns + shift)[:, :, None, :]
    return ops.grid_sample(x, grid.transpose(0, 2, 3, 1), mode="linear", padding="zeros", align_corners=False)


def _theta(fixed: Sequence[float | None], h: int, w: int) -> tuple[Array, Array]:
    """Return the given values and the matrix that brings the free values to their places.

    The values are in the order of grid_sample, columns first, and shifted by the half pixel between its points and
    Caffe's.
    """
    order = [3, 4, 5, 0, 1, 2]
    x1, x2, x3, y1, y2, y3 = (fixed[i] or 0.0 for i in order)
    constants = np.array([x1, x2, x3 + 1 / w, y1, y2, y3 + 1 / h], np.float32)
    free = [i for i in range(6) if fixed[i] is None]
    pick = np.array([[float(i == place) for place in order] for i in free], np.float32).reshape(len(free), 6)
    return constants, pick


class AscendTransform(Message):
    """The fields of Ascend's spatial_transform_param."""

    output_h: int = field(1, "uint32", 0, doc="rows of the output; 0: those of the input")
    output_w: int = field(2, "uint32", 0, doc="columns of the output; 0: those of the input")
    border_value: float = field(3, "float", 0.0, doc="value outside the input")
    affine_transform: tuple[float, ...] = field(
        4, "float", repeated=True, doc="all six values of the map, or none"
    )
    engine: str = engine_field(15)

    @property
    def written(self) -> bool:
        """Return whether the file contains any of the fields."""
        return any(map(self.has, self.fields))

    def apply(self, x: Array, theta: Array | None) -> Array:
        """Return `x`, sampled as the fields state, or as `theta` when they state no map."""
        count = len(self.affine_transform)
        need(count in (0, 6), f"affine_transform must be given 0 or 6 times, got {count}")
        h, w = plane_of(x)
        size, fixed = (self.output_h or h, self.output_w or w), self.affine_transform or [None] * 6
        if not self.border_value:
            return transform(x, theta, fixed, size)
        outside = np.float32(self.border_value)  # samples at the border are interpolated with it
        return transform(x - outside, theta, fixed, size) + outside


@layer("SpatialTransformer")
class SpatialTransformer(Layer):
    """Sample an image at points of an affine map; values that `st_param` does not give come from input 1.

    (N, C, H, W) and theta (N, number of free values) to (N, C, output_H, output_W), by default the size of the
    input. For the map see `transform`: rows come first, corners are not aligned, zeros lie outside, and the
    identity returns the input. A file may contain Ascend's spatial_transform_param instead (see SpatialTransform).
    Source: daerduoCarey/SpatialTransformerLayer src/caffe/layers/st_layer.cu; arXiv 1506.02025.
    """

    message = "st_param"
    numbers = {"": 148, "stn": 148, "model-optimizer": 150, "ascend": 5000}
    also = {"spatial_transform_param": AscendTransform}
    spatial_transform_param: AscendTransform
    transform_type: str = field(1, "string", "affine", doc="affine, the only one")
    sampler_type: str = field(2, "string", "bilinear", doc="bilinear, the only one")
    output_H: int = field(3, "int32", -1, doc="rows of the output; -1: those of the input")
    output_W: int = field(4, "int32", -1, doc="columns of the output; -1: those of the input")
    to_compute_dU: bool = field(5, "bool", True, doc="for training only")
    theta_1_1: float = field(6, "double", 0.0, doc="output row to input row")
    theta_1_2: float = field(7, "double", 0.0, doc="output column to input row")
    theta_1_3: float = field(8, "double", 0.0, doc="added to the input row")
    theta_2_1: float = field(9, "double", 0.0, doc="output row to input column")
    theta_2_2: float = field(10, "double", 0.0, doc="output column to input column")
    theta_2_3: float = field(11, "double", 0.0, doc="added to the input column")

    def setup(self) -> None:
        both = self.spatial_transform_param.written and any(map(self.has, self.fields))
        need(not both, "st_param and spatial_transform_param mean the same: give only one of them")
        need(self.transform_type == "affine", f"transform_type must be 'affine', got {self.transform_type!r}")
        need(self.sampler_type == "bilinear", f"sampler_type must be 'bilinear', got {self.sampler_type!r}")

    def forward(self, x: Array, theta: Array | None = None) -> Array:
        if self.spatial_transform_param.written:
            return self.spatial_transform_param.apply(x, theta)
        h, w = plane_of(x)
        size = (h if self.output_H == -1 else self.output_H, w if self.output_W == -1 else self.output_W)
        fixed = [getattr(self, name) if self.has(name) else None for name in _THETA]
        return transform(x, theta, fixed, size)


@layer("SpatialTransform")
class SpatialTransform(AscendTransform, Layer):
    """Sample an image at points of an affine map, given by `affine_transform` or by input 1.

    (N, C, H, W) and theta (N, 6) to (N, C, output_h, output_w); see `transform` in spatial_transformer.py. Without
    `affine_transform` the second input is required.
    Source: Ascend/parser parser/proto/caffe/caffe.proto; daerduoCarey/SpatialTransformerLayer st_layer.cu
    (values).
    """

    message = "spatial_transform_param"
    numbers = {"": 153, "ascend": 153}

    def forward(self, x: Array, theta: Array | None = None) -> Array:
        return self.apply(x, theta)


@layer("FlowWarp")
class FlowWarp(Layer):
    """Sample an image by bilinear interpolation where a flow points to (FlowNet 2.0, arXiv 1612.01925).

    Image (N, C, H, W) and flow (N, 2, H, W) to (N, C, H, W). Pixel (x, y) of the output is the image at (x + u, y
    + v), where u and v are the channels of the flow. A point outside [0, W) x [0, H) gives `fill_value`; between
    the center of the last cell and the border, the last cell is repeated.
    Source: lmb-freiburg/flownet2 src/caffe/layers/flow_warp_layer.cpp.
    """

    message = "flow_warp_param"
    numbers: ClassVar = {"synopsys": 159}
    fill_value: str = field(1, Enum(ZERO=1, NOT_A_NUMBER=2), "ZERO", doc="values of points outside the image")

    def forward(self, image: Array, flow: Array) -> Array:
        h, w = plane_of(image)
        shape = (image.shape[0], 2, h, w)
        need_shape(flow, shape, "the flow")
        x = flow[:, 0] + np.arange(w, dtype=np.float32)
        y = flow[:, 1] + np.arange(h, dtype=np.float32)[:, None]
        inside = (x >= 0) & (y >= 0) & (x < np.float32(w)) & (y < np.float32(h))
        grid = np.stack([_point(inside, x, w), _point(inside, y, h)], axis=-1)
        sampled = ops.grid_sample(image, grid, mode="linear", padding="border", align_corners=False)
        fill = np.float32(0 if self.fill_value == "ZERO" else np.nan)
        return np.where(inside[:, None], sampled, fill)


def _point(inside: Array, at: Array, size: int) -> Array:
    """Return coordinates of cells `at` in -1..1, as grid_sample counts; points outside, maybe NaN, are cell 0."""
    at = np.where(inside, at, np.float32(0))
    return (at * np.float32(2) + np.float32(1)) / np.float32(size) - np.float32(1)
