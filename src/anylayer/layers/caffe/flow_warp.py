"""FlowWarp (FlowNet 2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, Layer, field, layer, need
from anylayer.layers.caffe._resampling import plane_of
from anylayer.network import Array


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
        need(tuple(flow.shape) == shape, f"the flow must be of shape {shape}, got {tuple(flow.shape)}")
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
