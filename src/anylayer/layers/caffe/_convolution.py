"""What the layers with convolution_param share: its fields, and the windows that they describe."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from anylayer.layer import Layer, field, need
from anylayer.layer.arguments import extent
from anylayer.layer.contract import PixelMap
from anylayer.layers.caffe._axes import canonical, need_padded
from anylayer.layers.caffe._messages import FillerParameter, engine_field, filler_if_written, no_effect
from anylayer.network import Array


class ConvolutionWindows(NamedTuple):
    """The windows of a convolution, with one value per spatial axis."""

    axis: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the number of cells from the first to the last tap of the kernel, both included."""
        return tuple(extent(k, d) for k, d in zip(self.kernel, self.dilations))

    def counts(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of windows along each axis: (size + 2 * pad - extent) / stride + 1.

        The division truncates, as in C, so a kernel that exceeds the padded map by less than a stride still has
        one window.
        """
        need_padded(sizes, self.pads)
        counts = []
        for i, (n, e, s, p) in enumerate(zip(sizes, self.extents, self.strides, self.pads)):
            spare = n + 2 * p - e
            count = (spare // s if spare >= 0 else -(-spare // s)) + 1
            need(
                count >= 1,
                f"a kernel with an extent of {e} cells and stride {s} does not fit spatial axis {i} "
                f"of {n} cells with pad {p}",
            )
            counts.append(count)
        return tuple(counts)

    def both_pads(self, sizes: tuple[int, ...]) -> list[int]:
        """Return the pads before all axes, then those after, which are extended to hold every window."""
        ends = [
            max(p, (c - 1) * s + e - n - p)
            for n, e, s, p, c in zip(sizes, self.extents, self.strides, self.pads, self.counts(sizes))
        ]
        return [*self.pads, *ends]


class ConvolutionLayer(Layer):
    """A layer that reads convolution_param.

    Source: BVLC/caffe src/caffe/layers/base_conv_layer.cpp.
    """

    message = "convolution_param"
    numbers = {"": 106}
    num_output: int = field(1, "uint32", 0, doc="number of output channels")
    bias_term: bool = field(2, "bool", True, doc="add a bias to each channel")
    pad: tuple[int, ...] = field(
        3, "uint32", repeated=True, doc="zeros on both sides: one for all axes, or one per axis"
    )
    kernel_size: tuple[int, ...] = field(
        4, "uint32", repeated=True, doc="kernel size: one for all axes, or one per axis"
    )
    group: int = field(5, "uint32", 1, doc="number of groups of channels; divides both numbers of channels")
    stride: tuple[int, ...] = field(
        6, "uint32", repeated=True, doc="stride: one for all axes, or one per axis; default 1"
    )
    weight_filler: FillerParameter = field(7, FillerParameter, doc="filler of the weights without a weights file")
    bias_filler: FillerParameter = field(8, FillerParameter, doc="values of the bias without a file; default 0")
    pad_h: int = field(9, "uint32", 0, doc="pad of the height, with two spatial axes")
    pad_w: int = field(10, "uint32", 0, doc="pad of the width, with two spatial axes")
    kernel_h: int = field(11, "uint32", 0, doc="kernel size along the height, with two spatial axes")
    kernel_w: int = field(12, "uint32", 0, doc="kernel size along the width, with two spatial axes")
    stride_h: int = field(13, "uint32", 1, doc="stride along the height, with two spatial axes")
    stride_w: int = field(14, "uint32", 1, doc="stride along the width, with two spatial axes")
    engine: str = engine_field(15)
    axis: int = field(
        16, "int32", 1, doc="axis of the channels; axes after it are spatial, axes before it are batches"
    )
    force_nd_im2col: bool = field(17, "bool", False, doc="Caffe's implementation; no effect here")
    dilation: tuple[int, ...] = field(
        18, "uint32", repeated=True, doc="dilation: one for all axes, or one per axis; default 1"
    )

    relu: bool = no_effect(19, "bool", False)
    negative_slope: float = no_effect(20, "float", 0.0)

    def windows(self, x: Array) -> ConvolutionWindows:
        """Return the windows that the fields describe on `x`."""
        axis = canonical(self.axis, x)
        return self._windows(axis, len(x.shape) - axis - 1)

    def coordinates(self) -> PixelMap | None:
        windows = self._windows(1, 2)
        high, wide = (
            (Fraction(1, s), Fraction(2 * p - e + 1, 2 * s))
            for e, s, p in zip(windows.extents, windows.strides, windows.pads)
        )
        return high, wide

    def _windows(self, axis: int, spatial: int) -> ConvolutionWindows:
        kernel = self._sizes("kernel", "kernel_size", self.kernel_size, None, spatial)
        strides = self._sizes("stride", "stride", self.stride, 1, spatial)
        pads = self._sizes("pad", "pad", self.pad, 0, spatial)
        dilations = self._dilations(spatial)
        need(all(k > 0 for k in kernel), f"kernel sizes must be positive, got {kernel}")
        need(all(s > 0 for s in strides), f"strides must be positive, got {strides}")
        need(all(d > 0 for d in dilations), f"dilations must be positive, got {dilations}")
        return ConvolutionWindows(axis, kernel, strides, pads, dilations)

    def _dilations(self, spatial: int) -> tuple[int, ...]:
        return per_axis("dilation", self.dilation, 1, spatial)

    def _sizes(
        self, stem: str, name: str, values: tuple[int, ...], default: int | None, spatial: int
    ) -> tuple[int, ...]:
        """Return one value per spatial axis, from the field `name`, or from `stem`_h and `stem`_w."""
        high, wide = f"{stem}_h", f"{stem}_w"
        if not (self.has(high) or self.has(wide)):
            return per_axis(name, values, default, spatial)
        need(not values, f"give {name}, or {high} and {wide}, not both")
        need(spatial == 2, f"{high} and {wide} need two spatial axes, the input has {spatial}; give {name}")
        return getattr(self, high), getattr(self, wide)


class GroupedConvolution(ConvolutionLayer):
    """A convolution, or a transposed one, of `group` groups of channels, whose inputs share their weights.

    Source: BVLC/caffe src/caffe/layers/base_conv_layer.cpp.
    """

    def setup(self) -> None:
        need(
            self.num_output > 0,
            "num_output must be positive" + ("" if self.has("num_output") else "; it is missing"),
        )
        need(self.group > 0, "group must be positive, got 0")
        need(
            self.num_output % self.group == 0,
            f"group={self.group} does not divide num_output={self.num_output}",
        )

    def forward(self, *inputs: Array) -> list[Array]:
        need(inputs, "takes 1 input or more, got none")
        need(len(inputs) == self.outputs, f"{len(inputs)} inputs need as many outputs, got {self.outputs}")
        first = inputs[0]
        for i, x in enumerate(inputs[1:], 1):
            need(
                tuple(x.shape) == tuple(first.shape),
                f"inputs must have one shape: input 0 is {tuple(first.shape)}, input {i} is {tuple(x.shape)}",
            )
        windows = self.windows(first)
        channels = first.shape[windows.axis]
        need(channels % self.group == 0, f"group={self.group} does not divide {channels} channels")
        weights = self.blob(
            0,
            self.kernel_shape(channels, windows.kernel),
            filler_if_written(self.weight_filler, self.has("weight_filler")),
        )
        bias = self.blob(1, (self.num_output,), self.bias_filler, what="bias") if self.bias_term else None
        return [self.apply(x, weights, bias, windows) for x in inputs]

    def kernel_shape(self, channels: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the weights for an input with `channels` channels."""
        raise NotImplementedError

    def apply(self, x: Any, weights: Any, bias: Any, windows: ConvolutionWindows) -> Any:
        """Return the output for one input."""
        raise NotImplementedError


def per_axis(name: str, values: tuple[int, ...], default: int | None, spatial: int) -> tuple[int, ...]:
    """Return one value per spatial axis, from none (the default), one, or one per axis."""
    if not values and default is not None:
        return (default,) * spatial
    need(
        len(values) in (1, spatial),
        f"{name} must be given once, or once for each of the {spatial} spatial axes, got {len(values)}",
    )
    return values * spatial if len(values) == 1 else values
