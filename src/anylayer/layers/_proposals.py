"""What the proposal layers of Faster R-CNN share: anchors, the boxes made from them, and their NMS."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from anylayer import ops
from anylayer.errors import need, need_shape
from anylayer.layers._detections import LOWEST, among_best, corners, keep_best
from anylayer.network import Array


class Fields(Protocol):
    """The fields of a layer that makes proposals: see layers/caffe/proposal.py."""

    base_size: int
    feat_stride: int
    min_size: int
    ratio: tuple[float, ...]
    scale: tuple[float, ...]
    pre_nms_topn: int
    post_nms_topn: int
    nms_thresh: float


def check_fields(layer: Fields) -> None:
    """Refuse fields without anchors, boxes or a threshold in 0..1."""
    for name in ("feat_stride", "base_size", "pre_nms_topn", "post_nms_topn"):
        need(getattr(layer, name) > 0, f"{name} must be at least 1, got {getattr(layer, name)}")
    need(layer.ratio and layer.scale, "needs at least one ratio and one scale")
    need(min(layer.ratio) > 0, f"ratio must be positive, got {min(layer.ratio):g}")
    need(0 <= layer.nms_thresh <= 1, f"nms_thresh must lie in 0..1, got {layer.nms_thresh:g}")


def proposals(
    layer: Fields, scores: Array, deltas: Array, info: Array, *, clip_before: bool, clip_after: bool
) -> list[Array]:
    """Return the regions (R, 5) and their scores (R,), best first. R is a dynamic size.

    clip_before: whether the boxes are clipped to the image before NMS, with their ends included.
    clip_after: whether the regions are clipped to the image's width and height after NMS.
    """
    first = anchors(layer.base_size, layer.ratio, layer.scale)
    check_shapes(scores, deltas, info, len(first))
    info = info.reshape(-1)
    regions = boxes(deltas, first, layer.feat_stride)
    if clip_before:
        regions = clip_regions(regions, info)
    least = info[[3, 2] if info.shape[0] >= 4 else [2, 2]] * np.float32(layer.min_size)
    score = foreground(scores) * large(regions, least).astype(np.float32)
    at, count, rois = best(regions, score, (layer.pre_nms_topn, layer.post_nms_topn), layer.nms_thresh)
    if clip_after:
        rois = np.concatenate([rois[:, :1], clip_regions(rois[:, 1:], info, 0)], axis=1)
    return [ops.head(rois, count), ops.head(score[at], count)]


def check_shapes(scores: Array, deltas: Array, info: Array, anchors: int) -> None:
    """Refuse inputs that are not (1, 2A, H, W), (1, 4A, H, W) and at least 3 values."""
    n, _, h, w = scores.shape
    need(n == 1, f"takes one image, got a batch of {n}")
    for what, x, each in (("scores", scores, 2), ("box deltas", deltas, 4)):
        shape = (1, each * anchors, h, w)
        need_shape(x, shape, what, about=f" for {anchors} anchors (ratio x scale)")
    size = prod(info.shape)
    need(size >= 3, f"needs image height, width and scale, got {size} values")


def anchors(
    base_size: int,
    ratios: Sequence[float],
    scales: Sequence[float],
    *,
    half_even: bool = False,
    whole_area: bool = False,
) -> Array:
    """Return the anchors of the first cell (A, 4), by ratio, then by scale, with their ends included.

    Sides are rounded to integers before they are scaled: halves up (C++), or halves to even (NumPy). With
    `whole_area`, the squares of the widths are rounded down before.
    """
    area, centre = np.float32(base_size**2), np.full(2, np.float32(0.5) * np.float32(base_size - 1))
    regions = []
    for ratio in np.array(ratios, np.float32):
        square = np.floor(area / ratio) if whole_area else area / ratio
        width = _round(np.sqrt(square), half_even)
        height = _round(width * ratio, half_even)
        for scale in np.array(scales, np.float32):
            regions.append(corners(centre, np.stack([width, height]) * scale - np.float32(1)))
    return np.stack(regions).astype(np.float32)


def _round(side: Any, half_even: bool) -> Any:
    return np.round(side) if half_even else np.floor(side + np.float32(0.5))


def boxes(deltas: Array, first: Array, stride: int) -> Array:
    """Return the boxes (H * W * A, 4) of the anchors moved by `deltas` (1, 4A, H, W), unclipped.

    `deltas` are dx, dy, log w, log h. `first` are the anchors of the first cell (A, 4), `stride` is the number of
    pixels per cell.
    """
    return move(anchors_of_cells(first, deltas.shape[2:], stride), by_anchor(deltas, len(first))[0])


def anchors_of_cells(first: Array, cells: Sequence[int], stride: int) -> Array:
    """Return the anchors of all cells (H * W * A, 4) of a map of `cells` = (H, W); see `boxes`."""
    column, row = np.meshgrid(np.arange(cells[1]), np.arange(cells[0]))
    shift = np.stack([column, row, column, row], axis=-1).reshape(-1, 1, 4) * stride
    return (shift.astype(np.float32) + first).reshape(-1, 4)


def by_anchor(x: Array, count: int) -> Array:
    """Return a map (N, A * k, H, W) with k values for each of `count` = A anchors as (N, H * W * A, k)."""
    n, channels, h, w = x.shape
    k = channels // count
    return x.reshape(n, count, k, h, w).transpose(0, 3, 4, 1, 2).reshape(n, h * w * count, k)


def move(regions: Array, deltas: Array) -> Array:
    """Return regions (..., 4), whose ends are included, moved by `deltas` (..., 4): dx, dy, log w, log h."""
    start, sides = regions[..., :2], regions[..., 2:] - regions[..., :2] + np.float32(1)
    centre = deltas[..., :2] * sides + (start + np.float32(0.5) * sides)
    return corners(centre, np.exp(deltas[..., 2:]) * sides)


def clip_regions(regions: Array, info: Array, beyond: float = 1.0) -> Array:
    """Return the boxes, clipped to an image of the height and width with which `info` begins, less `beyond`."""
    return np.maximum(np.minimum(regions, info[[1, 0, 1, 0]] - np.float32(beyond)), np.float32(0))


def large(regions: Array, least: Array) -> Any:
    """Return which boxes (..., 4), with their ends included, are at least `least` wide and high."""
    return (regions[..., 2:] - regions[..., :2] + np.float32(1) >= least).all(axis=-1)


def foreground(scores: Array) -> Array:
    """Return the scores (H * W * A,) of the foreground: the second half of the channels of (1, 2A, H, W)."""
    return scores[0, scores.shape[1] // 2 :].transpose(1, 2, 0).reshape(-1)


def best(regions: Array, score: Array, limits: tuple[int, int], threshold: float) -> tuple[Array, Array, Array]:
    """Return the indices of the boxes (N, 4) that NMS keeps, best first, their number, and their regions.

    `limits` are the numbers of boxes that enter NMS and that remain. Boxes with the score LOWEST are ignored.
    """
    entering = min(limits[0], score.shape[0])
    leaving = min(limits[1], entering)
    taking_part = np.where(among_best(score, entering), score, LOWEST)
    *_, at, count = keep_best(regions[None], taking_part[None, None], leaving, threshold, extra=1.0)
    return at, count, np.concatenate([np.zeros((leaving, 1), np.float32), regions[at]], axis=1)
