"""Resizing, cropping to the center, and upsampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import attribute, layer, need
from anylayer.layer.arguments import channels_first, restored
from anylayer.layers._table import operators, row
from anylayer.layers.keras._base import KerasLayer, Spatial, one_of, positive
from anylayer.layers.keras._resampling import METHODS, resample
from anylayer.network import Array


class Images(Spatial):
    """A layer of images (N, H, W, C), or (N, C, H, W) with channels_first."""

    def images(self, x: Array) -> Array:
        """Return `x` as float32 (N, C, H, W)."""
        need(len(x.shape) == 4, f"takes images of rank 4, got {tuple(x.shape)}")
        return channels_first(x.astype(np.float32), self.data_format)


def _center(size: int, target: int, other_given: int, other_wanted: int) -> int:
    """Return the size along one axis of the largest crop with the aspect ratio of the target."""
    return max(min(size, int(np.float32(other_given * target) / np.float32(other_wanted))), 1)


def cropped_to(x: Array, height: int, width: int) -> Array:
    """Return the largest central crop of `x` (N, C, H, W) with the aspect ratio height : width."""
    h, w = x.shape[2:]
    ch, cw = _center(h, height, w, width), _center(w, width, h, height)
    top, left = (h - ch) // 2, (w - cw) // 2
    return x[:, :, top : top + ch, left : left + cw]


def padded_to(x: Array, height: int, width: int, value: float) -> Array:
    """Return `x` (N, C, H, W), padded on both sides to the aspect ratio height : width."""
    h, w = x.shape[2:]
    ph = max(h, int(np.float32(w * height) / np.float32(width)))
    pw = max(w, int(np.float32(h * width) / np.float32(height)))
    top, left = (ph - h) // 2, (pw - w) // 2
    return np.pad(x, ((0, 0), (0, 0), (top, top), (left, left)), constant_values=value)


@layer("Resizing")
class Resizing(Images):
    """Resize images to a given size.

    (N, H, W, C) to (N, height, width, C) in float32; data_format channels_first puts C at axis 1.
    Source: keras/src/layers/preprocessing/image_preprocessing/resizing.py.
    """

    harmless = frozenset({"data_augmentation", "bounding_box_format"})

    height: int = attribute("int64", doc="height of the output")
    width: int = attribute("int64", doc="width of the output")
    interpolation: str = attribute("string", "bilinear", doc=", ".join(METHODS))
    crop_to_aspect_ratio: bool = attribute(
        "bool", False, doc="whether images are first cropped to the aspect ratio of the output"
    )
    pad_to_aspect_ratio: bool = attribute(
        "bool", False, doc="whether images are first padded to the aspect ratio of the output"
    )
    fill_mode: str = attribute("string", "constant", doc="padding mode")
    fill_value: float = attribute("double", 0.0, doc="value of padded cells")
    antialias: bool = attribute("bool", False, doc="whether shrinking averages several cells")

    def setup(self) -> None:
        super().setup()
        self.interpolation = one_of(self.interpolation.lower(), METHODS, "interpolation")
        need(
            min(self.height, self.width) > 0, f"height and width must be positive, got {self.height}, {self.width}"
        )
        need(self.fill_mode == "constant", f"fill_mode must be 'constant', got '{self.fill_mode}'")

    def forward(self, x: Array) -> Array:
        y = self.images(x)
        if self.crop_to_aspect_ratio:
            y = cropped_to(y, self.height, self.width)
        elif self.pad_to_aspect_ratio:
            y = padded_to(y, self.height, self.width, self.fill_value)
        y = resample(y, (self.height, self.width), self.interpolation, self.antialias)
        return restored(y, self.data_format)


@layer("CenterCrop")
class CenterCrop(Images):
    """Crop the center of images; images that are too small are resized to it.

    (N, H, W, C) to (N, height, width, C) in float32; data_format channels_first puts C at axis 1.
    Source: keras/src/layers/preprocessing/image_preprocessing/center_crop.py.
    """

    height: int = attribute("int64", doc="height of the output")
    width: int = attribute("int64", doc="width of the output")

    def forward(self, x: Array) -> Array:
        y = self.images(x)
        top, left = y.shape[2] - self.height, y.shape[3] - self.width
        if top >= 0 and left >= 0:
            top, left = top // 2, left // 2
            y = y[:, :, top : top + self.height, left : left + self.width]
        else:
            y = cropped_to(y, self.height, self.width)
            y = resample(y, (self.height, self.width), "bilinear", False)
        return restored(y, self.data_format)


@layer("UpSampling2D")
class UpSampling2D(Images):
    """Enlarge images by integer factors.

    (N, H, W, C) to (N, H * size[0], W * size[1], C); data_format channels_first puts C at axis 1.
    Source: keras/src/layers/reshaping/up_sampling2d.py.
    """

    size: Any = attribute("any", 2, doc="factors of height and width")
    interpolation: str = attribute("string", "nearest", doc=", ".join(METHODS))

    def setup(self) -> None:
        super().setup()
        self.interpolation = one_of(self.interpolation.lower(), METHODS, "interpolation")
        self.factors = positive(self.size, 2, "size")

    def forward(self, x: Array) -> Array:
        need(len(x.shape) == 4, f"takes images of rank 4, got {tuple(x.shape)}")
        y = channels_first(x, self.data_format)
        if self.interpolation == "nearest":
            y = np.repeat(np.repeat(y, self.factors[0], axis=2), self.factors[1], axis=3)
        else:
            sizes = (y.shape[2] * self.factors[0], y.shape[3] * self.factors[1])
            y = resample(y, sizes, self.interpolation, False)
        return restored(y, self.data_format)


def _repeat_steps(x: Array, *, size: int) -> Array:
    need(len(x.shape) == 3, f"takes an input of rank 3, got {tuple(x.shape)}")
    return np.repeat(x, size, axis=1)


def _repeat_cells(x: Array, *, data_format: str, size: Any) -> Array:
    need(len(x.shape) == 5, f"takes an input of rank 5, got {tuple(x.shape)}")
    y = channels_first(x, data_format)
    for axis, factor in enumerate(positive(size, 3, "size")):
        y = np.repeat(y, factor, axis=axis + 2)
    return restored(y, data_format)


_SOURCE = "Source: keras/src/layers/reshaping/{}.py."
operators(KerasLayer, _SOURCE, {
    "UpSampling1D": row("Repeat each step of a sequence `size` times.", _repeat_steps, "up_sampling1d",
        "(N, T, C) to (N, T * size, C).", size=attribute("int64", 2, doc="number of repetitions")),
}, __module__=__name__)  # fmt: skip
operators(Spatial, _SOURCE, {
    "UpSampling3D": row("Repeat each cell along three axes.", _repeat_cells, "up_sampling3d",
        "(N, D, H, W, C) to (N, D * size[0], H * size[1], W * size[2], C); data_format channels_first puts C at "
        "axis 1.",
        size=attribute("any", 2, doc="number of repetitions per axis")),
}, __module__=__name__)  # fmt: skip
