"""Transposed convolutions. TensorFlow has them as gradients of a convolution with respect to its input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anylayer import ops
from anylayer.layer import Array, need
from anylayer.layer.arguments import channels_first, extent, integers, restored
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer
from anylayer.layers.tensorflow._spatial import windows
from anylayer.layers.tensorflow.conv import PLANES, UNUSED, VOLUMES, WINDOWS, need_rank, steps


def _transpose_of(rank: int) -> Callable[..., Any]:
    """Return the transposed convolution of arrays of a rank: the array whose convolution has the shape of y.

    Several sizes convolve to the shape of y when a stride exceeds 1, so the constant `input_sizes` states them.
    """

    def transposed(
        input_sizes: list[int], w: Array, y: Array, strides: Any, padding: str, explicit_paddings: Any,
        dilations: Any, data_format: str,
    ) -> Any:  # fmt: skip
        stride, spread = steps(rank, data_format, strides, dilations)
        need_rank(rank, filter=w, input=y)
        out = _sizes(input_sizes, w, data_format)
        x = channels_first(y, data_format)
        need(
            x.shape[1] == w.shape[-1],
            f"the filter is for {w.shape[-1]} channels, the input has {x.shape[1]}",
        )
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
