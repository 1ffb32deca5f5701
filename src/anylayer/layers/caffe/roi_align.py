"""ROIAlign: three operators of this name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need, samples
from anylayer.layers.caffe._resampling import need_plane, plane_of
from anylayer.network import Array

_NOT_QUITE_ONE = np.float32(1 - 2**-20)


class _ROIAlign(Layer):
    """The fields that the operators share. Regions are (K, 5): image, x1, y1, x2, y2."""

    message = "roi_align_param"
    samples: ClassVar = {1: samples.regions}
    pooled_h: int = field(1, "uint32", 0, doc="rows of bins")
    pooled_w: int = field(2, "uint32", 0, doc="columns of bins")
    spatial_scale: float = field(3, "float", 1.0, doc="cells of the feature map per pixel of the image")

    def setup(self) -> None:
        need(
            self.pooled_h > 0 and self.pooled_w > 0,
            f"pooled_h and pooled_w must be positive, got {self.pooled_h} and {self.pooled_w}",
        )
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
    roi_end_mode: int = field(5, "int32", 0, doc="how a region's corners are read, 0 to 3")

    def setup(self) -> None:
        super().setup()
        need(0 <= self.roi_end_mode <= 3, f"roi_end_mode must lie in 0..3, got {self.roi_end_mode}")

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
