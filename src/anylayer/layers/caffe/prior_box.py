"""PriorBox (SSD)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import field, layer, need
from anylayer.layers.caffe._priors import SsdPriors
from anylayer.layers.caffe._resampling import plane_of
from anylayer.network import Array


@layer("PriorBox", dialects=("ssd", "ascend", "mobilenet-yolo"))
class PriorBox(SsdPriors):
    """Return prior boxes around every cell of a feature map, with sizes truncated to whole pixels (SSD).

    Feature map (N, C, H, W) and image (N, C', H', W') to (1, 2, H * W * P * 4): [0, 0] the boxes (left, top,
    right, bottom, relative to the image), [0, 1] their variances. Per min_size, a cell has a square of that size,
    with a max_size a square of sqrt(min_size * max_size), and a box of min_size * sqrt(r) by min_size / sqrt(r)
    for each ratio r other than 1. The output is a constant, since it depends on shapes only. Without a dialect,
    this class is meant.
    Source: weiliu89/caffe (branch ssd) src/caffe/layers/prior_box_layer.cpp.
    """

    def side(self, size: float) -> Any:
        return np.float32(int(size))


@layer("PriorBox", dialects=("sophgo",))
class PriorBoxSophgo(PriorBox):
    """Return SSD's prior boxes, without the squares of min_size where use_default_aspect_ratio is false (Sophgo).

    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    use_default_aspect_ratio: bool = field(14, "bool", True, doc="whether a cell has a square of each min_size")

    needs_dialect = True

    def setup(self) -> None:
        super().setup()
        self.squares = self.use_default_aspect_ratio
        need(self.sizes(), "use_default_aspect_ratio: false leaves no box; give max_size or aspect_ratio")


@layer("PriorBox", dialects=("opencv",))
class PriorBoxOpenCV(SsdPriors):
    """Return prior boxes with sizes as they are, clipped by default (OpenCV).

    Shapes as for SSD's layer. `variance` is required; img_size, img_h and img_w are ignored, as in OpenCV.
    Source: opencv modules/dnn/src/layers/prior_box_layer.cpp.
    """

    offset_h: tuple[float, ...] = field(
        14, "float", repeated=True, doc="offsets along the height, in place of offset"
    )
    offset_w: tuple[float, ...] = field(15, "float", repeated=True, doc="the same along the width")
    width: tuple[float, ...] = field(16, "float", repeated=True, doc="widths of the boxes, in place of min_size")
    height: tuple[float, ...] = field(17, "float", repeated=True, doc="heights of the boxes")

    needs_dialect = True

    def setup(self) -> None:
        for name in ("offset_h", "offset_w", "width", "height"):
            need(not self.has(name), f"{name} is not supported; give the boxes by min_size and one offset")
        super().setup()
        need(self.variance, "parameter 'variance' is missing; OpenCV has no default for it")
        if self.has("img_size") or self.has("img_h"):
            self.note("img_size, img_h and img_w are ignored, as in OpenCV: the image is input 1")

    def image(self, image: Array) -> tuple[int, int]:
        return plane_of(image, "input 1")


@layer("PriorBox", dialects=("openvino", "model-optimizer"))
class PriorBoxOpenVINO(SsdPriors):
    """Return prior boxes with sizes as they are, which depend on `step` and input 1 only (OpenVINO).

    Shapes as for SSD's layer. img_size, img_h, img_w, step_h and step_w are ignored, and without a step the offset
    is 0.5, whatever the file states.
    Source: opencv/dldt 2018 ext_priorbox.cpp; OpenVINO PriorBox-1.
    """

    needs_dialect = True

    def setup(self) -> None:
        super().setup()
        dropped = [n for n in ("img_size", "img_h", "img_w", "step_h", "step_w") if self.has(n)]
        if dropped:
            self.note(f"{', '.join(dropped)} ignored, as by the Model Optimizer: input 1 and step decide")
        self.step_h = self.step_w = 0.0

    def image(self, image: Array) -> tuple[int, int]:
        return plane_of(image, "input 1")

    def offsets(self) -> tuple[float, float]:
        return (self.offset, self.offset) if self.step else (0.5, 0.5)
