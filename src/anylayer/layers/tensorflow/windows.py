"""Convolutions and pooling. TensorFlow's convolutions are cross-correlations: kernels are not flipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import Pairs, channels_first, extent, flat_pads, integers, restored, same_pads
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, results
from anylayer.layers.tensorflow.resize import plane_size
from anylayer.layers.tensorflow.shapes import mirror_pad
from anylayer.network import Function

_MAX_CELLS = 1 << 12
"""Cells of a window whose pixels are taken one by one."""


def spatial(values: Sequence[int], data_format: str, rank: int, what: str) -> list[int]:
    """Return the entries of the spatial axes from an attribute with one value per axis.

    Raise LayerError when the entry of batch or channels is not 1.
    """
    need(len(values) == rank, f"{what} must be {rank} numbers, one per axis, got {list(values)}")
    first = data_format.startswith("NC")
    outside = [values[0], values[1] if first else values[-1]]
    need(outside == [1, 1], f"{what} of batch and channels must be 1, got {list(values)}")
    inside = list(values[2:] if first else values[1:-1])
    need(all(v >= 1 for v in inside), f"{what} must be 1 or more, got {list(values)}")
    return inside


def windows(
    padding: str,
    sizes: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
    explicit: Sequence[int] = (),
    data_format: str = "NHWC",
) -> Pairs:
    """Return the pads of each spatial axis for padding SAME, VALID or EXPLICIT.

    `extents` are the extents of the dilated kernel. SAME pads as many cells as let ceil(size / stride) windows
    fit, and an odd cell goes after the axis. EXPLICIT takes pairs for all axes, of which those of batch and
    channels must be 0.
    Source: tensorflow/core/framework/common_shape_fns.cc.
    """
    if padding == "EXPLICIT":
        return _explicit(explicit, len(sizes), data_format)
    need(not explicit or not any(explicit), f"explicit_paddings need padding EXPLICIT, got {padding}")
    if padding == "VALID":
        return ((0, 0),) * len(sizes)
    return same_pads(sizes, extents, strides)


def _explicit(explicit: Sequence[int], axes: int, data_format: str) -> Pairs:
    need(
        len(explicit) == 2 * (axes + 2),
        f"explicit_paddings must be {2 * (axes + 2)} numbers, two per axis, got {list(explicit)}",
    )
    pairs = list(zip(explicit[::2], explicit[1::2]))
    channel = 1 if data_format.startswith("NC") else axes + 1
    need(
        pairs[0] == pairs[channel] == (0, 0),
        f"explicit_paddings of batch and channels must be 0, got {list(explicit)}",
    )
    need(all(v >= 0 for v in explicit), f"explicit_paddings must not be negative, got {list(explicit)}")
    return tuple(p for i, p in enumerate(pairs) if i not in (0, channel))


def patches(
    x: Array, kernel: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str, fill: float = 0
) -> list[Array]:
    """Return for each cell of a window the pixel of images (N, H, W, C) at that cell, in all windows.

    `kernel`, `strides` and `rates`, the dilations, have a number for height and one for width. Padded cells hold
    `fill`.
    """
    need(
        kernel[0] * kernel[1] <= _MAX_CELLS,
        f"a window of {kernel[0]} x {kernel[1]} pixels exceeds the limit of {_MAX_CELLS}",
    )
    reach = [extent(k, r) for k, r in zip(kernel, rates)]
    wide = np.pad(x, [(0, 0), *windows(padding, x.shape[1:3], reach, strides), (0, 0)], constant_values=fill)
    counts = [(n - e) // s + 1 for n, e, s in zip(wide.shape[1:3], reach, strides)]
    need(min(counts) > 0, f"a window with an extent of {reach} pixels does not fit the input {tuple(x.shape)}")
    return [
        wide[:, *(slice(c * r, c * r + (n - 1) * s + 1, s) for c, r, n, s in zip((i, j), rates, counts, strides))]
        for i in range(kernel[0])
        for j in range(kernel[1])
    ]


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
    bias: Array | None = None,
) -> Array:
    """Return the convolution of `x`, in the layout of data_format, with kernels (M, C / group, ...) and a bias."""
    stride, spread = steps(len(w.shape), data_format, strides, dilations)
    y = channels_first(x, data_format)
    reach = [extent(k, d) for k, d in zip(w.shape[2:], spread)]
    pairs = windows(padding, y.shape[2:], reach, stride, explicit_paddings, data_format)
    y = ops.conv(y, w, bias, strides=stride, pads=flat_pads(pairs), dilations=spread, group=group)
    return restored(y, data_format)


def _channels(x: Array, data_format: str) -> int:
    return int(x.shape[1 if data_format.startswith("NC") else -1])


def grouped_convolution(x: Array, w: Array, rank: int, data_format: str, **how: Any) -> Array:
    """Return the convolution with a filter (..., C / groups, M), where the channels of `x` give the groups."""
    need_rank(rank, input=x, filter=w)
    channels, inner = _channels(x, data_format), w.shape[-2]
    need(channels % inner == 0, f"the filter has {inner} channels, which does not divide the input's {channels}")
    kernels = w.transpose(rank - 1, rank - 2, *range(rank - 2))
    return _convolve(x, kernels, channels // inner, data_format, **how)


def _depthwise(x: Array, w: Array, data_format: str, **how: Any) -> Array:
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


def _transpose_of(rank: int) -> Function:
    """Return the transposed convolution of arrays of a rank: the array whose convolution has the shape of y.

    Several sizes convolve to the shape of y when a stride exceeds 1, so the constant `input_sizes` states them.
    """

    def transposed(
        input_sizes: list[int], w: Array, y: Array, strides: Any, padding: str, explicit_paddings: Any,
        dilations: Any, data_format: str,
    ) -> Array:  # fmt: skip
        stride, spread = steps(rank, data_format, strides, dilations)
        need_rank(rank, filter=w, input=y)
        out = _sizes(input_sizes, w, data_format)
        x = channels_first(y, data_format)
        need(x.shape[1] == w.shape[-1], f"the filter is for {w.shape[-1]} channels, the input has {x.shape[1]}")
        reach = [extent(k, d) for k, d in zip(w.shape, spread)]
        pairs = windows(padding, out, reach, stride, explicit_paddings, data_format)
        ends, extra = [], []
        for n, e, s, size, (before, after) in zip(x.shape[2:], reach, stride, out, pairs):
            need(
                (size + before + after - e) // s + 1 == n and size + before + after >= e,
                f"input size {size} does not convolve to {n} (extent {e}, stride {s}, padding {padding})",
            )
            rest = size + before - (s * (n - 1) + e)
            ends.append(max(-rest, 0))
            extra.append(max(rest, 0))
        kernels = w.transpose(rank - 1, rank - 2, *range(rank - 2))
        pads = [*(b for b, _ in pairs), *ends]
        result = ops.conv_transpose(x, kernels, strides=stride, pads=pads, dilations=spread, output_padding=extra)
        return restored(result, data_format)

    return transposed


def _sizes(numbers: list[int], w: Array, data_format: str) -> list[int]:
    """Return the spatial sizes of the output."""
    rank = len(w.shape)
    if len(numbers) == rank - 2:
        return numbers
    need(len(numbers) == rank, f"input_sizes must be {rank} numbers, one per axis, got {numbers}")
    first = data_format.startswith("NC")
    channels = numbers[1] if first else numbers[-1]
    need(channels == w.shape[-2], f"input_sizes states {channels} channels, but the filter has {w.shape[-2]}")
    return numbers[2:] if first else numbers[1:-1]


operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "Conv2DBackpropInput": row(
            "Compute the transposed convolution of images with a filter (height, width, M, C).", _transpose_of(4),
            "conv_grad_input_ops.cc",
            "Inputs: input_sizes, a constant with the shape (N, H', W', M) of the output or with (H', W'); the "
            "filter; and y (N, H, W, C). H must be the height that a convolution of H' with the same attributes "
            "gives.", UNUSED, input_sizes=integers, data_format=PLANES, **WINDOWS),
        "Conv3DBackpropInputV2": row(
            "Compute the transposed convolution of volumes with a filter (depth, height, width, M, C).",
            _transpose_of(5), "conv_grad_ops_3d.cc",
            "Inputs: input_sizes, a constant with the shape (N, D', H', W', M) of the output or with "
            "(D', H', W'); the filter; and y (N, D, H, W, C).",
            UNUSED, input_sizes=integers, data_format=VOLUMES, **WINDOWS),
    },
)  # fmt: skip


def _pad_conv(x: Array, paddings: Array, w: Array, mode: str, **how: Any) -> Array:
    return grouped_convolution(mirror_pad(x, paddings, mode), w, 4, "NHWC", **how)


def _resize_conv(
    x: Array, size: Array, paddings: Array, w: Array, resize_align_corners: bool, **how: Any
) -> Array:
    rule = "align_corners" if resize_align_corners else "asymmetric"
    y = ops.resize(channels_first(x, "NHWC"), plane_size(x, size), mode="linear", coordinates=rule)
    return _pad_conv(restored(y, "NHWC"), paddings, w, **how)


_HOW: Any = {
    **WINDOWS,
    "mode": attribute(Enum("REFLECT", "SYMMETRIC")),
    "padding": attribute(Enum("SAME", "VALID")),
}

operators(
    TensorFlowLayer,
    f"{SOURCE}conv_ops_fused_image_transform.cc.",
    {
        "FusedPadConv2D": row("Apply MirrorPad, then Conv2D.", _pad_conv,
            details="Inputs: x (N, H, W, C), paddings (4, 2), a filter (height, width, C / groups, M). All images "
            "of a batch are computed alike, whereas TensorFlow 2.21 gives other values from the second image on.",
            body=UNUSED, **_HOW),
        "FusedResizeAndPadConv2D": row("Apply ResizeBilinear, then MirrorPad, then Conv2D.", _resize_conv,
            details="Inputs: x (N, H, W, C), size (height, width), paddings (4, 2), a filter (height, width, "
            "C / groups, M). size and paddings are constants.",
            body=UNUSED, resize_align_corners=attribute("bool", False), **_HOW),
    },
)  # fmt: skip


def _pooling(function: Function, rank: int = 4) -> Function:
    """Return a pooling of arrays of a rank in any layout, from an operator of anylayer.ops.

    Cells that SAME or EXPLICIT pad count neither in a maximum nor in a mean.
    """

    def pool(x: Array, ksize: Any, strides: Any, padding: str, explicit_paddings: Any, data_format: str) -> Any:
        need(len(x.shape) == rank, f"the input must have {rank} axes, got shape {tuple(x.shape)}")
        kernel = spatial(ksize, data_format, rank, "ksize")
        steps = spatial(strides, data_format, rank, "strides")
        y = channels_first(x, data_format)
        pads = flat_pads(windows(padding, y.shape[2:], kernel, steps, explicit_paddings, data_format))
        pooled = function(y, kernel, strides=steps, pads=pads)
        parts = [restored(part, data_format) for part in (pooled if isinstance(pooled, tuple) else (pooled,))]
        return parts if len(parts) > 1 else parts[0]

    return pool


def _with_argmax(x: Array, Targmax: str, include_batch_in_index: bool, data_format: str, **how: Any) -> Any:
    need(data_format == "NHWC", f"data_format must be NHWC, got {data_format}")
    best, place = _pooling(ops.max_pool_with_indices)(x, data_format=data_format, **how)
    n, height, width, channels = x.shape
    index = place * channels + np.arange(channels)
    if include_batch_in_index:
        index = index + (np.arange(n) * (height * width * channels)).reshape(n, 1, 1, 1)
    return best, index.astype(Targmax)


_PER_AXIS = attribute("int64", repeated=True, doc="one per axis, in the order of data_format")
_FIXED = {"ksize": _PER_AXIS, "strides": _PER_AXIS}
_PLANES = {"data_format": attribute(Enum("NHWC", "NCHW"), "NHWC")}
_VOLUMES = {"data_format": attribute(Enum("NDHWC", "NCDHW"), "NDHWC")}
_SIZES = (
    "(N, H, W, C) to (N, H', W', C), sizes as in Conv2D; data_format NCHW puts channels at axis 1. ksize and "
    "strides have one value per axis, and those of batch and channels are 1."
)
_SIZES_3D = "(N, D, H, W, C) to (N, D', H', W', C); data_format NCDHW puts channels at axis 1."

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "MaxPool": row("Compute the maximum of each window.", _pooling(ops.max_pool), "maxpooling_op.cc", _SIZES,
            **_FIXED, **_PLANES),
        "AvgPool": row("Compute the mean of each window, without padded cells.", _pooling(ops.average_pool),
            "avgpooling_op.cc", _SIZES, **_FIXED, **_PLANES),
        "MaxPool3D": row("Compute the maximum of each window of a volume.", _pooling(ops.max_pool, 5),
            "pooling_ops_3d.cc", _SIZES_3D, **_FIXED, **_VOLUMES),
        "AvgPool3D": row("Compute the mean of each window of a volume, without padded cells.",
            _pooling(ops.average_pool, 5), "pooling_ops_3d.cc", _SIZES_3D, **_FIXED, **_VOLUMES),
        "MaxPoolV2": row("Compute the maximum of each window, whose size and strides are constant inputs.",
            _pooling(ops.max_pool), "maxpooling_op.cc", "Shapes as for MaxPool.",
            ksize=integers, strides=integers, **_PLANES),
        "MaxPoolWithArgmax": row("Compute the maximum of each window and its index.", _with_argmax,
            "maxpooling_op.cc",
            "(N, H, W, C) to two outputs (N, H', W', C). The index of the element in row y, column x and channel "
            "c is (y * W + x) * C + c; with include_batch_in_index, n * H * W * C is added for image n.",
            {"results": results("output", "argmax")}, Targmax=attribute(Enum("int32", "int64"), "int64"),
            include_batch_in_index=attribute("bool", False), **_FIXED, **_PLANES),
    },
    attributes={
        "padding": attribute(Enum("SAME", "VALID", "EXPLICIT")),
        "explicit_paddings": attribute("int64", (), repeated=True),
    },
)  # fmt: skip
