"""Proposals of regions, and their pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, layer, need, need_shape, samples
from anylayer.layers._detections import LOWEST, among_best, keep_best, rows_of_images
from anylayer.layers._proposals import anchors, anchors_of_cells, by_anchor, large, move
from anylayer.layers._regions import mean_of_moved_bins, mean_of_sensitive_bins
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, SOURCE, MXNetLayer, need_float32, operators

_ENDS = np.array([0, 0, 1, 1], np.float32)
"""What the corners of a box are extended by, since its ends are included."""


@layer("_contrib_MultiProposal")
class MultiProposal(MXNetLayer):
    """Return the regions of interest of Faster R-CNN for a batch, best first (arXiv 1506.01497).

    cls_prob (N, 2A, H, W), bbox_pred (N, 4A, H, W) and im_info (N, 3), the height, width and scale of each image,
    to regions [image, x1, y1, x2, y2] (N * rpn_post_nms_top_n, 5) and optionally scores (N * rpn_post_nms_top_n,
    1). An image with fewer regions repeats them. Boxes are in pixels, with their ends included. Those below
    rpn_min_size are enlarged by half of it on each side. They, and boxes of cells that begin outside the image,
    score -1 and take part as the others. Of equal scores the first by row, column and anchor is better, which
    MXNet leaves open.
    Source: src/operator/contrib/multi_proposal.cc and multi_proposal-inl.h of MXNet.
    """

    samples: ClassVar = {0: samples.scores, 2: samples.picture}
    images: ClassVar[str | int] = "N"
    rpn_pre_nms_top_n: int = attribute("int32", 6000, doc="boxes, best first, that enter NMS; 0 or less: all")
    rpn_post_nms_top_n: int = attribute("int32", 300, doc="number of regions per image")
    threshold: float = attribute("float", 0.7, doc="boxes that overlap a better one by more are dropped")
    rpn_min_size: int = attribute("int32", 16, doc="smallest side of a box, in pixels of the unscaled image")
    scales: tuple[float, ...] = attribute("float", (4.0, 8.0, 16.0, 32.0), repeated=True)
    ratios: tuple[float, ...] = attribute("float", (0.5, 1.0, 2.0), repeated=True, doc="height over width")
    feature_stride: int = attribute("int32", 16, doc="pixels per cell, and the side of the basic anchor")
    output_score: bool = attribute("bool", False, doc="whether the scores are an output")
    iou_loss: bool = attribute("bool", False, doc="whether bbox_pred are distances of the corners, in pixels")

    def setup(self) -> None:
        need(self.scales and self.ratios and min(self.ratios) > 0, "needs scales, and ratios above 0")
        for name in ("rpn_post_nms_top_n", "feature_stride"):
            need(getattr(self, name) > 0, f"{name} must be at least 1, got {getattr(self, name)}")
        self.feat_stride = self.feature_stride  # samples.picture reads it

    def forward(self, scores: Array, deltas: Array, info: Array) -> list[Array]:
        need_float32(self, scores, deltas, info)
        first = anchors(self.feature_stride, self.ratios, self.scales, whole_area=True)
        a = len(first)
        need_shape(scores, (self.images, 2 * a, "H", "W"), "cls_prob", about=f" for {a} anchors (ratio x scale)")
        n, _, h, w = scores.shape
        need_shape(deltas, (n, 4 * a, h, w), "bbox_pred")
        need_shape(info, (n, 3), "im_info")
        anchor = anchors_of_cells(first, (h, w), self.feature_stride)
        regions = self.decode(anchor, by_anchor(deltas, a), info[:, None])
        rows, columns = np.trunc(info[:, :2] / np.float32(self.feature_stride)).transpose()[..., None, None]
        outside = (np.arange(h, dtype=np.float32)[:, None] >= rows) | (np.arange(w, dtype=np.float32) >= columns)
        score = by_anchor(np.where(outside[:, None], np.float32(-1), scores[:, a:]), a)[..., 0]
        least = (info[:, 2] * np.float32(self.rpn_min_size)).reshape(n, 1, 1)
        small = ~large(regions, least)
        border = least * np.array([-0.5, -0.5, 0.5, 0.5], np.float32)
        regions = np.where(small[..., None], regions + border, regions)
        return self.best(regions, np.where(small, np.float32(-1), score))[: self.outputs]

    def decode(self, anchor: Array, deltas: Array, info: Array) -> Array:
        """Return boxes (N, P, 4) for anchors (P, 4), deltas (N, P, 4) and images (N, 1, 3)."""
        regions = anchor + deltas if self.iou_loss else move(anchor, deltas) - _ENDS
        return np.maximum(np.minimum(regions, info[..., [1, 0, 1, 0]] - np.float32(1)), np.float32(0))

    def best(self, regions: Array, score: Array) -> list[Array]:
        """Return the regions with their images, and their scores, of boxes (N, P, 4) with scores (N, P)."""
        (n, p), most = score.shape, self.rpn_post_nms_top_n
        entering = min(self.rpn_pre_nms_top_n, p) if self.rpn_pre_nms_top_n > 0 else p
        taking_part = np.where(among_best(score, entering), score, LOWEST)[:, None]
        owner, _, at, count = keep_best(regions + _ENDS, taking_part, min(most, entering), self.threshold)
        start, number = rows_of_images(owner, count, n)
        picked = (owner * p + at)[(start + np.arange(most) % number).reshape(-1)]
        image = (picked // p).astype(np.float32)[:, None]
        return [
            np.concatenate([image, regions.reshape(n * p, 4)[picked]], axis=1),
            score.reshape(n * p)[picked][:, None],
        ]


@layer("_contrib_Proposal")
class Proposal(MultiProposal):
    """Return the regions of interest of Faster R-CNN for one image, best first (arXiv 1506.01497).

    As _contrib_MultiProposal, for a batch of 1.
    Source: src/operator/contrib/proposal.cc of MXNet.
    """

    images: ClassVar[str | int] = 1


def _roi_align(
    x: Array, rois: Array, pooled_size: Sequence[int], spatial_scale: float, sample_ratio: int,
    position_sensitive: bool, aligned: bool,
) -> Array:  # fmt: skip
    need_shape(rois, ("R", 5), "rois", about=": image, x1, y1, x2, y2")
    image = rois[:, 0].astype(np.int64)
    y = ops.roi_align(
        x, rois[:, 1:], np.maximum(image, 0), size=pooled_size, spatial_scale=spatial_scale,
        sampling_ratio=max(sample_ratio, 0), half_pixel=aligned,
    )  # fmt: skip
    y = np.where((image >= 0)[:, None, None, None], y, np.float32(0))
    if not position_sensitive:
        return y
    r, c, h, w = y.shape
    bins = h * w
    need(c % bins == 0, f"position_sensitive needs a multiple of {bins} channels (pooled_size), got {c}")
    same_bin = np.arange(bins)[:, None] == np.arange(bins)
    every = np.where(same_bin, y.reshape(r, c // bins, bins, bins), np.float32(0))
    return every.sum(axis=-1).reshape(r, c // bins, h, w)


def _sensitive(
    x: Array, rois: Array, spatial_scale: float, output_dim: int, pooled_size: int, group_size: int
) -> Array:
    need_shape(rois, ("R", 5), "rois", about=": image, x1, y1, x2, y2")
    return mean_of_sensitive_bins(x, rois, spatial_scale, output_dim, group_size or pooled_size, pooled_size)


def _deformable(x: Array, rois: Array, trans: Array | None = None, *, no_trans: bool, **how: Any) -> Array:
    need_shape(rois, ("R", 5), "rois", about=": image, x1, y1, x2, y2")
    need(no_trans or trans is not None, "no_trans=False needs a third input, trans")
    return mean_of_moved_bins(x, rois, None if no_trans else trans, **how)


_BODY = {"samples": {1: samples.regions}}
_SCALE = attribute("float", doc="cells of the map per pixel")
_POOL = {"pooled_size": attribute("int32", repeated=True, doc="rows and columns of bins"), "spatial_scale": _SCALE}
_BINS = {
    "spatial_scale": _SCALE,
    "output_dim": attribute("int32", doc="channels of the output"),
    "pooled_size": attribute("int32", doc="rows of bins, and columns"),
}
operators(
    {
        "ROIPooling _npx_roi_pooling": row(
            "Compute the maximum of each bin of each region (Fast R-CNN, arXiv 1504.08083).",
            lambda x, rois, pooled_size, spatial_scale: ops.max_roi_pool(
                x, rois, size=pooled_size, spatial_scale=spatial_scale),
            "roi_pooling.cc",
            "The corners of a region, times spatial_scale, are rounded, halves away from zero, and both belong to "
            "it. Bins without cells give 0.", _BODY, **_POOL),
        "_contrib_ROIAlign": row("Compute the mean of interpolated samples in each bin of a region.", _roi_align,
            "contrib/roi_align.cc",
            "sample_ratio samples per bin in each direction, or as many as the region has cells per bin, rounded "
            "up. A region of a negative image is 0, as on GPUs. Regions are at least 1 cell, unless `aligned`, "
            "which shifts them by half a cell. With position_sensitive each bin has channels of its own (R-FCN), "
            "and C / (h * w) channels remain.",
            _BODY, **_POOL, sample_ratio=attribute("int32", -1), position_sensitive=FLAG, aligned=FLAG),
    },
    f"x (N, C, H, W) and regions [image, x1, y1, x2, y2] (R, 5) to (R, C, *pooled_size).\n    {SOURCE}",
    need_float32,
)  # fmt: skip
operators(
    {
        "_contrib_PSROIPooling": row("Compute the mean of each bin of each region (R-FCN, arXiv 1605.06409).",
            _sensitive, "contrib/psroi_pooling.cc",
            "Bin (i, j) of channel c comes from channel (c * g + i * g // p) * g + j * g // p, where g is "
            "group_size, by default p = pooled_size. The corners of a region are rounded before they are scaled.",
            _BODY, group_size=attribute("int32", 0, doc="0: pooled_size"), **_BINS),
        "_contrib_DeformablePSROIPooling": row("Compute the mean of the samples in moved bins (arXiv 1703.06211).",
            _deformable, "contrib/deformable_psroi_pooling.cc",
            "As _contrib_PSROIPooling, of sample_per_part^2 interpolated samples per bin. The third input (R, 2 * "
            "classes, part_size, part_size) moves the bins of each class, by trans_std times the region's size.",
            _BODY, group_size=attribute("int32"), part_size=attribute("int32", 0, doc="0: pooled_size"),
            sample_per_part=attribute("int32", 1), trans_std=attribute("float", 0.0), no_trans=FLAG, **_BINS),
    },
    f"x (N, output_dim * g * g, H, W) and regions [image, x1, y1, x2, y2] (R, 5) to (R, output_dim, pooled_size, "
    f"pooled_size).\n    {SOURCE}",
    need_float32,
)  # fmt: skip
