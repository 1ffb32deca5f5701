"""Prior boxes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from anylayer.layer import Array, Enum, Layer, field, layer, need
from anylayer.layer.arguments import plain
from anylayer.layers._resampling import plane_of

Size = tuple[Any, Any]
MAX_BOXES = 1 << 24  # boxes of one layer


CODES = Enum(CORNER=1, CENTER_SIZE=2, CORNER_SIZE=3).declared_in("PriorBoxParameter", "CodeType")
"""The encoding of boxes relative to the priors. The message that declares the enum has no field of it."""


class Priors(Layer):
    """Boxes around the center of every cell of a feature map, which depend on shapes only."""

    message = "prior_box_param"
    enums = (CODES,)
    numbers = {"sophgo": 203, "": 203, "ssd": 203, "ascend": 203, "opencv": 150, "model-optimizer": 212}
    min_size: tuple[float, ...] = field(1, "float", repeated=True, doc="sides of the squares, in pixels")
    max_size: tuple[float, ...] = field(
        2, "float", repeated=True, doc="none, or one more square for each min_size"
    )
    aspect_ratio: tuple[float, ...] = field(3, "float", repeated=True, doc="width over height of more boxes")
    flip: bool = field(4, "bool", True, doc="also take 1 / aspect_ratio")
    clip: bool = field(5, "bool", False, doc="clip the boxes to the image", dialects={"opencv": True})
    variance: tuple[float, ...] = field(6, "float", repeated=True, doc="one value, or one for each coordinate")
    img_size: int = field(7, "uint32", 0, doc="side of a square image, in place of input 1's size")
    img_h: int = field(8, "uint32", 0, doc="rows of the image; goes with img_w")
    img_w: int = field(9, "uint32", 0, doc="columns of the image")
    step: float = field(10, "float", 0.0, least=0, doc="pixels between two centers; 0: image over feature map")
    step_h: float = field(11, "float", 0.0, least=0, doc="the same along the height; needs step_w")
    step_w: float = field(12, "float", 0.0, least=0, doc="the same along the width")
    offset: float = field(13, "float", 0.5, doc="place of a center in its cell, in steps")

    def setup(self) -> None:
        need(len(self.variance) in (0, 1, 4), f"variance must be given 0, 1 or 4 times, got {len(self.variance)}")
        need(all(v > 0 for v in self.variance), f"variance must be positive, got {_joined_numbers(self.variance)}")
        both = self.has("img_size") and (self.has("img_h") or self.has("img_w"))
        need(not both, "give img_size, or img_h and img_w, not both")
        half = self.has("img_h") != self.has("img_w")
        need(not half, f"img_h and img_w go together, got img_h={self.img_h} and img_w={self.img_w}")
        both = self.has("step") and (self.has("step_h") or self.has("step_w"))
        need(not both, "give step, or step_h and step_w, not both")
        half = (self.step_h > 0) != (self.step_w > 0)
        need(not half, f"step_h and step_w go together, got step_h={self.step_h:g} and step_w={self.step_w:g}")

    def image(self, image: Array) -> tuple[int, int]:
        """Return the height and width of the image."""
        if self.img_size:
            return self.img_size, self.img_size
        return (self.img_h, self.img_w) if self.img_h and self.img_w else plane_of(image, "input 1")

    def steps(self, cells: tuple[int, int], image: tuple[int, int]) -> tuple[Any, Any]:
        """Return the distance of two centers along the height and along the width."""
        if self.step_h:
            return np.float32(self.step_h), np.float32(self.step_w)
        if self.step:
            return np.float32(self.step), np.float32(self.step)
        down, across = (np.float32(i) / np.float32(c) for i, c in zip(image, cells))
        return down, across

    def offsets(self) -> tuple[float, float]:
        """Return the place of a center in its cell along the height and along the width."""
        return self.offset, self.offset

    def sizes(self) -> Sequence[Size]:
        """Return width and height of the boxes of one cell, in pixels."""
        raise NotImplementedError

    def forward(self, feature: Array, image: Array) -> Array:
        cells = plane_of(feature)
        picture = self.image(image)
        sizes = np.array(self.sizes(), np.float32)
        count = prod(plain(cells)) * len(sizes)
        need(
            count <= MAX_BOXES,
            f"{len(sizes)} boxes per cell make {count} boxes, at most {MAX_BOXES} are supported",
        )
        boxes = self._boxes(cells, picture, sizes)
        variance = np.array(self.variance or (0.1,), np.float32)
        return np.stack([boxes.reshape(-1), np.broadcast_to(variance, (boxes.size // 4, 4)).reshape(-1)])[None]

    def _boxes(self, cells: tuple[int, int], image: tuple[int, int], sizes: Array) -> Array:
        """Return (rows, columns, boxes, 4): left, top, right, bottom relative to the image.

        Centers and sides are float32, their sum and quotient are double, as in the C code.
        """
        centres = [
            (np.arange(n, dtype=np.float32) + np.float32(o)) * s
            for n, o, s in zip(cells, self.offsets(), self.steps(cells, image))
        ]
        y = np.broadcast_to(centres[0][:, None, None], (*cells, len(sizes))).astype(np.float64)
        x = np.broadcast_to(centres[1][None, :, None], (*cells, len(sizes))).astype(np.float64)
        w, h = sizes[:, 0] / 2.0, sizes[:, 1] / 2.0
        edges = [(x - w) / image[1], (y - h) / image[0], (x + w) / image[1], (y + h) / image[0]]
        boxes = np.stack(edges, axis=-1).astype(np.float32)
        return np.clip(boxes, np.float32(0), np.float32(1)) if self.clip else boxes


def _joined_numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)


class SsdPriors(Priors):
    """SSD's boxes: squares of min_size and sqrt(min_size * max_size), and min_size stretched by each ratio."""

    squares: bool = True
    """Whether a cell has a square of each min_size."""

    def setup(self) -> None:
        super().setup()
        need(self.min_size, "parameter 'min_size' is missing")
        need(all(m > 0 for m in self.min_size), f"min_size must be positive, got {_joined_numbers(self.min_size)}")
        need(
            len(self.max_size) in (0, len(self.min_size)),
            f"max_size must be given 0 or {len(self.min_size)} times, once per min_size, got {len(self.max_size)}",
        )
        for low, high in zip(self.min_size, self.max_size):
            need(high > low, f"max_size must exceed its min_size {low:g}, got {high:g}")
        need(
            all(r > 0 for r in self.aspect_ratio),
            f"aspect_ratio must be positive, got {_joined_numbers(self.aspect_ratio)}",
        )

    def side(self, size: float) -> Any:
        """Return the side of a box for a min_size or max_size."""
        return np.float32(size)

    def ratios(self) -> list[Any]:
        """Return the ratios other than 1, each once, and followed by its inverse when `flip` is set."""
        distinct: list[Any] = [np.float32(1)]
        for ratio in map(np.float32, self.aspect_ratio):
            if all(abs(float(ratio) - float(f)) >= 1e-6 for f in distinct):
                distinct.append(ratio)
                if self.flip:
                    distinct.append(np.float32(1.0 / float(ratio)))
        return [f for f in distinct if abs(float(f) - 1.0) >= 1e-6]

    def sizes(self) -> Sequence[Size]:
        boxes: list[Size] = []
        for i, low in enumerate(map(self.side, self.min_size)):
            if self.squares:
                boxes.append((low, low))
            if self.max_size:
                middle = np.float32(np.sqrt(float(low) * float(self.side(self.max_size[i]))))
                boxes.append((middle, middle))
            boxes += [(low * np.sqrt(r), low / np.sqrt(r)) for r in self.ratios()]
        return boxes


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


@layer("PriorBoxClustered")
class PriorBoxClustered(Priors):
    """Return prior boxes of `width` x `height` pixels around every cell of a feature map.

    Feature map (N, C, H, W) and image (N, C', H', W') to (1, 2, H * W * P * 4): [0, 0] the boxes (left, top,
    right, bottom, relative to the image), [0, 1] their variances. min_size, max_size, aspect_ratio and flip are
    ignored. The output is a constant, since it depends on shapes only.
    Source: openvinotoolkit/training_toolbox_caffe src/caffe/layers/prior_box_clustered_layer.cpp; opencv/dldt 2018
    ext_priorbox_clustered.cpp.
    """

    width: tuple[float, ...] = field(14, "float", repeated=True, doc="widths of the boxes, in pixels")
    height: tuple[float, ...] = field(15, "float", repeated=True, doc="heights of the boxes, one per width")

    def setup(self) -> None:
        super().setup()
        need(self.width, "parameter 'width' is missing")
        need(
            len(self.height) == len(self.width),
            f"height must be given {len(self.width)} times, once for each width, got {len(self.height)}",
        )
        need(
            all(side > 0 for side in (*self.width, *self.height)),
            "width and height must be positive, got "
            + ", ".join(f"{w:g} x {h:g}" for w, h in zip(self.width, self.height)),
        )

    def sizes(self) -> Sequence[Size]:
        return [(np.float32(w), np.float32(h)) for w, h in zip(self.width, self.height)]
