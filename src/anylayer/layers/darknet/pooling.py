"""Pooling sections, and those that change the size of a map."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, field, layer, need
from anylayer.layers._reorg import darknet_order, into_channels, into_pixels
from anylayer.layers._resampling import plane_of, repeat_pixels
from anylayer.layers.darknet._base import DarknetLayer
from anylayer.network import Function


class Pool(DarknetLayer):
    """A section that reduces windows of a map. Half of the padding, rounded down, lies before the map."""

    function: ClassVar[Function]
    ignored = r"maxpool_zero_nonmax"
    neutral = {"maxpool_depth": 0, "antialiasing": 0, "out_channels": 1}
    size: int = field(0, "int32", least=1, doc="height and width of a window")
    stride: int = field(0, "int32", least=1, doc="the stride along both axes")
    stride_x: int = field(0, "int32", 0, least=0, doc="the stride along the width; 0 for `stride`")
    stride_y: int = field(0, "int32", 0, least=0, doc="the stride along the height; 0 for `stride`")
    padding: int = attribute("int32", -1, doc="cells of padding along an axis in all; by default size - 1")

    def forward(self, x: Array) -> Array:
        plane_of(x)
        need(self.padding >= 0 or not self.has("padding"), f"padding must be at least 0, got {self.padding}")
        padding = self.padding if self.has("padding") else self.size - 1
        before, after = padding // 2, padding - padding // 2
        strides = (self.stride_y or self.stride, self.stride_x or self.stride)
        return self.function(x, self.size, strides=strides, pads=(before, before, after, after))


@layer("max")
@layer("maxpool")
class MaxPool(Pool):
    """Compute the maximum of each window.

    (N, C, H, W) to (N, C, H', W'), with H' = (H + padding - size) / stride + 1, rounded down. OpenCV ignores
    `stride_x` and `stride_y`.
    Source: AlexeyAB/darknet src/maxpool_layer.c, src/gemm.c forward_maxpool_layer_avx.
    """

    prefix = "pool"
    function = staticmethod(ops.max_pool)


@layer("local_avg")
@layer("local_avgpool")
class LocalAvgPool(Pool):
    """Compute the mean of each window, without the padding.

    (N, C, H, W) to (N, C, H', W'), with H' = (H + padding - size) / stride + 1, rounded down.
    Source: AlexeyAB/darknet src/maxpool_layer.c forward_local_avgpool_layer.
    """

    function = staticmethod(ops.average_pool)


@layer("avg")
@layer("avgpool")
class AvgPool(DarknetLayer):
    """Compute the mean of each channel.

    (N, C, H, W) to (N, C, 1, 1).
    Source: AlexeyAB/darknet src/avgpool_layer.c.
    """

    def forward(self, x: Array) -> Array:
        plane_of(x)
        return x.mean(axis=(2, 3), keepdims=True)


@layer("crop")
class Crop(DarknetLayer):
    """Take the center of each map, and compute 2 * x - 1 unless `noadjust`.

    (N, C, H, W) to (N, C, crop_height, crop_width). While training, the section changes colors at random.
    Source: AlexeyAB/darknet src/crop_layer.c; opencv modules/dnn/src/darknet/darknet_io.cpp.
    """

    ignored = r"flip|angle|saturation|exposure|shift"
    crop_height: int = field(0, "int32", least=1, doc="rows of the output")
    crop_width: int = field(0, "int32", least=1, doc="columns of the output")
    noadjust: bool = attribute("bool", False, doc="whether values stay as they are")

    def forward(self, x: Array) -> Array:
        (h, w), size = plane_of(x), (self.crop_height, self.crop_width)
        need(size[0] <= h and size[1] <= w, f"crops {size[0]} x {size[1]} of a map of {h} x {w}")
        top, left = (h - size[0]) // 2, (w - size[1]) // 2
        y = x[:, :, top : top + size[0], left : left + size[1]]
        return y if self.noadjust else y * np.float32(2) - np.float32(1)


@layer("upsample")
class Upsample(DarknetLayer):
    """Repeat each pixel `stride` x `stride` times, and multiply by `scale`.

    (N, C, H, W) to (N, C, H * stride, W * stride). OpenCV ignores `scale`.
    Source: AlexeyAB/darknet src/blas.c upsample_cpu.
    """

    stride: int = field(0, "int32", least=1, doc="number of repetitions")
    scale: float = attribute("float", 1.0, doc="factor of every value")

    def forward(self, x: Array) -> Array:
        plane_of(x)
        y = repeat_pixels(x, self.stride, self.stride)
        return y if self.scale == 1 else y * np.float32(self.scale)


@layer("reorg")
class Reorg(DarknetLayer):
    """Move pixels into channels in the order of Darknet, which first reads the input as a wider map.

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`, or with `extra` to all values and zeros after
    them.
    Source: AlexeyAB/darknet src/reorg_old_layer.c; pjreddie/darknet src/reorg_layer.c (executed).
    """

    neutral = {"reverse": 0, "flatten": 0}
    stride: int = field(0, "int32", least=1, doc="side of the blocks of pixels")
    extra: int = field(0, "int32", 0, least=0, most=1 << 20, doc="number of zeros after the values")

    def forward(self, x: Array) -> Array:
        if self.extra:
            return np.pad(x.reshape(x.shape[0], math.prod(x.shape[1:])), ((0, 0), (0, self.extra)))
        return darknet_order(x, self.stride)


@layer("reorg3d")
class Reorg3d(DarknetLayer):
    """Move pixels into channels, keeping the channels of a pixel together, or back with `reverse`.

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`. Channel (dy * s + dx) * C + c holds pixel (dy,
    dx) of each block.
    Source: AlexeyAB/darknet src/reorg_layer.c, src/blas.c reorg_cpu.
    """

    stride: int = field(0, "int32", least=1, doc="side of the blocks of pixels")
    reverse: bool = attribute("bool", False, doc="move channels into pixels")

    def forward(self, x: Array) -> Array:
        return into_pixels(x, self.stride) if self.reverse else into_channels(x, self.stride)
