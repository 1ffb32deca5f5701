"""Layers that move pixels into channels, and channels into pixels."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layers._reorg import darknet_order, into_channels, into_pixels, need_groups
from anylayer.layers._resampling import need_plane, plane_of
from anylayer.layers._table import operators, row
from anylayer.layers.caffe._messages import reads


def back_from_darknet(x: Array, stride: int) -> Array:
    """Return (N, C / s / s, H * s, W * s): the order in which Sophgo's Caffe moves channels into pixels.

    The elements, in C order, are read as a map of C / s / s channels and s * H x s * W pixels, whose channels
    become blocks of pixels. The result, in C order, is the output.
    """
    h, w = plane_of(x)
    need_groups(x, stride)
    n, c = x.shape[:2]
    need(c % stride**4 == 0, f"reverse needs stride={stride} to the power of 4 to divide the {c} channels")
    need_plane(h * stride, w * stride)
    seen = x.reshape(n, c // stride**2, h * stride, w * stride)
    return ops.depth_to_space(seen, stride, mode="DCR").reshape(n, c // stride**2, h * stride, w * stride)


@layer("Reorg", dialects=("darknet", "mobilenet-yolo", "yolov2", "atlas", "opencv", "rknn"))
class Reorg(Layer):
    """Move pixels into channels in the order of Darknet, which first reads the input as a wider map.

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`; see `darknet_order`. With `reverse`, channels
    to pixels: (N, C / s / s, H * s, W * s), where pixel (dy, dx) of a block comes from channel (dy * s +
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
        return into_pixels(x, self.stride) if self.reverse else darknet_order(x, self.stride)


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
    / s, H * s, W * s), which is not the inverse; see `back_from_darknet` in reorg.py.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "reorg_param"
    numbers = {"sophgo": 159}
    stride: int = field(1, "uint32", doc="side of the blocks of pixels")
    reverse: bool = field(2, "bool", False, doc="move channels into pixels")

    needs_dialect = True

    def forward(self, x: Array) -> Array:
        return back_from_darknet(x, self.stride) if self.reverse else into_channels(x, self.stride)


@layer("PassThrough")
class PassThrough(ReorgAscend):
    """Move pixels into channels, keeping the channels of a pixel together (Ascend's Reorg under its inner name).

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`; for the source see ReorgAscend in reorg.py.
    """


def _shuffle(x: Array, upscale_factor: int) -> Array:
    (h, w), r = plane_of(x), upscale_factor
    need(x.shape[1] % r**2 == 0, f"upscale_factor={r} squared does not divide {x.shape[1]} channels")
    need_plane(h * r, w * r)
    return ops.depth_to_space(x, r, mode="CRD")


operators(
    Layer,
    "Source: {}.",
    {
        "PixelShuffle": row("Move channels into pixels of blocks of r x r, with r = upscale_factor.", _shuffle,
            "wj1tr0y/gait_extractor src/caffe/layers/pixel_shuffle_layer.cpp",
            "(N, C * r * r, H, W) to (N, C, H * r, W * r). Pixel (dy, dx) of a block of channel c comes from "
            "channel c * r * r + dy * r + dx (arXiv 1609.05158).", {"message": "pixel_shuffle_param"},
            upscale_factor=field(1, "int32", least=2, doc="the output's size over the input's")),
        "Reorg3d": row(
            "Move pixels into channels, keeping the channels of a pixel together (Darknet of AlexeyAB).",
            lambda x, stride, reverse: into_pixels(x, stride) if reverse else into_channels(x, stride),
            "AlexeyAB/darknet src/reorg_layer.c, src/blas.c reorg_cpu ([reorg3d]; its [reorg] is the rule of "
            "Reorg)",
            "(N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`. Channel (dy * s + dx) * C + c holds "
            "pixel (dy, dx) of each block. With `reverse`, the inverse.", {"message": "reorg_param"},
            stride=field(1, "uint32", doc="side of the blocks of pixels"),
            reverse=field(2, "bool", False, doc="move channels into pixels")),
        "ReorgYolo": row("Move pixels into channels in the order of Darknet.", darknet_order,
            "openvinotoolkit/training_toolbox_caffe src/caffe/layers/reorg_yolo_layer.cpp",
            "(N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`; see `darknet_order`.",
            reads("reorg_yolo_param", {"": 215, "model-optimizer": 215}),
            stride=field(1, "int32", 1, doc="side of the blocks of pixels")),
    },
    __module__=__name__,
)  # fmt: skip
