"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, layer, need
from anylayer.layer.arguments import axis_of, extent, integers
from anylayer.layers.openvino._base import OpenVINOLayer
from anylayer.layers.openvino._padding import WindowedLayer, sizes

ROUNDING = Enum("floor", "ceil", "ceil_torch")
_MAX_WINDOWS = 1 << 12  # windows per axis
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


@layer("AdaptiveAvgPool")
class AdaptiveAvgPool(OpenVINOLayer):
    """Compute the means of as many windows as the second input states.

    (N, C, ...) to (N, C, *size), where size is a constant. Window i of n covers the cells from floor(i * d / n) to
    ceil((i + 1) * d / n) of an axis of size d, so windows may overlap.
    Source: OpenVINO operation specification, AdaptiveAvgPool-8.
    """

    def forward(self, x: Array, size: Array) -> Array:
        counts = integers(size, "the output's shape")
        need(
            len(counts) == len(x.shape) - 2, f"the output's shape must have {len(x.shape) - 2} sizes, got {counts}"
        )
        need(max(counts) <= _MAX_WINDOWS, f"at most {_MAX_WINDOWS} windows per axis are supported, got {counts}")
        for axis, count in enumerate(counts, 2):
            n = x.shape[axis]
            need(count > 0, f"the output's shape must be positive, got {counts}")
            share = np.zeros((n, count), x.dtype)
            for i in range(count):
                low, high = i * n // count, -(-(i + 1) * n // count)
                share[low:high, i] = 1 / (high - low)
            x = np.moveaxis(np.moveaxis(x, axis, -1) @ share, -1, axis)
        return x
