"""PSROIPooling (R-FCN)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer.layer import Layer, field, layer, need, samples
from anylayer.layers.caffe.roi_pooling import regions
from anylayer.network import Array


@layer("PSROIPooling")
class PSROIPooling(Layer):
    """Compute the mean of each bin of each region, each bin from channels of its own (R-FCN, arXiv 1605.06409).

    x (N, output_dim * g * g, H, W) and regions [image, x1, y1, x2, y2] (R, 5) to (R, output_dim, g, g) with g =
    group_size. Bin (i, j) of channel c comes from channel (c * g + i) * g + j. The corners of a region are
    rounded, halves away from zero, *before* they are scaled, the end plus 1. Bins may overlap; bins without cells
    give 0.
    Source: openvinotoolkit/training_toolbox_caffe src/caffe/layers/psroi_pooling_layer.cpp.
    """

    message = "psroi_pooling_param"
    samples: ClassVar = {1: samples.regions}
    numbers: ClassVar = {
        "sophgo": 153,
        "ascend": 207,
        "intel": 153,
        "model-optimizer": 207,
        "ncnn": 149,
        "opencv": 10002,
    }
    spatial_scale: float = field(1, "float", doc="cells of the map per pixel")
    output_dim: int = field(2, "int32", doc="channels of the output")
    group_size: int = field(3, "int32", doc="bins per row and per column")

    def setup(self) -> None:
        for name in ("output_dim", "group_size"):
            need(getattr(self, name) > 0, f"{name} must be at least 1, got {getattr(self, name)}")

    def forward(self, x: Array, rois: Array) -> Any:
        rois = regions(x, rois)
        (n, channels, h, w), c, g = x.shape, self.output_dim, self.group_size
        need(
            channels == c * g * g,
            f"output_dim={c} with group_size={g} needs {c * g * g} channels, got {channels}",
        )
        start = _round(rois[:, 1:3]) * np.float32(self.spatial_scale)
        end = (_round(rois[:, 3:5]) + np.float32(1)) * np.float32(self.spatial_scale)
        in_columns = self.cells(start[:, 0], end[:, 0], w)  # (g, W, R)
        in_rows = self.cells(start[:, 1], end[:, 1], h)
        image = np.trunc(rois[:, 0])
        maps = x.reshape(n, c, g, g, h, w).transpose(0, 2, 3, 1, 4, 5).reshape(n, g, g, c * h, w)
        count = rois.shape[0]
        lines = (maps @ in_columns).reshape(n, g, g, c, h, count)
        sums = (lines * in_rows[:, None, None]).sum(axis=4)
        in_image = (image == np.arange(n, dtype=np.float32)[:, None]).astype(np.float32)
        total = (sums * in_image[:, None, None, None]).sum(axis=0)
        area = in_rows.sum(axis=1)[:, None] * in_columns.sum(axis=1)  # (g, g, R)
        mean = total / np.maximum(area, np.float32(1))[:, :, None]
        return mean.transpose(3, 2, 0, 1)

    def cells(self, start: Array, end: Array, size: int) -> Any:
        """Return (g, size, R): 1 for each row or column of the map that lies in a bin, else 0."""
        g = self.group_size
        width = np.maximum(end - start, np.float32(0.1)) / np.float32(g)
        bins = np.arange(g + 1, dtype=np.float32)[:, None]
        first = np.floor(bins[:-1] * width + start)[:, None]
        last = np.ceil(bins[1:] * width + start)[:, None]
        at = np.arange(size, dtype=np.float32)[:, None]
        return ((at >= first) & (at < last)).astype(np.float32)


def _round(x: Array) -> Any:
    """Return the nearest integer, with halves rounded away from zero (round of C)."""
    whole = np.floor(np.abs(x))
    return np.sign(x) * (whole + (np.abs(x) - whole >= np.float32(0.5)).astype(np.float32))
