"""Layers that pool regions: ROIPooling, PSROIPooling and ROIAlign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Layer, field, layer, need, samples
from anylayer.layers._regions import mean_of_sensitive_bins
from anylayer.layers._resampling import need_plane, plane_of


class _ROIPooling(Layer):
    """The fields and the computation that the variants share. Regions are (R, 5): image, x1, y1, x2, y2."""

    message = "roi_pooling_param"
    samples: ClassVar = {1: samples.regions}
    pooled_h: int = field(1, "uint32", 0, least=1, doc="number of rows of bins; at least 1")
    pooled_w: int = field(2, "uint32", 0, least=1, doc="number of columns of bins; at least 1")
    spatial_scale: float = field(3, "float", 1.0, doc="cells of the map per pixel")

    def pool(self, x: Array, rois: Array, scale: float) -> Array:
        """Return the maximum of each bin (R, C, pooled_h, pooled_w)."""
        return ops.max_roi_pool(x, rois, size=(self.pooled_h, self.pooled_w), spatial_scale=scale)


@layer("ROIPooling")
class ROIPooling(_ROIPooling):
    """Compute the maximum of each bin of each region (Fast R-CNN, arXiv 1504.08083).

    x (N, C, H, W) and regions [image, x1, y1, x2, y2] (R, 5) in pixels to (R, C, pooled_h, pooled_w). The corners
    of a region, times spatial_scale, are rounded, halves away from zero, and both belong to the region, which is
    at least 1 x 1. Bins without cells give 0.
    Source: rbgirshick/caffe-fast-rcnn src/caffe/layers/roi_pooling_layer.cpp.
    """

    numbers: ClassVar = {"": 8266711, "ascend": 161, "intel": 154, "model-optimizer": 208}
    spatial_scale: float = field(3, "float", 1.0, doc="cells of the map per pixel", dialects={"ascend": 0.0625})
    spatial_scale_h: float = field(4, "float", 0.0, doc="Ascend: in place of spatial_scale for rows")
    spatial_scale_w: float = field(5, "float", 0.0, doc="Ascend: in place of spatial_scale for columns")

    def setup(self) -> None:
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
        return self.pool(x, rois, scale)


@layer("ROIPooling", dialects=("mscnn",))
class MsCnnROIPooling(_ROIPooling):
    """Compute the maximum of each bin of each region, enlarged by `pad_ratio` at each border (MS-CNN).

    x (N, C, H, W) and regions [image, x1, y1, x2, y2] (R, 5) in pixels to (R, C, pooled_h, pooled_w).
    Source: zhaoweicai/mscnn src/caffe/layers/roi_pooling_layer.cpp.
    """

    numbers: ClassVar = {"mscnn": 147}
    distinctive = frozenset({"pad_ratio"})
    pad_ratio: float = field(4, "float", 0.0, doc="extension at each border, relative to the side")

    def forward(self, x: Array, rois: Array) -> Array:
        rois = regions(x, rois)
        if self.pad_ratio != 0:
            start, end = rois[:, 1:3], rois[:, 3:5]
            more = (end - start + np.float32(1)) * np.float32(self.pad_ratio)
            rois = np.concatenate([rois[:, :1], start - more, end + more], axis=1)
        return self.pool(x, rois, self.spatial_scale)


@layer("ROIPooling", dialects=("sophgo",))
class SophgoROIPooling(_ROIPooling):
    """Compute the maximum of each bin of each region, for regions (N, 1, R, 5) of a batch of N images (Sophgo).

    x (N, C, H, W) and regions [image, x1, y1, x2, y2] to (N * R, C, pooled_h, pooled_w), as Fast R-CNN's layer.
    For regions of the shapes (R, 5, 1, 1) and (R, 1, 1, 5) it computes the first N only: the others have the
    lowest float everywhere, a fault of this fork.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    numbers: ClassVar = {"sophgo": 154}
    pooled_size: int = field(4, "uint32", 0, doc="not supported: its effect is not known")

    needs_dialect = True

    def setup(self) -> None:
        need(not self.has("pooled_size"), "pooled_size is not supported; give pooled_h and pooled_w")

    def forward(self, x: Array, rois: Array) -> Array:
        images, shape = x.shape[0], tuple(rois.shape)
        of_batch = len(shape) == 4 and shape[1] == 1 and shape[3] == 5 and shape[0] == images
        need(
            of_batch or (len(shape) == 4 and shape[1:] in ((5, 1, 1), (1, 1, 5)) and shape[0] >= images),
            f"rois must be of shape ({images}, 1, R, 5) in Sophgo's Caffe, got {shape}",
        )
        every = rois.reshape(shape[0] * shape[2], 5)
        count = every.shape[0] if of_batch else images
        y = self.pool(x, regions(x, every)[:count], self.spatial_scale)
        if of_batch or shape[0] == images:
            return y
        self.note(
            f"of the {shape[0]} regions {shape} only the first {images} are pooled, a fault of Sophgo's Caffe; "
            f"it takes regions of shape ({images}, 1, R, 5)"
        )
        rest = (shape[0] - images, *y.shape[1:])
        return np.concatenate([y, np.full(rest, np.finfo(np.float32).min)])


def regions(x: Array, rois: Array) -> Array:
    """Return `rois` as (R, 5), after a check of its shape and of that of the map `x`."""
    need(len(x.shape) == 4, f"needs an input (N, C, H, W), got shape {tuple(x.shape)}")
    rest = tuple(rois.shape[1:])
    need(
        len(rest) > 0 and all(d in (1, 5) for d in rest) and rest.count(5) == 1,
        f"rois must be of shape (R, 5), got {tuple(rois.shape)}",
    )
    return rois.reshape(rois.shape[0], 5) if len(rest) > 1 else rois


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
    output_dim: int = field(2, "int32", least=1, doc="channels of the output")
    group_size: int = field(3, "int32", least=1, doc="bins per row and per column")

    def forward(self, x: Array, rois: Array) -> Array:
        rois = regions(x, rois)
        return mean_of_sensitive_bins(x, rois, self.spatial_scale, self.output_dim, self.group_size)


_NOT_QUITE_ONE = np.float32(1 - 2**-20)


class _ROIAlign(Layer):
    """The fields that the operators share. Regions are (K, 5): image, x1, y1, x2, y2."""

    message = "roi_align_param"
    samples: ClassVar = {1: samples.regions}
    pooled_h: int = field(1, "uint32", 0, least=1, doc="rows of bins")
    pooled_w: int = field(2, "uint32", 0, least=1, doc="columns of bins")
    spatial_scale: float = field(3, "float", 1.0, doc="cells of the feature map per pixel of the image")

    def setup(self) -> None:
        need_plane(self.pooled_h, self.pooled_w)
        need(self.spatial_scale > 0, f"spatial_scale must be positive, got {self.spatial_scale:g}")

    def regions(self, rois: Array) -> Array:
        """Return the regions as (K, 5)."""
        shape = tuple(rois.shape)
        flat = len(shape) == 2 or (len(shape) == 4 and shape[2:] == (1, 1))
        listed = len(shape) == 4 and shape[0] == 1 and shape[2] == 1
        fields = shape[3] if listed and not flat else shape[1] if flat else 0
        need(
            fields == 5,
            f"input 1 must be of shape (K, 5): image, x1, y1, x2, y2, got {shape}"
            + ("; bring it there with Permute and Reshape" if len(shape) == 3 else ""),
        )
        return rois.reshape(shape[1] if listed and not flat else shape[0], 5)

    def align(self, x: Array, image: Array, corners: Array, ratio: int, half_pixel: bool) -> Array:
        plane_of(x)
        return ops.roi_align(
            x,
            corners,
            image.astype(np.int64),
            size=(self.pooled_h, self.pooled_w),
            spatial_scale=self.spatial_scale,
            sampling_ratio=max(ratio, 0),
            half_pixel=half_pixel,
        )


@layer("ROIAlign", dialects=("ascend",))
class ROIAlign(_ROIAlign):
    """Compute the mean of interpolated samples in each bin of a region, 2 x 2 samples by default (Ascend).

    Features (N, C, H, W) and regions [image, x1, y1, x2, y2] (K, 5) in pixels to (K, C, pooled_h, pooled_w). A
    `sampling_ratio` of 0 or less takes as many samples as the region has cells per bin, rounded up. (Its
    caffe.proto states a default of -1, which its plugin does not use.) `roi_end_mode`: 0: regions are at least 1
    cell; 1: their far corner is one pixel further; 2: they are shifted by half a cell, of any size; 3: shifted,
    and at least 1 cell. If sampling_ratio is given and no dialect, this class is meant, since ascend and cambricon
    agree then.
    Source: CANN caffe_plugin/roi_align_plugin.cc, tbe/impl/roi_align*.py.
    """

    numbers = {"": 154, "ascend": 154}
    sampling_ratio: int = field(
        4, "int32", 2, doc="samples per bin in each direction; 0 or less: by the region's size", stated=-1
    )
    roi_end_mode: int = field(5, "int32", 0, least=0, most=3, doc="how a region's corners are read, 0 to 3")

    def forward(self, x: Array, rois: Array) -> Array:
        regions = self.regions(rois)
        near, far = regions[:, 1:3], regions[:, 3:5]
        if self.roi_end_mode == 1:
            far = far + np.float32(1)
        if self.roi_end_mode == 3:
            least = _NOT_QUITE_ONE / np.float32(self.spatial_scale)
            far = near + np.maximum(far - near, least)
        corners = np.concatenate([near, far], axis=1)
        return self.align(x, regions[:, 0], corners, self.sampling_ratio, self.roi_end_mode >= 2)


@layer("ROIAlign", dialects=("cambricon",))
class ROIAlignAdaptive(_ROIAlign):
    """Compute the mean of interpolated samples in each bin of a region, one per cell by default (Cambricon).

    Features (N, C, H, W) and regions [image, x1, y1, x2, y2] (K, 5) or (1, K, 1, 5) in pixels to (K, C, pooled_h,
    pooled_w). Regions are at least 1 cell. A `sampling_ratio` of 0 or less takes as many samples as the region has
    cells per bin, rounded up.
    Source: Cambricon/caffe src/caffe/layers/roi_align_layer.cpp.
    """

    sampling_ratio: int = field(
        4, "int32", -1, doc="samples per bin in each direction; 0 or less: by the region's size"
    )

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        return "sampling_ratio" not in values and super().fits(values, inputs, outputs)

    def forward(self, x: Array, rois: Array) -> Array:
        regions = self.regions(rois)
        return self.align(x, regions[:, 0], regions[:, 1:], self.sampling_ratio, False)


@layer("ROIAlign", dialects=("synopsys",))
class ROIAlignMaximum(_ROIAlign):
    """Refuse the layer of synopsys-caffe, the maximum of four fixed samples per bin (first port of Mask R-CNN).

    It uses region k for image k only.
    Source: synopsys-caffe src/caffe/layers/roi_align_layer.cpp.
    """

    numbers = {"synopsys": 247}

    def forward(self, x: Array, rois: Array) -> Any:
        need(False, "synopsys-caffe's ROIAlign (the maximum of four fixed samples per bin) is not supported")
