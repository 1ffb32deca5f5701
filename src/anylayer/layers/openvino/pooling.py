"""Pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation, axis_of, whole
from anylayer.layers.openvino._padding import Windowed, sizes

ROUNDING = Enum("floor", "ceil", "ceil_torch")
_MOST_WINDOWS = 1 << 12
INDEX_TYPES = {"i32": np.int32, "i64": np.int64}


class Pool(Windowed):
    """Attributes of the pools."""

    strides: tuple[int, ...] = attribute("int64", (), repeated=True)
    kernel: tuple[int, ...] = attribute("int64", repeated=True)
    rounding_type: str = attribute(ROUNDING, "floor", doc="how many windows, where the last would hang over")

    def plan(self, x: Any) -> tuple[list[int], list[int], list[int], list[int], bool]:
        """Kernel, strides, dilations, pads, and whether the number of windows is rounded up in Torch's way, where
        the last hangs over what counts. In OpenVINO's way that is padding like any other.
        """
        count = len(x.shape) - 2
        need(count >= 1, f"needs a map (N, C, ...), got shape {tuple(x.shape)}")
        kernel = sizes(self.kernel, count, "kernel")
        strides, dilations = self.steps(count)
        pads = self.pads(x.shape[2:], kernel)
        if self.rounding_type == "ceil":
            pads = self.grown(x.shape[2:], kernel, strides, dilations, pads)
        return kernel, strides, dilations, pads, self.rounding_type == "ceil_torch"

    def grown(
        self, shape: Sequence[int], kernel: list[int], strides: list[int], dilations: list[int], pads: list[int]
    ) -> list[int]:
        """Pads whose ends reach as far as the last window does; refused where it would begin behind the map."""
        count = len(shape)
        ends = []
        for i, n in enumerate(shape):
            extent = (kernel[i] - 1) * dilations[i] + 1
            last = -(-(n + pads[i] + pads[count + i] - extent) // strides[i]) * strides[i]
            need(
                last < n + pads[i],
                f"rounding_type 'ceil' makes a last window that begins behind the {n} cells and their pad: "
                "what it holds is not defined",
            )
            ends.append(max(pads[count + i], last + extent - n - pads[i]))
        return [*pads[:count], *ends]


@layer("MaxPool")
class MaxPool(Pool):
    """The largest value in each window; from opset8 on also its index, as a second output.

    Source: OpenVINO, MaxPool-1, MaxPool-8, MaxPool-14.
    """

    index_element_type: str = attribute("string", "i64")
    axis: int = attribute("int64", 0, doc="the axis from which on cells are counted for the index")

    def forward(self, x: Any) -> Any:
        kernel, strides, dilations, pads, ceil = self.plan(x)
        if self.outputs == 1:
            return ops.max_pool(x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil)
        kind = self.index_element_type
        need(kind in INDEX_TYPES, f"index_element_type is i32 or i64, got {kind}")
        y, index = ops.max_pool_with_indices(
            x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil
        )
        axis = axis_of(self.axis, len(x.shape))
        need(
            axis <= 2, f"axis={self.axis} counts cells from behind the first spatial axis, which is not supported"
        )
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
    """The mean of each window, with pads as zeros or left out.

    Source: OpenVINO, AvgPool-1, AvgPool-14.
    """

    exclude_pad: bool = attribute("bool", doc="pads do not count in the mean")

    def forward(self, x: Any) -> Any:
        kernel, strides, dilations, pads, ceil = self.plan(x)
        need(all(d == 1 for d in dilations), f"dilations are not supported for means, got {dilations}")
        written = any(self.pads(x.shape[2:], kernel))  # where none is, what a window hangs over does not count
        return ops.average_pool(
            x,
            kernel,
            strides=strides,
            pads=pads,
            ceil_mode=ceil,
            count_include_pad=written and not self.exclude_pad,
        )


@layer("AdaptiveAvgPool")
class AdaptiveAvgPool(Operation):
    """The means of as many windows as the second input says; windows may share cells.

    Source: OpenVINO, AdaptiveAvgPool-8.
    """

    def forward(self, x: Any, size: Any) -> Any:
        wanted = whole(size, "the output's shape")
        need(
            len(wanted) == len(x.shape) - 2, f"the output's shape must have {len(x.shape) - 2} sizes, got {wanted}"
        )
        need(max(wanted) <= _MOST_WINDOWS, f"at most {_MOST_WINDOWS} windows an axis are supported, got {wanted}")
        for axis, count in enumerate(wanted, 2):
            n = x.shape[axis]
            need(count > 0, f"the output's shape must be positive, got {wanted}")
            share = np.zeros((n, count), x.dtype)
            for i in range(count):
                low, high = i * n // count, -(-(i + 1) * n // count)
                share[low:high, i] = 1 / (high - low)
            x = np.moveaxis(np.moveaxis(x, axis, -1) @ share, -1, axis)
        return x
