"""Upsample, which is the name of five operators, and UpsampleDarknet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import wording
from anylayer.layer import Array, Enum, Layer, field, layer, need, need_shape
from anylayer.layers._resampling import align_corners, need_plane, plane_of, repeat_pixels, whole_factor
from anylayer.layers._table import operators, row
from anylayer.layers.caffe._messages import reads


@layer("Upsample", dialects=("ascend", "darknet"))
class Upsample(Layer):
    """Repeat each pixel `stride` x `stride` times, and multiply by `scale`.

    (N, C, H, W) to (N, C, H * stride_h, W * stride_w). `stride`, if given, sets both axes. In darknet a negative
    stride sums blocks of that size instead: (N, C, H / -stride, W / -stride).
    Source: CANN ops/built-in/tbe/impl/upsample.py, caffe_plugin/upsample_plugin.cc; pjreddie/darknet
    src/upsample_layer.c, src/blas.c.
    """

    message = "upsample_param"
    numbers = {"": 160, "ascend": 160}
    takes = frozenset({1})
    scale: float = field(1, "float", 1.0, doc="factor of every value")
    stride: int = field(2, "int32", 2, doc="number of repetitions of each pixel in both directions")
    stride_h: int = field(3, "int32", 2, doc="number of repetitions along the height, without stride")
    stride_w: int = field(4, "int32", 2, doc="number of repetitions along the width, without stride")

    def forward(self, x: Array) -> Array:
        plane_of(x)
        tall, wide = (self.stride, self.stride) if self.has("stride") else (self.stride_h, self.stride_w)
        if self.has("scale") and not (self.has("stride") or self.has("stride_h") or self.has("stride_w")):
            need(
                self.dialect != "darknet",
                f"scale={self.scale:g} without stride multiplies the values in Darknet, and is the size's factor "
                "in what converters from Darknet write: give stride, or "
                + wording("dialect='darknet2caffe'", "--dialect darknet2caffe"),
            )
            self.note(f"scale={self.scale:g} multiplies the values; the size is {tall} x {wide} times the input's")
        if tall < 0 and self.dialect == "darknet":
            y = _block_sums(x, -tall)
        else:
            need(tall > 0 and wide > 0, f"stride must be positive, got {tall} x {wide}")
            y = repeat_pixels(x, tall, wide)
        return y if self.scale == 1 else y * np.float32(self.scale)


def _block_sums(x: Array, block: int) -> Array:
    n, c, h, w = x.shape
    need(h % block == 0 and w % block == 0, f"stride={-block} does not divide {h} x {w}")
    return x.reshape(n, c, h // block, block, w // block, block).sum(axis=(3, 5))


@layer("Upsample", dialects=("mobilenet-yolo", "caffe2onnx", "darknet2caffe", "rknn"))
class UpsampleNearest(Layer):
    """Repeat each pixel `scale` x `scale` times: `scale` is the factor of the size.

    (..., H, W) to (..., H * scale, W * scale). caffe2onnx has no default for `scale`, the others 1.
    Source: eric612/MobileNet-YOLO and ChenYingpeng/darknet2caffe upsample_layer.cpp; asiryan/caffe2onnx.
    """

    message = "upsample_param"
    numbers = {"mobilenet-yolo": 150, "caffe2onnx": 149, "darknet2caffe": 149}
    takes = frozenset({1})
    scale: float = field(1, "float", 1.0, doc="the output's size over the input's", dialects={"caffe2onnx": 0.0})

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        scale = values.get("scale", 1)
        whole = isinstance(scale, (int, float)) and 1 <= scale < math.inf and scale == int(scale)
        return whole and super().fits(values, inputs, outputs)

    def forward(self, x: Array) -> Array:
        need(len(x.shape) >= 2, f"input 0 must be of shape (..., H, W), got {tuple(x.shape)}")
        scale = int(self.scale) if math.isfinite(self.scale) else 0
        need(scale == self.scale and scale >= 1, f"scale must be an integer of at least 1, got {self.scale:g}")
        return x if scale == 1 else repeat_pixels(x, scale, scale)


@layer("Upsample", dialects=("segnet", "synopsys"))
class Unpool(Layer):
    """Undo a maximum pooling: put each value at the place that the pooling's mask states, with zeros elsewhere.

    (N, C, H, W) and the mask, of the same shape, to (N, C, H', W'), with H' = `upsample_h` if both sizes are
    given, else H * scale_h, minus 1 with `pad_out_h`. The mask counts the pixels of one output plane. Of values
    for one place the last one remains.
    Source: alexgkendall/caffe-segnet src/caffe/layers/upsample_layer.cpp.
    """

    message = "upsample_param"
    numbers = {"segnet": 137, "synopsys": 177}
    takes = frozenset({2})
    scale: int = field(1, "uint32", 2, doc="the output's size over the input's")
    scale_h: int = field(2, "uint32", 0, doc="the same for the rows; goes with scale_w")
    scale_w: int = field(3, "uint32", 0, doc="the same for the columns")
    pad_out_h: bool = field(4, "bool", False, doc="whether the output has one row less; for a scale of 2")
    pad_out_w: bool = field(5, "bool", False, doc="whether the output has one column less; for a scale of 2")
    upsample_h: int = field(6, "uint32", 0, doc="rows of the output; goes with upsample_w")
    upsample_w: int = field(7, "uint32", 0, doc="columns of the output")

    def setup(self) -> None:
        sized = self.has("upsample_h") and self.has("upsample_w")
        both = self.has("scale_h") and self.has("scale_w") and not self.has("scale")
        neither = not self.has("scale_h") and not self.has("scale_w")
        need(sized or both or neither, "give upsample_h and upsample_w, or scale, or scale_h and scale_w")

    def forward(self, x: Array, mask: Array) -> Array:
        h, w = plane_of(x)
        need_shape(mask, tuple(x.shape), "the mask (input 1)", about=", as input 0")
        size = self._size(h, w)
        need_plane(*size)
        return ops.max_unpool(x, mask, size)

    def _size(self, h: int, w: int) -> tuple[int, int]:
        if self.has("upsample_h") and self.has("upsample_w"):
            need(
                self.upsample_h > 1 and self.upsample_w > 1,
                f"upsample_h and upsample_w must be at least 2, got {self.upsample_h} and {self.upsample_w}",
            )
            return self.upsample_h, self.upsample_w
        tall, wide = (self.scale_h, self.scale_w) if self.has("scale_h") else (self.scale, self.scale)
        need(tall > 1 and wide > 1, f"the scale must be at least 2, got {tall} x {wide}")
        need(
            (tall == 2 or not self.pad_out_h) and (wide == 2 or not self.pad_out_w),
            f"pad_out_h and pad_out_w go with a scale of 2, got {tall} x {wide}",
        )
        return h * tall - self.pad_out_h, w * wide - self.pad_out_w


@layer("Upsample", dialects=("sophgo",))
class UpsampleSophgo(Unpool):
    """Repeat each pixel `scale` x `scale` times, or with a mask undo a maximum pooling as SegNet's layer (Sophgo).

    (N, C, H, W) to (N, C, H * scale, W * scale). Other fields with one input are refused, because this fork then
    reads elements that are not those of the output's place.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    numbers = {"sophgo": 160}
    needs_dialect = True

    def forward(self, x: Array, mask: Array | None = None) -> Array:
        if mask is not None:
            return super().forward(x, mask)
        plane_of(x)
        others = [name for name in self.fields if name != "scale" and self.has(name)]
        need(
            not others,
            f"{' and '.join(others)} with one input: Sophgo's Caffe reads wrong elements; give scale alone",
        )
        need(self.scale > 1, f"scale must be at least 2, got {self.scale}")
        return repeat_pixels(x, self.scale, self.scale)


@layer("Upsample", dialects=("caffe-plus", "yolov5-caffe"))
class UpsampleTo(Layer):
    """Resize to the size of the second input, to `height` x `width`, or by two scales, as `mode` says.

    (N, C, H, W) to (N, C, H', W'). BILINEAR aligns the corners; NEAREST takes pixel i * H // H'.
    Source: jnulzl/caffe_plus and Wulingtian/yolov5_caffe src/caffe/layers/upsample_layer.cpp.
    """

    message = "upsample_param"
    numbers = {"caffe-plus": 151}
    height: int = field(1, "int32", 32, doc="rows of the output; goes with width")
    width: int = field(2, "int32", 32, doc="columns of the output")
    height_scale: int = field(3, "int32", 2, doc="the output's rows over the input's; goes with width_scale")
    width_scale: int = field(4, "int32", 2, doc="the output's columns over the input's")
    mode: str = field(5, Enum("NEAREST", "BILINEAR"), "BILINEAR", doc="interpolation", others=("NEAREST",))

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        sized = {"height", "width"} <= set(values) or {"height_scale", "width_scale"} <= set(values)
        return (inputs == 2 or (inputs == 1 and sized)) and super().fits(values, inputs, outputs)

    def forward(self, x: Array, like: Array | None = None) -> Array:
        h, w = plane_of(x)
        tall, wide = self._size(h, w) if like is None else plane_of(like, "input 1")
        need_plane(tall, wide)
        if self.mode == "BILINEAR":
            return align_corners(x, (tall, wide))
        rows, columns = whole_factor(h, tall), whole_factor(w, wide)
        if rows and columns:
            return repeat_pixels(x, rows, columns)
        return x[:, :, :, np.arange(wide) * w // wide][:, :, np.arange(tall) * h // tall]

    def _size(self, h: int, w: int) -> tuple[int, int]:
        if self.has("height") and self.has("width"):
            need(
                self.height >= 2 and self.width >= 2,
                f"height and width must be at least 2, got {self.height} and {self.width}",
            )
            return self.height, self.width
        need(
            self.has("height_scale") and self.has("width_scale"),
            "the size is missing: give height and width, height_scale and width_scale, or a second input",
        )
        need(
            self.height_scale >= 2 and self.width_scale >= 2,
            f"height_scale and width_scale must be at least 2, got {self.height_scale} and {self.width_scale}",
        )
        return h * self.height_scale, w * self.width_scale


def _darknet(x: Array, stride: int) -> Array:
    plane_of(x)
    return x if stride == 1 else repeat_pixels(x, stride, stride)


operators(
    Layer,
    "Source: synopsys-caffe src/caffe/proto/caffe.proto, upsample_darknet_layer.cpp.",
    {
        "UpsampleDarknet": row("Repeat each pixel `stride` x `stride` times.", _darknet,
            details="(N, C, H, W) to (N, C, H * stride, W * stride).",
            body=reads("upsample_darknet_param", {"": 209, "synopsys": 209}),
            stride=field(1, "int32", 1, least=1, doc="number of repetitions of each pixel in both directions")),
    },
    __module__=__name__,
)  # fmt: skip
