"""Reorg: three operators of this name."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._reorg import back_from_darknet, darknet, into_channels, into_pixels
from anylayer.network import Array


@layer("Reorg", dialects=("darknet", "mobilenet-yolo", "yolov2", "atlas", "opencv", "rknn"))
class Reorg(Layer):
    """Move pixels into channels in the order of Darknet, which first reads the input as a wider map.

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`; see `darknet` in _reorg.py. With `reverse`,
    channels to pixels: (N, C / s / s, H * s, W * s), where pixel (dy, dx) of a block comes from channel (dy * s +
    dx) * C / s / s + c. OpenCV reads neither field: its stride is 2.
    Source: pjreddie/darknet src/blas.c reorg_cpu; gklz1982/caffe-yolov2 and eric612/MobileNet-YOLO reorg_layer;
    opencv modules/dnn/src/layers/reorg_layer.cpp.
    """

    message = "reorg_param"
    numbers = {"": 147, "yolov2": 147, "ncnn": 147, "mobilenet-yolo": 149, "atlas": 150, "opencv": 0}
    stride: int = field(1, "uint32", dialects={"opencv": 2}, doc="side of the blocks of pixels")
    reverse: bool = field(2, "bool", False, doc="move channels into pixels")

    def setup(self) -> None:
        need(
            self.dialect != "opencv" or (self.stride == 2 and not self.reverse),
            "OpenCV reads no fields of reorg_param: its stride is 2, without reverse",
        )

    def forward(self, x: Array) -> Array:
        return into_pixels(x, self.stride) if self.reverse else darknet(x, self.stride)


@layer("Reorg", dialects=("ascend",))
class ReorgAscend(Layer):
    """Move pixels into channels, keeping the channels of a pixel together (Ascend's PassThrough).

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`. Channel (dy * s + dx) * C + c holds pixel (dy,
    dx) of each block. With `reverse`, the inverse.
    Source: CANN tbe/impl/pass_through.py, fusion_pass pass_through_fusion_pass.cc, op_proto selection_ops.h.
    """

    message = "reorg_param"
    numbers = {"ascend": 155}
    reverse: bool = field(1, "bool", False, doc="move channels into pixels")
    stride: int = field(2, "uint32", 2, doc="side of the blocks of pixels")

    def forward(self, x: Array) -> Array:
        return into_pixels(x, self.stride) if self.reverse else into_channels(x, self.stride)


@layer("Reorg", dialects=("sophgo",))
class ReorgSophgo(Layer):
    """Move pixels into channels, keeping the channels of a pixel together, and back in Darknet's order (Sophgo).

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`, as Ascend's layer. With `reverse` to (N, C / s
    / s, H * s, W * s), which is not the inverse; see `back_from_darknet` in _reorg.py.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "reorg_param"
    numbers = {"sophgo": 159}
    stride: int = field(1, "uint32", doc="side of the blocks of pixels")
    reverse: bool = field(2, "bool", False, doc="move channels into pixels")

    needs_dialect = True

    def forward(self, x: Array) -> Array:
        return back_from_darknet(x, self.stride) if self.reverse else into_channels(x, self.stride)
