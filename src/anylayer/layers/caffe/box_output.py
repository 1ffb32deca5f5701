"""Boxes of MS-CNN, Cascade R-CNN and Faster R-CNN."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Layer, Message, field, layer, need, need_shape, samples
from anylayer.layers._detections import LOWEST, among_best, keep_best, kept_pairwise, overlaps_of_pixels
from anylayer.layers._proposals import move
from anylayer.layers._resampling import plane_of
from anylayer.layers.caffe._messages import is_training


class BBoxReg(Message):
    """BBoxRegParameter of MS-CNN."""

    bbox_mean: tuple[float, ...] = field(1, "float", repeated=True, doc="means of x, y, width, height")
    bbox_std: tuple[float, ...] = field(2, "float", repeated=True, doc="standard deviations of them")

    def undone(self, moves: Array) -> Array:
        """Return `moves` (..., 4) without their normalization; without both fields there is none."""
        return without_normalization(moves, self.bbox_mean, self.bbox_std)


def without_normalization(moves: Array, mean: Sequence[float], std: Sequence[float]) -> Array:
    """Return `moves` (..., 4), or moves * std + mean when both have values."""
    if not (mean and std):
        return moves
    for name, values in (("bbox_mean", mean), ("bbox_std", std)):
        need(len(values) == 4, f"{name} must have 4 values (x, y, width, height), got {len(values)}")
    return moves * np.array(std, np.float32) + np.array(mean, np.float32)


@layer("BoxOutput")
class BoxOutput(Layer):
    """Turn detection maps of several scales into regions of interest (MS-CNN, arXiv 1607.07155).

    Maps (N, classes + 4, H, W) to regions [image, x1, y1, x2, y2] (R, 5, 1, 1), and optionally regions with scores
    (R, 6, 1, 1). R is a dynamic size. The score of a cell is the largest of its classes minus the background's.
    The regions of an image are sorted by descending score; of equal scores the later cell is better. Without any
    region, the output is one row [0, 1, 1, 10, 10].
    Source: zhaoweicai/mscnn src/caffe/layers/box_output_layer.cpp, src/caffe/util/math_functions.cpp (BoxIOU).
    """

    message = "box_output_param"
    numbers: ClassVar = {"": 151}
    also: ClassVar = {"bbox_reg_param": BBoxReg}
    bbox_reg_param: BBoxReg
    fg_thr: float = field(1, "float", 0.0, doc="scores must reach it")
    iou_thr: float = field(2, "float", 0.5, least=0, doc="boxes that overlap a better one by more are dropped")
    nms_type: str = field(3, "string", "IOU", doc="how the overlap is measured; must be IOU")
    field_h: tuple[int, ...] = field(4, "uint32", repeated=True, doc="height of each map's boxes, in pixels")
    field_w: tuple[int, ...] = field(5, "uint32", repeated=True, doc="width of each map's boxes, in pixels")
    downsample_rate: tuple[int, ...] = field(6, "uint32", repeated=True, doc="pixels per cell of each map")
    field_whr: float = field(7, "float", 2.0, doc="sides change by this factor at most")
    field_xyr: float = field(8, "float", 2.0, doc="centres move by a side over this number at most")
    max_nms_num: int = field(9, "uint32", 0, doc="boxes per image, best first, that enter NMS; 0: all")
    max_post_nms_num: int = field(10, "uint32", 0, doc="boxes per image that leave it; 0: all")
    min_size: float = field(11, "float", 15.0, doc="sides below it, in pixels, void a box")

    def setup(self) -> None:
        need(self.nms_type not in ("IOMU", "IOFU"), f"nms_type '{self.nms_type}' is not supported, only IOU")
        for name in ("field_whr", "field_xyr"):
            need(getattr(self, name) > 0, f"{name} must be positive, got {getattr(self, name):g}")
        need(self.outputs <= 2, f"has at most 2 outputs (regions, regions with scores), got {self.outputs}")

    def forward(self, *maps: Array) -> list[Array]:
        self._check(maps)
        parts = [self._cells(x, i) for i, x in enumerate(maps)]
        boxes, score = (np.concatenate([p[k] for p in parts], axis=1)[:, ::-1] for k in (0, 1))
        cells = score.shape[1]
        entering = min(self.max_nms_num or cells, cells)
        leaving = min(self.max_post_nms_num or entering, entering)
        taking_part = np.where(among_best(score, entering), score, LOWEST)
        image, _, at, count = keep_best(boxes, taking_part[:, None], leaving, self.iou_thr)
        flat = image * cells + at
        rows = [image.astype(np.float32)[:, None], boxes.reshape(-1, 4)[flat], score.reshape(-1)[flat][:, None]]
        return self._outputs_of(np.concatenate(rows, axis=1), count)

    def _check(self, maps: tuple[Any, ...]) -> None:
        need(maps, "takes 1 map or more, got none")
        for name in ("field_h", "field_w", "downsample_rate"):
            count = len(getattr(self, name))
            need(count == len(maps), f"{len(maps)} maps need {len(maps)} values of {name}, got {count}")
        for i, x in enumerate(maps):
            plane_of(x, f"input {i}")
            need(
                tuple(x.shape[:2]) == tuple(maps[0].shape[:2]) and x.shape[1] > 5,
                "maps must have the same number of images and of channels (2 classes or more, then 4): input 0 is "
                f"{tuple(maps[0].shape)}, input {i} is {tuple(x.shape)}",
            )

    def _cells(self, x: Array, i: int) -> tuple[Array, Array]:
        """Return boxes (N, H * W, 4) of map `i` and scores (N, H * W), LOWEST for boxes that are dropped."""
        n, channels, h, w = x.shape
        rate, sides = self.downsample_rate[i], np.array([self.field_w[i], self.field_h[i]], np.float32)
        cells = x.reshape(n, channels, h * w).transpose(0, 2, 1)
        score = cells[..., 1:-4].max(axis=-1) - cells[..., 0]
        moves = self.bbox_reg_param.undone(cells[..., -4:])
        reach, growth = np.float32(1) / np.float32(self.field_xyr), np.log(np.float32(self.field_whr))
        least = np.log(np.float32(1) / np.float32(self.field_whr))
        column, row = np.meshgrid(np.arange(w), np.arange(h))
        places = np.stack([column, row], axis=-1).reshape(-1, 2).astype(np.float32)
        middle = (places + np.float32(0.5)) * np.float32(rate)
        size = sides * np.exp(np.minimum(np.maximum(moves[..., 2:], least), growth))
        centre = np.minimum(np.maximum(moves[..., :2], -reach), reach) * sides + middle
        start = np.maximum(centre - size / np.float32(2), np.float32(0))
        size = np.minimum(size, np.array([w * rate, h * rate], np.float32) - start)
        counts = (score >= np.float32(self.fg_thr)) & (size >= np.float32(self.min_size)).all(axis=-1)
        return np.concatenate([start, start + size], axis=-1), np.where(counts, score, LOWEST)

    def _outputs_of(self, rows: Array, count: Array) -> list[Array]:
        """Return the outputs for the first `count` rows (M, 6), or for no rows."""
        some, shown = count > 0, np.maximum(count, np.int64(1))
        region = np.array([0, 1, 1, 10, 10], np.float32)
        regions = ops.head(np.where(some, rows[:, :5], region), shown)
        scored = ops.head(np.where(some, rows, np.float32(0)), shown)
        return [regions[:, :, None, None], scored[:, :, None, None]][: self.outputs]


class DecodeBBoxParameter(Message):
    """DecodeBBoxParameter of MS-CNN, for training."""

    gt_iou_thr: float = field(1, "float", 1.0, doc="for training")


@layer("DecodeBBox")
class DecodeBBox(Layer):
    """Move regions by the offsets that a stage of Cascade R-CNN predicts for the object (arXiv 1712.00726).

    Offsets (R, 8) of background and object, and regions [image, x1, y1, x2, y2] (R, 5) to regions (R, 5, 1, 1).
    Boxes are in pixels, with their ends included.
    Source: zhaoweicai/mscnn src/caffe/layers/decode_bbox_layer.cpp, src/caffe/util/math_functions.cpp.
    """

    message = "bbox_reg_param"
    numbers: ClassVar = {"": 154}
    also: ClassVar = {"decode_bbox_param": DecodeBBoxParameter}
    bbox_mean: tuple[float, ...] = field(1, "float", repeated=True, doc="means of x, y, width, height")
    bbox_std: tuple[float, ...] = field(2, "float", repeated=True, doc="standard deviations of them; positive")

    def setup(self) -> None:
        need(not is_training(self), "is supported in phase TEST only, since it drops boxes in training")
        need(all(s > 0 for s in self.bbox_std), f"bbox_std must be positive, got {list(self.bbox_std)}")

    def forward(self, moves: Array, regions: Array) -> Array:
        for what, x, columns in (("moves", moves, 8), ("regions", regions, 5)):
            need(
                len(x.shape) >= 2 and x.shape[1] == columns and prod(x.shape[2:]) == 1,
                f"{what} must be of shape (R, {columns}), got {tuple(x.shape)}",
            )
        need(
            moves.shape[0] == regions.shape[0],
            f"there are box offsets for {moves.shape[0]} regions, expected {regions.shape[0]}",
        )
        count = regions.shape[0]
        moves, regions = moves.reshape(count, 8)[:, 4:], regions.reshape(count, 5)
        moves = without_normalization(moves, self.bbox_mean, self.bbox_std)
        start, end = regions[:, 1:3], regions[:, 3:5]
        sides, centre = end - start + np.float32(1), np.float32(0.5) * (end + start)
        size = sides * np.exp(moves[:, 2:])
        start = moves[:, :2] * sides + centre - (size - np.float32(1)) / np.float32(2)
        boxes = [regions[:, :1], start, start + size - np.float32(1)]
        return np.concatenate(boxes, axis=1)[:, :, None, None]


@layer("FrcnDetection")
class FrcnDetection(Layer):
    """Decode the boxes of Faster R-CNN to rows [x1, y1, x2, y2, class, score].

    Offsets (R, 4 * class_num) and probabilities (R, class_num), in any shape, and regions (1, 1, R, 5) to (1, 1,
    keep_topk, 6), filled up with zeros. Class 0 is the background. Each other class of a region is a box where
    its probability exceeds obj_threshold; see `kept_pairwise` for those that are dropped. The rows are sorted by
    region and class, and keep_topk cuts in this order. The layer runs in Python, since it compares pairs one after
    the other. Sophgo's own Caffe often crashes where several classes of a region are boxes.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "frcn_detection_param"
    samples: ClassVar = {1: samples.scores}
    numbers: ClassVar = {"": 305, "sophgo": 305}
    nms_threshold: float = field(1, "float", doc="boxes whose IoU with a better one exceeds it are dropped")
    obj_threshold: float = field(2, "float", doc="probabilities must exceed it")
    keep_topk: int = field(3, "uint32", least=1, doc="number of rows")
    class_num: int = field(4, "uint32", least=2, doc="number of classes, the background included")

    def forward(self, deltas: Array, scores: Array, rois: Array) -> Array:
        shape, c = tuple(rois.shape), self.class_num
        need_shape(
            rois, (1, 1, "R", 5), "the regions (input 2)", about=" (Sophgo's result for a batch is not known)"
        )
        r = shape[2]
        for what, x, each in (("offsets (input 0)", deltas, 4 * c), ("probabilities (input 1)", scores, c)):
            need(
                prod(x.shape) == r * each,
                f"{r} regions and class_num={c} need {r * each} {what}, got shape {tuple(x.shape)}",
            )
        boxes, scores = move(rois.reshape(r, 1, 5)[..., 1:], deltas.reshape(r, c, 4)), scores.reshape(r, c)
        region, label = np.nonzero((scores > np.float32(self.obj_threshold)) & (np.arange(c) > 0))
        box, score = boxes[region, label], scores[region, label]
        survivors = np.flatnonzero(kept_pairwise(box, label, score, self.nms_threshold, overlaps_of_pixels))[
            : self.keep_topk
        ]
        table = np.zeros((1, 1, self.keep_topk, 6), np.float32)
        table[0, 0, : len(survivors)] = np.concatenate([box, label[:, None], score[:, None]], axis=1)[survivors]
        return table
