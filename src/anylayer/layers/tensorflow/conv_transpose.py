"""Transposed convolutions. TensorFlow has them as gradients of a convolution with respect to its input."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, layer, need
from anylayer.layer.arguments import channels_first, extent, integers, restored
from anylayer.layers.tensorflow._spatial import windows
from anylayer.layers.tensorflow.conv import _Windows


class _Backprop(_Windows):
    """A transposed convolution: the array of the given sizes whose convolution has the shape of y.

    Several sizes convolve to the shape of y when a stride exceeds 1, so the input `sizes`, a constant, states
    them.
    """

    rank = 4
    dilations: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, sizes: Array, w: Array, y: Array) -> Any:
        sizes_of_input = integers(sizes, "input_sizes")
        strides, spread = self.steps(self.rank, self.dilations)
        for what, array in (("filter", w), ("input", y)):
            need(
                len(array.shape) == self.rank,
                f"the {what} must have {self.rank} axes, got shape {tuple(array.shape)}",
            )
        out = self._sizes(sizes_of_input, w)
        x = channels_first(y, self.data_format)
        need(
            x.shape[1] == w.shape[-1],
            f"the filter is for {w.shape[-1]} channels, the input has {x.shape[1]}",
        )
        reach = [extent(k, d) for k, d in zip(w.shape, spread)]
        pairs = windows(self.padding, out, reach, strides, self.explicit_paddings, self.data_format)
        ends, extra = [], []
        for n, e, s, size, (before, after) in zip(x.shape[2:], reach, strides, out, pairs):
            need(
                (size + before + after - e) // s + 1 == n and size + before + after >= e,
                f"input size {size} does not convolve to {n} (extent {e}, stride {s}, padding {self.padding})",
            )
            rest = size + before - (s * (n - 1) + e)
            ends.append(max(-rest, 0))
            extra.append(max(rest, 0))
        order = (self.rank - 1, self.rank - 2, *range(self.rank - 2))
        result = ops.conv_transpose(
            x,
            w.transpose(order),
            strides=strides,
            pads=[*(b for b, _ in pairs), *ends],
            dilations=spread,
            output_padding=extra,
        )
        return restored(result, self.data_format)

    def _sizes(self, numbers: list[int], w: Array) -> list[int]:
        """Return the spatial sizes of the output."""
        axes = self.rank - 2
        if len(numbers) == axes:
            return numbers
        need(
            len(numbers) == self.rank,
            f"input_sizes must be {self.rank} numbers, one per axis, got {numbers}",
        )
        first = self.data_format.startswith("NC")
        channels = numbers[1] if first else numbers[-1]
        need(
            channels == w.shape[-2],
            f"input_sizes states {channels} channels, but the filter has {w.shape[-2]}",
        )
        return numbers[2:] if first else numbers[1:-1]


@layer("Conv2DBackpropInput")
class Conv2DBackpropInput(_Backprop):
    """Compute the transposed convolution of images with a filter (height, width, M, C).

    Inputs: input_sizes, a constant with the shape (N, H', W', M) of the output or with (H', W'); the filter; and y
    (N, H, W, C). H must be the height that a convolution of H' with the same attributes gives.
    Source: tf.raw_ops.Conv2DBackpropInput; tensorflow/core/kernels/conv_grad_input_ops.cc.
    """

    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")


@layer("Conv3DBackpropInputV2")
class Conv3DBackpropInputV2(_Backprop):
    """Compute the transposed convolution of volumes with a filter (depth, height, width, M, C).

    Inputs: input_sizes, a constant with the shape (N, D', H', W', M) of the output or with (D', H', W'); the
    filter; and y (N, D, H, W, C).
    Source: tf.raw_ops.Conv3DBackpropInputV2; tensorflow/core/kernels/conv_grad_ops_3d.cc.
    """

    data_format: str = attribute(Enum("NDHWC", "NCDHW"), "NDHWC")
    rank = 5
