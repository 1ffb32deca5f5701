"""ROIPooling (Fast R-CNN)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need, samples
from anylayer.network import Array


@layer("ROIPooling")
class ROIPooling(Layer):
    """Compute the maximum of each bin of each region (Fast R-CNN, arXiv 1504.08083).

    x (N, C, H, W) and regions [image, x1, y1, x2, y2] (R, 5) in pixels to (R, C, pooled_h, pooled_w). The corners
    of a region, times spatial_scale, are rounded, halves away from zero, and both belong to the region, which is
    at least 1 x 1. Bins without cells give 0.
    Source: rbgirshick/caffe-fast-rcnn src/caffe/layers/roi_pooling_layer.cpp.
    """

    message = "roi_pooling_param"
    samples: ClassVar = {1: samples.regions}
    numbers: ClassVar = {"": 8266711, "ascend": 161, "intel": 154, "model-optimizer": 208}
    pooled_h: int = field(1, "uint32", 0, doc="number of rows of bins; at least 1")
    pooled_w: int = field(2, "uint32", 0, doc="number of columns of bins; at least 1")
    spatial_scale: float = field(3, "float", 1.0, doc="cells of the map per pixel", dialects={"ascend": 0.0625})
    spatial_scale_h: float = field(4, "float", 0.0, doc="Ascend: in place of spatial_scale for rows")
    spatial_scale_w: float = field(5, "float", 0.0, doc="Ascend: in place of spatial_scale for columns")

    def setup(self) -> None:
        need_bins(self.pooled_h, self.pooled_w)
        both = self.has("spatial_scale_h") and self.has("spatial_scale_w")
        need(
            both or not (self.has("spatial_scale_h") or self.has("spatial_scale_w")),
            "spatial_scale_h and spatial_scale_w must be given together",
        )
        if both:
            scales = (self.spatial_scale_h, self.spatial_scale_w)
            need(
                not self.has("spatial_scale") or scales == (self.spatial_scale,) * 2,
                f"spatial_scale={self.spatial_scale:g} contradicts spatial_scale_h={scales[0]:g} and "
                f"spatial_scale_w={scales[1]:g}",
            )

    def forward(self, x: Array, rois: Array) -> Array:
        rois = regions(x, rois)
        scale = self.spatial_scale
        if self.has("spatial_scale_h"):
            h, w = self.spatial_scale_h, self.spatial_scale_w
            rois, scale = rois * np.array([1, w, h, w, h], np.float32), 1.0
        return ops.max_roi_pool(x, rois, size=(self.pooled_h, self.pooled_w), spatial_scale=scale)


@layer("ROIPooling", dialects=("mscnn",))
class MsCnnROIPooling(Layer):
    """Compute the maximum of each bin of each region, enlarged by `pad_ratio` at each border (MS-CNN).

    x (N, C, H, W) and regions [image, x1, y1, x2, y2] (R, 5) in pixels to (R, C, pooled_h, pooled_w).
    Source: zhaoweicai/mscnn src/caffe/layers/roi_pooling_layer.cpp.
    """

    message = "roi_pooling_param"
    samples: ClassVar = {1: samples.regions}
    numbers: ClassVar = {"mscnn": 147}
    pooled_h: int = field(1, "uint32", 0, doc="number of rows of bins; at least 1")
    pooled_w: int = field(2, "uint32", 0, doc="number of columns of bins; at least 1")
    spatial_scale: float = field(3, "float", 1.0, doc="cells of the map per pixel")
    pad_ratio: float = field(4, "float", 0.0, doc="extension at each border, relative to the side")

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        return "pad_ratio" in values and super().fits(values, inputs, outputs)

    def setup(self) -> None:
        need_bins(self.pooled_h, self.pooled_w)

    def forward(self, x: Array, rois: Array) -> Array:
        rois = regions(x, rois)
        if self.pad_ratio != 0:
            start, end = rois[:, 1:3], rois[:, 3:5]
            more = (end - start + np.float32(1)) * np.float32(self.pad_ratio)
            rois = np.concatenate([rois[:, :1], start - more, end + more], axis=1)
        size = (self.pooled_h, self.pooled_w)
        return ops.max_roi_pool(x, rois, size=size, spatial_scale=self.spatial_scale)


@layer("ROIPooling", dialects=("sophgo",))
class SophgoROIPooling(Layer):
    """Compute the maximum of each bin of each region, for regions (N, 1, R, 5) of a batch of N images (Sophgo).

    x (N, C, H, W) and regions [image, x1, y1, x2, y2] to (N * R, C, pooled_h, pooled_w), as Fast R-CNN's layer.
    For regions of the shapes (R, 5, 1, 1) and (R, 1, 1, 5) it computes the first N only: the others have the
    lowest float everywhere, a fault of this fork.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "roi_pooling_param"
    samples: ClassVar = {1: samples.regions}
    numbers: ClassVar = {"sophgo": 154}
    pooled_h: int = field(1, "uint32", 0, doc="number of rows of bins; at least 1")
    pooled_w: int = field(2, "uint32", 0, doc="number of columns of bins; at least 1")
    spatial_scale: float = field(3, "float", 1.0, doc="cells of the map per pixel")
    pooled_size: int = field(4, "uint32", 0, doc="not supported: its effect is not known")

    needs_dialect = True

    def setup(self) -> None:
        need(not self.has("pooled_size"), "pooled_size is not supported; give pooled_h and pooled_w")
        need_bins(self.pooled_h, self.pooled_w)

    def forward(self, x: Array, rois: Array) -> Any:
        images, shape = x.shape[0], tuple(rois.shape)
        of_batch = len(shape) == 4 and shape[1] == 1 and shape[3] == 5 and shape[0] == images
        need(
            of_batch or (len(shape) == 4 and shape[1:] in ((5, 1, 1), (1, 1, 5)) and shape[0] >= images),
            f"rois must be of shape ({images}, 1, R, 5) in Sophgo's Caffe, got {shape}",
        )
        every = rois.reshape(shape[0] * shape[2], 5)
        count = every.shape[0] if of_batch else images
        size = (self.pooled_h, self.pooled_w)
        y = ops.max_roi_pool(x, regions(x, every)[:count], size=size, spatial_scale=self.spatial_scale)
        if of_batch or shape[0] == images:
            return y
        self.note(
            f"of the {shape[0]} regions {shape} only the first {images} are pooled, a fault of Sophgo's Caffe; "
            f"it takes regions of shape ({images}, 1, R, 5)"
        )
        rest = (shape[0] - images, x.shape[1], *size)
        return np.concatenate([y, np.full(rest, np.finfo(np.float32).min)])


def need_bins(rows: int, columns: int) -> None:
    """Refuse a region without bins."""
    for name, value in (("pooled_h", rows), ("pooled_w", columns)):
        need(value > 0, f"{name} must be at least 1, got {value}")


def regions(x: Array, rois: Array) -> Array:
    """Return `rois` as (R, 5), after a check of its shape and of that of the map `x`."""
    need(len(x.shape) == 4, f"needs an input (N, C, H, W), got shape {tuple(x.shape)}")
    rest = tuple(rois.shape[1:])
    need(
        len(rest) > 0 and all(d in (1, 5) for d in rest) and rest.count(5) == 1,
        f"rois must be of shape (R, 5), got {tuple(rois.shape)}",
    )
    return rois.reshape(rois.shape[0], 5) if len(rest) > 1 else rois
