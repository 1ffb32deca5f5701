"""DataAugmentation (FlowNet), as it works in phase TEST."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer.errors import plural
from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layers._resampling import plane_of
from anylayer.layers.caffe._messages import constant, is_training
from anylayer.ops._interpolation import as_matrix, interpolation

_RANDOM = "for training"


def _random(number: int) -> Any:
    return field(number, "any", None, doc=_RANDOM)


@layer("DataAugmentation")
class DataAugmentation(Layer):
    """Crop the center and subtract the mean that training has found, as in phase TEST (FlowNet).

    (N, C, H, W) to (N, C, crop_height, crop_width), or to the same size. A crop samples by bilinear interpolation
    at j + (W - crop) / 2, at most W - 1.05, even if the size does not change: 5 % of the last cells then come from
    their neighbours. Blobs with recompute_mean: the number of iterations (1, 1, 1, 1), which must have reached
    recompute_mean; the mean of each pixel (1, C, h, w); the mean of each channel (1, C, 1, 1). Without it: the
    number of iterations only.
    Source: lmb-freiburg/flownet2 src/caffe/layers/data_augmentation_layer.cpp, data_augmentation_layer.cu,
    augmentation_layer_base.cpp.
    """

    message = "augmentation_param"
    numbers: ClassVar = {"synopsys": 149, "opencv": 0}
    crop_width: int = field(33, "uint32", 0, doc="columns of the output")
    crop_height: int = field(34, "uint32", 0, doc="rows of the output")
    write_augmented: str = field(2, "string", "", doc="for training")
    max_multiplier: float = field(3, "float", 255.0, doc="for training")
    augment_during_test: bool = field(4, "bool", False, doc="must be false, since it is random")
    recompute_mean: int = field(5, "uint32", 0, doc="iterations that find the mean; 0: none is stored")
    write_mean: str = field(6, "string", "", doc="for training")
    mean_per_pixel: bool = field(7, "bool", True, doc="a mean for each pixel, or for each channel")
    mean: tuple[float, ...] = field(18, "float", repeated=True, doc="means of 3 channels, where none is stored")
    mode: str = field(8, "string", "add", doc="for training")
    bottomwidth: int = field(80, "uint32", 0, doc="for training")
    bottomheight: int = field(81, "uint32", 0, doc="for training")
    num: int = field(82, "uint32", 0, doc="for training")
    chromatic_eigvec: tuple[float, ...] = field(83, "float", repeated=True, doc="for training")
    mirror: Any = _random(10)
    translate: Any = _random(11)
    rotate: Any = _random(12)
    zoom: Any = _random(13)
    squeeze: Any = _random(14)
    translate_x: Any = _random(15)
    translate_y: Any = _random(16)
    gamma: Any = _random(35)
    brightness: Any = _random(36)
    contrast: Any = _random(37)
    color: Any = _random(38)
    lmult_pow: Any = _random(20)
    lmult_mult: Any = _random(21)
    lmult_add: Any = _random(22)
    sat_pow: Any = _random(23)
    sat_mult: Any = _random(24)
    sat_add: Any = _random(25)
    col_pow: Any = _random(26)
    col_mult: Any = _random(27)
    col_add: Any = _random(28)
    ladd_pow: Any = _random(29)
    ladd_mult: Any = _random(30)
    ladd_add: Any = _random(31)
    col_rotate: Any = _random(32)
    fog_amount: Any = _random(100)
    fog_size: Any = _random(101)
    motion_blur_angle: Any = _random(102)
    motion_blur_size: Any = _random(103)
    shadow_angle: Any = _random(104)
    shadow_distance: Any = _random(105)
    shadow_strength: Any = _random(106)
    noise: Any = _random(107)

    def setup(self) -> None:
        need(not is_training(self), "is supported in phase TEST only, since it is random in training")
        need(self.outputs == 1, f"has 1 output in phase TEST, got {self.outputs}")
        self.cut = self.has("crop_width") and self.has("crop_height")
        need(
            not (self.cut and self.augment_during_test),
            "augment_during_test: true is not supported, since it is random",
        )

    def forward(self, x: Array) -> Array:
        h, w = plane_of(x)
        tall, wide = (self.crop_height, self.crop_width) if self.cut else (h, w)
        need(0 < tall <= h and 0 < wide <= w, f"a crop of {tall} x {wide} does not fit an input of {h} x {w}")
        mean = self._mean(x.shape[1], tall, wide)
        if self.cut:
            x = _cut(h, tall) @ (x @ _cut(w, wide).T)
        return x if mean is None else x - mean

    def _mean(self, channels: int, tall: int, wide: int) -> Array | None:
        """Return the mean to subtract, (1, C, h, w) or (1, C, 1, 1), or None."""
        stored = self.recompute_mean > 0
        iterations = self.blob(0, (1, 1, 1, 1), constant(max(self.recompute_mean, 1)), what="iterations")
        if not stored:
            if self.mean_per_pixel or len(self.mean) != 3:
                return None
            need(channels == 3, f"mean has 3 values, the input has {plural(channels, 'channel')}")
            return np.array(self.mean, np.float32).reshape(1, 3, 1, 1)
        need(
            int(iterations.reshape(())) >= self.recompute_mean,
            f"recompute_mean={self.recompute_mean} is not reached: the weights file counts "
            f"{int(iterations.reshape(()))} iterations, so the mean would still change with every image",
        )
        pixels, each = self._stored_means(channels, tall, wide)
        if not self.mean_per_pixel:
            return each
        need(
            pixels.ndim == 4 and pixels.shape[:2] == (1, channels),
            f"blob 1 (mean of each pixel) has shape {pixels.shape}, (1, {channels}, h, w) is needed",
        )
        return pixels if pixels.shape[2:] == (tall, wide) else pixels.mean(axis=(2, 3), keepdims=True)

    def _stored_means(self, channels: int, tall: int, wide: int) -> tuple[Array, Array]:
        """Return the means of each pixel and of each channel that the weights file has."""
        shape = tuple(self._blobs[1].shape) if len(self._blobs) > 1 else (1, channels, tall, wide)
        pixels = self.blob(1, shape, what="mean of each pixel")
        return pixels, self.blob(2, (1, channels, 1, 1), what="mean of each channel")


@layer("DataAugmentation", dialects=("opencv",))
class OpenCvDataAugmentation(DataAugmentation):
    """Subtract from each channel of one picture its own mean, and crop nothing (OpenCV).

    (1, 3, H, W) to the same shape. OpenCV counts the iterations in each call again, so the mean that training has
    found never counts.
    Source: opencv modules/dnn/src/layers/scale_layer.cpp (DataAugmentationLayerImpl).
    """

    needs_dialect = True

    def setup(self) -> None:
        super().setup()
        rule = "OpenCV's DataAugmentation needs {}; leave the dialect out for FlowNet's rule"
        need(self.recompute_mean > 0 or not self.has("recompute_mean"), rule.format("recompute_mean above 0"))
        need(not (self.has("mean_per_pixel") and self.mean_per_pixel), rule.format("mean_per_pixel: false"))
        if self.cut:
            self.note("crop_width and crop_height are ignored, as by OpenCV")

    def forward(self, x: Array) -> Array:
        h, w = plane_of(x)
        need(x.shape[:2] == (1, 3), f"OpenCV's layer computes one picture of 3 channels, got shape {x.shape}")
        self.blob(0, (1, 1, 1, 1), constant(1), what="iterations")
        self._stored_means(3, h, w)
        mean: Array = x.mean(axis=(2, 3), keepdims=True)
        return x - mean


def _cut(size: int, samples: int) -> Array:
    """Return the interpolation matrix (samples, size) of a crop from the center."""
    at = np.arange(samples, dtype=np.float32) - np.float32(0.5) * np.float32(samples)
    at = at + np.float32(0.5) * np.float32(size)
    at = np.maximum(np.minimum(at, np.float32(size) - np.float32(1.05)), np.float32(0))
    return as_matrix(*interpolation(at, size, samples, "linear", 0, False, False), size)
