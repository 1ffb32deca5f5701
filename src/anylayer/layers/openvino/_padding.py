"""Attributes of operations that move a window, and the pads that auto_pad stands for."""

from __future__ import annotations

from collections.abc import Sequence

from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import extent, flat_pads, same_pads
from anylayer.layers.openvino._base import OpenVINOLayer

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

    def pads(self, shape: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """Return the pads of the spatial axes for a kernel: those before all axes, then those after all axes."""
        count = len(shape)
        strides, dilations = self.steps(count)
        if self.auto_pad == "valid":
            return [0] * (2 * count)
        if self.auto_pad in ("explicit", "notset"):
            return [*sizes(self.pads_begin, count, "pads_begin", 0), *sizes(self.pads_end, count, "pads_end", 0)]
        extents = [extent(k, d) for k, d in zip(kernel, dilations)]
        return flat_pads(same_pads(shape, extents, strides, upper=self.auto_pad == "same_upper"))


def merge_groups(w: Array) -> Array:
    """Return the kernels (G, M, C, ...) of a grouped convolution as (G * M, C, ...)."""
    need(
        len(w.shape) >= 4,
        f"kernels of a grouped convolution must have at least 4 axes, got shape {tuple(w.shape)}",
    )
    return w.reshape(w.shape[0] * w.shape[1], *w.shape[2:])
