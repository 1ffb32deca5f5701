"""BoxOutput (MS-CNN)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need
from anylayer.layers._detections import LOWEST, among_best, for_overlap
from anylayer.layers.caffe._bbox_reg import BBoxReg
from anylayer.layers.caffe._resampling import plane_of
from anylayer.network import Array


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
    iou_thr: float = field(2, "float", 0.5, doc="boxes that overlap a better one by more are dropped")
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
        need(self.iou_thr >= 0, f"iou_thr must not be negative, got {self.iou_thr:g}")
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
        selected, count = ops.nms(
            for_overlap(boxes),
            np.where(among_best(score, entering), score, LOWEST)[:, None],
            max_per_class=leaving,
            iou_threshold=min(self.iou_thr, 1.0),
            score_threshold=float(LOWEST),
        )
        image, at = np.maximum(selected[:, 0], 0), np.maximum(selected[:, 2], 0)
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
