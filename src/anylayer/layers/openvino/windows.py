"""Convolutions, transposed convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, layer, need
from anylayer.layer.arguments import axis_of, extent, flat_pads, integers, same_pads
from anylayer.layers._arrays import adaptive_mean
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer

AUTO_PAD = Enum("explicit", "notset", "same_upper", "same_lower", "valid")


def sizes(values: Sequence[int], count: int, what: str, default: int | None = None) -> list[int]:
    """Return one number per spatial axis, each `default` when the file gives none."""
    if not values and default is not None:
        return [default] * count
    need(len(values) == count, f"{what} must have {count} numbers, one per axis, got {list(values)}")
    return list(values)


class WindowedLayer(OpenVINOLayer):
    """An operation that moves a window over the spatial axes."""

    strides: tuple[int, ...] = attribute("int64", repeated=True)
    dilations: tuple[int, ...] = attribute("int64", (), repeated=True)
    pads_begin: tuple[int, ...] = attribute("int64", (), repeated=True)
    pads_end: tuple[int, ...] = attribute("int64", (), repeated=True)
    auto_pad: str = attribute(
        AUTO_PAD, "explicit", doc="same_upper, same_lower: pad for ceil(size / stride) outputs"
    )

    def steps(self, count: int) -> tuple[list[int], list[int]]:
        """Return the strides and the dilations, one per spatial axis."""
        strides = sizes(self.strides, count, "strides", 1)
        dilations = sizes(self.dilations, count, "dilations", 1)
        need(min(strides, default=1) > 0, f"strides must be positive, got {strides}")
        need(min(dilations, default=1) > 0, f"dilations must be positive, got {dilations}")
        return strides, dilations

    def explicit_pads(self, count: int) -> list[int]:
        """Return the pads that the file states: those before all spatial axes, then those after all axes."""
        return [*sizes(self.pads_begin, count, "pads_begin", 0), *sizes(self.pads_end, count, "pads_end", 0)]

    def pads(self, shape: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """Return the pads of the spatial axes for a kernel: those before all axes, then those after all axes."""
        count = len(shape)
        strides, dilations = self.steps(count)
        if self.auto_pad == "valid":
            return [0] * (2 * count)
        if self.auto_pad in ("explicit", "notset"):
            return self.explicit_pads(count)
        extents = [extent(k, d) for k, d in zip(kernel, dilations)]
        return flat_pads(same_pads(shape, extents, strides, upper=self.auto_pad == "same_upper"))


def _need_one_rank(x: Array, w: Array) -> None:
    need(
        len(x.shape) == len(w.shape) >= 3,
        f"needs an input and kernels of the same rank, got shapes {tuple(x.shape)} and {tuple(w.shape)}",
    )


def merge_groups(w: Array) -> Array:
    """Return the kernels (G, M, C, ...) of a grouped convolution as (G * M, C, ...)."""
    need(
        len(w.shape) >= 4,
        f"kernels of a grouped convolution must have at least 4 axes, got shape {tuple(w.shape)}",
    )
    return w.reshape(w.shape[0] * w.shape[1], *w.shape[2:])


@layer("Convolution")
class Convolution(WindowedLayer):
    """Convolve (N, C, ...) with kernels (M, C, ...), without flipping them.

    The output is (N, M, ...) of the spatial size floor((size + pads - extent) / stride) + 1, where extent =
    (kernel - 1) * dilation + 1. auto_pad same_upper and same_lower pad for ceil(size / stride) outputs. The Model
    Optimizer of 2019 and 2020 also writes `output_padding` zeros, which have no effect.
    Source: OpenVINO operation specification, Convolution-1.
    """

    output_padding: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Array, w: Array) -> Array:
        return self.convolve(x, w, 1)

    def convolve(self, x: Array, w: Array, group: int) -> Array:
        """Return the convolution of `x` with kernels (M, C / group, ...)."""
        _need_one_rank(x, w)
        need(
            not any(self.output_padding),
            f"output_padding={list(self.output_padding)} needs a transposed convolution; expected zeros",
        )
        strides, dilations = self.steps(len(x.shape) - 2)
        pads = self.pads(x.shape[2:], w.shape[2:])
        return ops.conv(x, w, strides=strides, pads=pads, dilations=dilations, group=group)


@layer("GroupConvolution")
class GroupConvolution(Convolution):
    """Convolve groups of channels, each with its own kernels.

    (N, G * C, ...) with kernels (G, M, C, ...) to (N, G * M, ...), of the spatial size that Convolution has.
    Source: OpenVINO operation specification, GroupConvolution-1.
    """

    def forward(self, x: Array, w: Array) -> Array:
        return self.convolve(x, merge_groups(w), w.shape[0])


@layer("ConvolutionBackpropData")
class ConvolutionBackpropData(WindowedLayer):
    """Compute the transposed convolution of (N, C, ...) with kernels (C, M, ...).

    The output is (N, M, ...) of the spatial size stride * (size - 1) + extent - pads + output_padding, or of the
    third input, a constant, when it is given.
    Source: OpenVINO operation specification, ConvolutionBackpropData-1.
    """

    output_padding: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Array, w: Array, shape: Array | None = None) -> Array:
        return self.convolve(x, w, shape, 1)

    def convolve(self, x: Array, w: Array, shape: Array | None, group: int) -> Array:
        """Return the transposed convolution of `x` with kernels (C, M / group, ...)."""
        _need_one_rank(x, w)
        count = len(x.shape) - 2
        strides, dilations = self.steps(count)
        extra = sizes(self.output_padding, count, "output_padding", 0)
        if shape is None:
            pads = self.pads([1] * count, [1] * count) if self.auto_pad == "explicit" else [0] * (2 * count)
        else:
            reach = [
                s * (n - 1) + extent(k, d) + e
                for n, k, s, d, e in zip(x.shape[2:], w.shape[2:], strides, dilations, extra)
            ]
            pads, extra = self.fit_pads(integers(shape, "output_shape"), reach, extra)
        y = ops.conv_transpose(x, w, strides=strides, dilations=dilations, group=group, output_padding=0)
        return _cut(y, pads, extra)

    def fit_pads(self, cells: list[int], reach: list[int], extra: list[int]) -> tuple[list[int], list[int]]:
        """Return pads, and cells to add at the end, that make an output of `cells` cells from `reach` cells."""
        need(len(cells) == len(reach), f"output_shape must have {len(reach)} numbers, got {cells}")
        total = [r - n for r, n in zip(reach, cells)]
        if self.auto_pad in ("explicit", "notset"):
            count = len(total)
            pads = self.explicit_pads(count)
            left = [r - n - pads[i] - pads[count + i] for i, (r, n) in enumerate(zip(reach, cells))]
            return pads, [e - d for e, d in zip(extra, left)]
        need(min(total) >= 0, f"output_shape {cells} exceeds the size {reach} that the kernels reach")
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        if self.auto_pad == "same_upper":
            return [*large, *small], extra
        return [*small, *large], extra


def _cut(y: Array, pads: list[int], extra: list[int]) -> Array:
    """Return `y` with `pads` removed and `extra` zeros added at the end of each axis."""
    count = len(y.shape) - 2
    grown = [max(e - pads[count + i], 0) for i, e in enumerate(extra)]
    if any(grown):
        y = np.pad(y, [(0, 0), (0, 0), *((0, g) for g in grown)])
    keys = [slice(None), slice(None)]
    for i in range(count):
        end = y.shape[2 + i] - max(pads[count + i] - extra[i], 0)
        need(
            pads[i] >= 0 and pads[i] < end, f"pads {pads} leave nothing of the spatial shape {tuple(y.shape[2:])}"
        )
        keys.append(slice(pads[i], end))
    return y[tuple(keys)]


@layer("GroupConvolutionBackpropData")
class GroupConvolutionBackpropData(ConvolutionBackpropData):
    """Compute the transposed convolution of groups of channels, each with its own kernels.

    (N, G * C, ...) with kernels (G, C, M, ...) to (N, G * M, ...), of the spatial size that
    ConvolutionBackpropData has.
    Source: OpenVINO operation specification, GroupConvolutionBackpropData-1.
    """

    def forward(self, x: Array, w: Array, shape: Any = None) -> Array:
        return self.convolve(x, merge_groups(w), shape, w.shape[0])


ROUNDING = Enum("floor", "ceil", "ceil_torch")
INDEX_TYPES = {"i32": np.int32, "i64": np.int64}


class Pool(WindowedLayer):
    """A pooling of (N, C, ...) over windows of the spatial axes."""

    strides: tuple[int, ...] = attribute("int64", (), repeated=True)
    kernel: tuple[int, ...] = attribute("int64", repeated=True)
    rounding_type: str = attribute(ROUNDING, "floor", doc="rounding of the number of windows")

    def plan(self, x: Array) -> tuple[list[int], list[int], list[int], list[int], bool]:
        """Return kernel, strides, dilations, pads, and whether the last window may exceed the padded input.

        It may with ceil_torch, and the cells beyond the padding are ignored. With ceil, the padding is extended
        instead.
        """
        count = len(x.shape) - 2
        need(count >= 1, f"needs an input (N, C, ...), got shape {tuple(x.shape)}")
        kernel = sizes(self.kernel, count, "kernel")
        strides, dilations = self.steps(count)
        pads = self.pads(x.shape[2:], kernel)
        if self.rounding_type == "ceil":
            pads = self.grown(x.shape[2:], kernel, strides, dilations, pads)
        return kernel, strides, dilations, pads, self.rounding_type == "ceil_torch"

    def grown(
        self, shape: Sequence[int], kernel: list[int], strides: list[int], dilations: list[int], pads: list[int]
    ) -> list[int]:
        """Return pads that reach to the end of the last window. Refuse a window that begins after the input."""
        count = len(shape)
        ends = []
        for i, n in enumerate(shape):
            reach = extent(kernel[i], dilations[i])
            last = -(-(n + pads[i] + pads[count + i] - reach) // strides[i]) * strides[i]
            need(
                last < n + pads[i],
                f"rounding_type 'ceil' gives a last window that begins after the {n} cells and their pads, where "
                "it is not defined",
            )
            ends.append(max(pads[count + i], last + reach - n - pads[i]))
        return [*pads[:count], *ends]


@layer("MaxPool")
class MaxPool(Pool):
    """Compute the maximum of each window, and from opset8 on also its index.

    (N, C, ...) to two outputs (N, C, ...'). Indices count the elements from axis `axis` on.
    Source: OpenVINO operation specification, MaxPool-1, MaxPool-8 and MaxPool-14.
    """

    index_element_type: str = attribute("string", "i64")
    axis: int = attribute("int64", 0, doc="first axis that indices count")

    def forward(self, x: Array) -> Any:
        kernel, strides, dilations, pads, ceil = self.plan(x)
        if self.outputs == 1:
            return ops.max_pool(x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil)
        kind = self.index_element_type
        need(kind in INDEX_TYPES, f"index_element_type must be i32 or i64, got {kind}")
        y, index = ops.max_pool_with_indices(
            x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil
        )
        axis = axis_of(self.axis, len(x.shape))
        need(axis <= 2, f"axis={self.axis} must not lie after the first spatial axis, axis 2")
        plane = int(np.prod(x.shape[2:]))
        starts = np.zeros((1, 1, *[1] * (len(x.shape) - 2)), np.int64)
        if axis <= 1:
            starts = starts + (np.arange(x.shape[1]) * plane).reshape(1, -1, *[1] * (len(x.shape) - 2))
        if axis == 0:
            batch = np.arange(x.shape[0]) * (x.shape[1] * plane)
            starts = starts + batch.reshape(-1, 1, *[1] * (len(x.shape) - 2))
        return y, (index + starts).astype(INDEX_TYPES[kind])


@layer("AvgPool")
class AvgPool(Pool):
    """Compute the mean of each window, with or without the padded cells.

    (N, C, ...) to (N, C, ...'). Padded cells count as zeros unless exclude_pad is set.
    Source: OpenVINO operation specification, AvgPool-1 and AvgPool-14.
    """

    exclude_pad: bool = attribute("bool", doc="whether padded cells are left out of the mean")

    def forward(self, x: Array) -> Array:
        kernel, strides, dilations, pads, ceil = self.plan(x)
        need(all(d == 1 for d in dilations), f"dilations must be 1, got {dilations}")
        written = any(self.pads(x.shape[2:], kernel))  # without pads, cells beyond the input are ignored
        return ops.average_pool(
            x,
            kernel,
            strides=strides,
            pads=pads,
            ceil_mode=ceil,
            count_include_pad=written and not self.exclude_pad,
        )


operators(
    OpenVINOLayer,
    SPECIFICATION,
    {
        "AdaptiveAvgPool": row("Compute the means of as many windows as the second input states.",
            lambda x, size: adaptive_mean(x, size), "AdaptiveAvgPool-8",
            "(N, C, ...) to (N, C, *size), where size is a constant. Window i of n covers the cells from floor(i "
            "* d / n) to ceil((i + 1) * d / n) of an axis of size d, so windows may overlap.",
            size=lambda x, _: integers(x, "the output's shape")),
    },
)  # fmt: skip
