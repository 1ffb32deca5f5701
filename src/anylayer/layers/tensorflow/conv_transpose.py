"""Transposed convolutions: TensorFlow has them as the gradient of a convolution's input."""

from __future__ import annotations

from typing import Any

from anylayer import ops
from anylayer.layers.tensorflow._base import Enum, attribute, layer, need, whole
from anylayer.layers.tensorflow._spatial import as_before, channels_first, extent, windows
from anylayer.layers.tensorflow.conv import _Windows


class _Backprop(_Windows):
    """The map whose convolution has the shape of the given one: `sizes` says which of those that fit."""

    rank = 4
    dilations: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, sizes: Any, w: Any, y: Any) -> Any:
        wanted = whole(sizes, "input_sizes")
        strides, spread = self.steps(self.rank, self.dilations)
        for what, array in (("filter", w), ("input", y)):
            need(
                len(array.shape) == self.rank,
                f"the {what} must have {self.rank} axes, got shape {tuple(array.shape)}",
            )
        out = self._sizes(wanted, w)
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
                f"a map of {size} cells does not convolve to {n} (kernel {e}, stride {s}, padding {self.padding})",
            )
            rest = size + before - (s * (n - 1) + e)
            ends.append(max(-rest, 0))
            extra.append(max(rest, 0))
        order = (self.rank - 1, self.rank - 2, *range(self.rank - 2))
        done = ops.conv_transpose(
            x,
            w.transpose(order),
            strides=strides,
            pads=[*(b for b, _ in pairs), *ends],
            dilations=spread,
            output_padding=extra,
        )
        return as_before(done, self.data_format)

    def _sizes(self, wanted: list[int], w: Any) -> list[int]:
        """The spatial sizes of the result."""
        axes = self.rank - 2
        if len(wanted) == axes:
            return wanted
        need(
            len(wanted) == self.rank,
            f"input_sizes must be {self.rank} numbers, one an axis, got {wanted}",
        )
        first = self.data_format.startswith("NC")
        channels = wanted[1] if first else wanted[-1]
        need(
            channels == w.shape[-2],
            f"input_sizes names {channels} channels, the filter has {w.shape[-2]}",
        )
        return wanted[2:] if first else wanted[1:-1]


@layer("Conv2DBackpropInput")
class Conv2DBackpropInput(_Backprop):
    """Transposed convolution of pictures: filter (height, width, outputs, channels)."""

    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")


@layer("Conv3DBackpropInputV2")
class Conv3DBackpropInputV2(_Backprop):
    """Transposed convolution of volumes: filter (depth, height, width, outputs, channels)."""

    data_format: str = attribute(Enum("NDHWC", "NCDHW"), "NDHWC")
    rank = 5
