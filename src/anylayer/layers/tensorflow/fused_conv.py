"""Convolutions fused with the steps that prepare their input: a resize and mirrored padding."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layer import Array, Enum, attribute
from anylayer.layer.arguments import channels_first, restored
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer
from anylayer.layers.tensorflow.arranging import mirror_pad
from anylayer.layers.tensorflow.conv import UNUSED, WINDOWS, grouped_convolution
from anylayer.layers.tensorflow.resize import plane_size


def _padded(x: Array, paddings: Array, w: Array, mode: str, **how: Any) -> Any:
    return grouped_convolution(mirror_pad(x, paddings, mode), w, 4, "NHWC", **how)


def _resized(x: Array, size: Array, paddings: Array, w: Array, resize_align_corners: bool, **how: Any) -> Any:
    rule = "align_corners" if resize_align_corners else "asymmetric"
    y = ops.resize(channels_first(x, "NHWC"), plane_size(x, size), mode="linear", coordinates=rule)
    return _padded(restored(y, "NHWC"), paddings, w, **how)


_HOW: Any = {
    **WINDOWS,
    "mode": attribute(Enum("REFLECT", "SYMMETRIC")),
    "padding": attribute(Enum("SAME", "VALID")),
}

operators(
    TensorFlowLayer,
    f"{SOURCE}conv_ops_fused_image_transform.cc.",
    {
        "FusedPadConv2D": row("Apply MirrorPad, then Conv2D.", _padded,
            details="Inputs: x (N, H, W, C), paddings (4, 2), a filter (height, width, C / groups, M). All images "
            "of a batch are computed alike, whereas TensorFlow 2.21 gives other values from the second image on.",
            body=UNUSED, **_HOW),
        "FusedResizeAndPadConv2D": row("Apply ResizeBilinear, then MirrorPad, then Conv2D.", _resized,
            details="Inputs: x (N, H, W, C), size (height, width), paddings (4, 2), a filter (height, width, "
            "C / groups, M). size and paddings are constants.",
            body=UNUSED, resize_align_corners=attribute("bool", False), **_HOW),
    },
)  # fmt: skip
