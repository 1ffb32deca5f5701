"""Pads that an operation says in words, and the windows it moves over a map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anylayer.layer import Enum, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation

AUTO_PAD = Enum("explicit", "notset", "same_upper", "same_lower", "valid")


def sizes(values: Sequence[int], count: int, what: str, default: int | None = None) -> list[int]:
    """One number a spatial axis; `default` for each where the file gives none."""
    if not values and default is not None:
        return [default] * count
    need(len(values) == count, f"{what} must have {count} numbers, one an axis, got {list(values)}")
    return list(values)


class Windowed(Operation):
    """Attributes of the operations that move a window."""

    strides: tuple[int, ...] = attribute("int64", repeated=True)
    dilations: tuple[int, ...] = attribute("int64", (), repeated=True)
    pads_begin: tuple[int, ...] = attribute("int64", (), repeated=True)
    pads_end: tuple[int, ...] = attribute("int64", (), repeated=True)
    auto_pad: str = attribute(AUTO_PAD, "explicit", doc="same_upper, same_lower: as many outputs as n / stride")

    def steps(self, count: int) -> tuple[list[int], list[int]]:
        """Strides and dilations, one an axis."""
        strides = sizes(self.strides, count, "strides", 1)
        dilations = sizes(self.dilations, count, "dilations", 1)
        need(min(strides, default=1) > 0, f"strides must be positive, got {strides}")
        need(min(dilations, default=1) > 0, f"dilations must be positive, got {dilations}")
        return strides, dilations

    def pads(self, shape: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """Pads of a map's spatial axes for a window: begins, then ends."""
        count = len(shape)
        strides, dilations = self.steps(count)
        if self.auto_pad == "valid":
            return [0] * (2 * count)
        if self.auto_pad in ("explicit", "notset"):
            return [*sizes(self.pads_begin, count, "pads_begin", 0), *sizes(self.pads_end, count, "pads_end", 0)]
        begins, ends = [], []
        for n, k, stride, dilation in zip(shape, kernel, strides, dilations):
            total = max((-(-n // stride) - 1) * stride + (k - 1) * dilation + 1 - n, 0)
            small, large = total // 2, total - total // 2
            begins.append(small if self.auto_pad == "same_upper" else large)
            ends.append(large if self.auto_pad == "same_upper" else small)
        return [*begins, *ends]


def joined(w: Any) -> Any:
    """Kernels (G, M, C, ...) of a grouped convolution as (G * M, C, ...)."""
    need(len(w.shape) >= 4, f"kernels of groups have at least 4 axes, got shape {tuple(w.shape)}")
    return w.reshape(w.shape[0] * w.shape[1], *w.shape[2:])
