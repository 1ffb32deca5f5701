"""Convolutions. TensorFlow's convolutions are cross-correlations: kernels are not flipped."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import channels_first, extent, flat_pads, restored
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer
from anylayer.layers.tensorflow._spatial import spatial, windows

PLANES = attribute(Enum("NHWC", "NCHW"), "NHWC")
VOLUMES = attribute(Enum("NDHWC", "NCDHW"), "NDHWC")
WINDOWS: Any = {
    "strides": attribute("int64", repeated=True, doc="one per axis, in the order of data_format"),
    "padding": attribute(Enum("SAME", "VALID", "EXPLICIT")),
    "explicit_paddings": attribute("int64", (), repeated=True),
    "dilations": attribute("int64", (), repeated=True),
}
"""The attributes that convolutions and their transposes share."""
UNUSED = {"harmless": frozenset({"use_cudnn_on_gpu"})}


def need_rank(rank: int, **arrays: Array) -> None:
    """Raise LayerError when an array, which the message calls by its keyword, has another rank."""
    for what, array in arrays.items():
        need(len(array.shape) == rank, f"the {what} must have {rank} axes, got shape {tuple(array.shape)}")


def steps(rank: int, data_format: str, strides: Any, dilations: Any) -> tuple[list[int], list[int]]:
    """Return the strides and the dilations of the spatial axes."""
    return (
        spatial(strides, data_format, rank, "strides"),
        spatial(dilations or (1,) * rank, data_format, rank, "dilations"),
    )


def _convolve(
    x: Array,
    w: Array,
    group: int,
    data_format: str,
    strides: Any,
    padding: str,
    explicit_paddings: Any = (),
    dilations: Any = (),
) -> Any:
    """Return the convolution of `x`, in the layout of data_format, with kernels (M, C / group, ...)."""
    stride, spread = steps(len(w.shape), data_format, strides, dilations)
    y = channels_first(x, data_format)
    reach = [extent(k, d) for k, d in zip(w.shape[2:], spread)]
    pairs = windows(padding, y.shape[2:], reach, stride, explicit_paddings, data_format)
    y = ops.conv(y, w, strides=stride, pads=flat_pads(pairs), dilations=spread, group=group)
    return restored(y, data_format)


def _channels(x: Array, data_format: str) -> int:
    return int(x.shape[1 if data_format.startswith("NC") else -1])


def grouped_convolution(x: Array, w: Array, rank: int, data_format: str, **how: Any) -> Any:
    """Return the convolution with a filter (..., C / groups, M), where the channels of `x` give the groups."""
    need_rank(rank, input=x, filter=w)
    channels, inner = _channels(x, data_format), w.shape[-2]
    need(
        channels % inner == 0,
        f"the filter has {inner} channels, which does not divide the input's {channels}",
    )
    kernels = w.transpose(rank - 1, rank - 2, *range(rank - 2))
    return _convolve(x, kernels, channels // inner, data_format, **how)


def _depthwise(x: Array, w: Array, data_format: str, **how: Any) -> Any:
    need_rank(4, input=x, filter=w)
    height, width, channels, times = w.shape
    count = _channels(x, data_format)
    need(channels == count, f"the filter is for {channels} channels, the input has {count}")
    kernels = w.transpose(2, 3, 0, 1).reshape(channels * times, 1, height, width)
    return _convolve(x, kernels, channels, data_format, **how)


operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "Conv2D": row("Convolve images (N, H, W, C) with a filter (height, width, C / groups, M).",
            lambda x, w, **how: grouped_convolution(x, w, 4, **how), "conv_ops.cc",
            "The output is (N, H', W', M); data_format NCHW puts channels at axis 1 of input and output. The "
            "kernel is not flipped. padding SAME gives H' = ceil(H / stride), VALID H' = ceil((H - extent + 1) / "
            "stride), where extent = (height - 1) * dilation + 1; EXPLICIT takes explicit_paddings.",
            UNUSED, data_format=PLANES, **WINDOWS),
        "Conv3D": row("Convolve volumes (N, D, H, W, C) with a filter (depth, height, width, C / groups, M).",
            lambda x, w, **how: grouped_convolution(x, w, 5, **how), "conv_ops_3d.cc",
            "The output is (N, D', H', W', M), of the sizes that Conv2D explains; data_format NCDHW puts channels "
            "at axis 1.", UNUSED, data_format=VOLUMES, **WINDOWS),
        "DepthwiseConv2dNative": row("Convolve each channel with filters of its own.", _depthwise,
            "depthwise_conv_op.cc",
            "(N, H, W, C) with a filter (height, width, C, K) to (N, H', W', C * K), of the sizes that Conv2D "
            "explains. Channel c * K + k of the output is channel c of x convolved with filter[:, :, c, k].",
            UNUSED, data_format=PLANES, **WINDOWS),
    },
)  # fmt: skip
