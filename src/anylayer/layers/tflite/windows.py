"""Convolutions, pooling and resizing. Images are (N, H, W, C)."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import integers
from anylayer.layers._table import of_tensorflow, operators
from anylayer.layers.tflite._base import SOURCE, TFLiteLayer, fused_row, same_as
from anylayer.layers.tflite._quantized import bilinear
from anylayer.network import Function, Steps

_SIZE = attribute("int32")
_MAX_CELLS = 1 << 16
"""Cells of a window."""
_convolution = of_tensorflow("Conv2D")
_transpose_of_convolution = of_tensorflow("Conv2DBackpropInput")


def _need_images(x: Array, w: Array) -> None:
    for what, array in (("input", x), ("filter", w)):
        need(len(array.shape) == 4, f"the {what} must have 4 axes, got shape {tuple(array.shape)}")


def _steps(
    stride_h: int, stride_w: int, dilation_h_factor: int = 1, dilation_w_factor: int = 1
) -> dict[str, list[int]]:
    return {"strides": [1, stride_h, stride_w, 1], "dilations": [1, dilation_h_factor, dilation_w_factor, 1]}


def _need_bias(bias: Array, channels: int, x: Array) -> None:
    need(tuple(bias.shape) == (channels,), f"the bias must be of shape ({channels},), got {tuple(bias.shape)}")
    need(bias.dtype == x.dtype, f"the bias of {bias.dtype} has no scale")


def _convolve(
    x: Array, w: Array, bias: Array | None = None, *, padding: str, hybrid: Function, **steps: int
) -> Array:
    _need_images(x, w)
    if bias is not None:
        _need_bias(bias, w.shape[0], x)
    how = {"data_format": "NHWC", "padding": padding, **_steps(**steps)}
    return _convolution(hybrid(x, (1, 2, 3)), w.transpose(1, 2, 3, 0), bias=bias, **how)


def _depthwise(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    padding: str,
    depth_multiplier: int,
    hybrid: Function,
    **steps: int,
) -> Array:
    _need_images(x, w)
    one, channels = w.shape[0], w.shape[3]
    need(one == 1, f"the filter must be (1, height, width, C * K), got {tuple(w.shape)}")
    need(channels % x.shape[-1] == 0, f"a filter of {channels} channels does not fit {x.shape[-1]} of the input")
    times = channels // x.shape[-1]
    need(
        depth_multiplier in (0, times),
        f"depth_multiplier is {depth_multiplier}, but the filter has {times} per channel",
    )
    return _convolve(x, w.transpose(3, 1, 2, 0), bias, padding=padding, hybrid=hybrid, **steps)


def transpose_convolution(
    shape: list[int], w: Array, x: Array, bias: Array | None = None, *, padding: str, stride_h: int, stride_w: int
) -> Array:
    _need_images(x, w)
    how = {"padding": padding, "explicit_paddings": (), "data_format": "NHWC", **_steps(stride_h, stride_w)}
    y: Array = _transpose_of_convolution(shape, w.transpose(1, 2, 0, 3), x, **how)
    if bias is None:
        return y
    _need_bias(bias, w.shape[0], x)
    return y + bias


def _transpose_convolution(
    shape: list[int],
    w: Array,
    x: Array,
    bias: Array | None = None,
    *,
    hybrid: Function,
    padding: str,
    **steps: int,
) -> Array:
    return transpose_convolution(shape, w, hybrid(x, (1, 2, 3)), bias, padding=padding, **steps)


def _pooling(kind: str) -> Function:
    pool = of_tensorflow(kind)

    def pool_images(
        x: Array, *, padding: str, filter_height: int, filter_width: int, stride_h: int, stride_w: int
    ) -> Array:
        size = f"{filter_height} x {filter_width}"
        need(
            filter_height * filter_width <= _MAX_CELLS,
            f"a window of {size} exceeds the limit of {_MAX_CELLS} cells",
        )
        ksize, strides = [1, filter_height, filter_width, 1], [1, stride_h, stride_w, 1]
        return pool(x, ksize, strides, padding, explicit_paddings=(), data_format="NHWC")

    return pool_images


_mean_pooling = _pooling("AvgPool")


def _average(x: Array, *, input_steps: Steps | None, **windows: object) -> Array:
    """Return the means of windows. Halves of quantized ones are moved, so that they are rounded away from 0."""
    y: Array = _mean_pooling(x, **windows)
    if not input_steps:
        return y
    scale, zero, _ = input_steps
    half = scale * np.float32(2**-10)
    return y + np.where(y < zero * -scale, -half, half)


def _l2_pooling(x: Array, **windows: object) -> Array:
    return np.sqrt(_mean_pooling(x * x, **windows))


_STRIDES = {"padding": attribute(Enum("SAME", "VALID")), "stride_h": _SIZE, "stride_w": _SIZE}
_DILATIONS = {name: attribute("int32", 1) for name in ("dilation_h_factor", "dilation_w_factor")}
_POOL = {**_STRIDES, "filter_height": _SIZE, "filter_width": _SIZE}
_PADDING = "padding SAME gives H' = ceil(H / stride), VALID H' = ceil((H - extent + 1) / stride)."

operators(
    TFLiteLayer,
    SOURCE,
    {
        "CONV_2D": fused_row("Convolve images with a filter (M, height, width, C / groups), and add a bias.",
            _convolve, "conv", f"(N, H, W, C) to (N, H', W', M). The bias (M,) may be absent. {_PADDING}",
            **_STRIDES, **_DILATIONS),
        "DEPTHWISE_CONV_2D": fused_row("Convolve each channel with filters of its own, and add a bias.",
            _depthwise, "depthwise_conv",
            "(N, H, W, C) with a filter (1, height, width, C * K) to (N, H', W', C * K). Channel c * K + k of the "
            "output is channel c of x convolved with filter c * K + k.",
            depth_multiplier=_SIZE, **_STRIDES, **_DILATIONS),
        "TRANSPOSE_CONV": fused_row("Compute the transposed convolution of images, and add a bias.",
            _transpose_convolution, "transpose_conv",
            "Inputs: the shape (N, H', W', M) of the output, a constant; the filter (M, height, width, C); x "
            "(N, H, W, C); a bias (M,), which may be absent.", shape=integers, **_STRIDES),
        "AVERAGE_POOL_2D": fused_row("Compute the mean of each window, without padded cells.",
            _average, "pooling", f"(N, H, W, C) to (N, H', W', C). {_PADDING}", **_POOL),
        "MAX_POOL_2D": fused_row("Compute the maximum of each window.", _pooling("MaxPool"), "pooling",
            f"(N, H, W, C) to (N, H', W', C). {_PADDING}", **_POOL),
        "L2_POOL_2D": fused_row("Compute the square root of the mean of the squares of each window.",
            _l2_pooling, "pooling", f"(N, H, W, C) to (N, H', W', C). {_PADDING}", **_POOL),
        "RESIZE_BILINEAR": same_as("ResizeBilinear", "resize_bilinear", bilinear),
        "RESIZE_NEAREST_NEIGHBOR": same_as("ResizeNearestNeighbor", "resize_nearest_neighbor"),
        "SPACE_TO_DEPTH": same_as("SpaceToDepth", "space_to_depth"),
        "DEPTH_TO_SPACE": same_as("DepthToSpace", "depth_to_space"),
        "SPACE_TO_BATCH_ND": same_as("SpaceToBatchND", "space_to_batch_nd"),
        "BATCH_TO_SPACE_ND": same_as("BatchToSpaceND", "batch_to_space_nd"),
    },
)  # fmt: skip
