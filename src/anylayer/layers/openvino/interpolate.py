"""Interpolate: resizing."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, attribute, layer, need
from anylayer.layer.arguments import axes_of, constant, integers, need_sizes
from anylayer.layers.openvino._base import OpenVINOLayer
from anylayer.network import Array

_COORDINATES = Enum("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners")
_NEAREST = Enum("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
_MODES = Enum("nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow", "area")
_INTERPOLATIONS: dict[str, Literal["nearest", "linear", "cubic"]] = {
    "nearest": "nearest",
    "linear": "linear",
    "linear_onnx": "linear",
    "cubic": "cubic",
}
_EXACT = 1e-5
_MAX_SIDE = 1 << 15  # cells per axis of an output


@layer("Interpolate")
class Interpolate(OpenVINOLayer):
    """Resize axes to given sizes, or by given factors.

    Inputs from opset11 on: x, sizes or scales, axes; in opset4 to opset10: x, sizes, scales, axes. The axes are
    optional, and all inputs but x are constants. Up to opset3 the axes are an attribute, the second input gives
    their sizes, and the coordinates are align_corners or asymmetric. `coordinate_transformation_mode` maps cells
    of the output to points of the input, and `nearest_mode` rounds a point for mode nearest.
    Source: OpenVINO operation specification, Interpolate-1, Interpolate-4 and Interpolate-11.
    """

    mode: str = attribute(_MODES)
    shape_calculation_mode: str = attribute(Enum("sizes", "scales"), "sizes")
    coordinate_transformation_mode: str = attribute(_COORDINATES, "half_pixel")
    nearest_mode: str = attribute(_NEAREST, "round_prefer_floor")
    antialias: bool = attribute("bool", False)
    pads_begin: tuple[int, ...] = attribute("int64", (), repeated=True)
    pads_end: tuple[int, ...] = attribute("int64", (), repeated=True)
    cube_coeff: float = attribute("double", -0.75)
    axes: tuple[int, ...] = attribute("int64", (), repeated=True, doc="up to opset3")
    align_corners: bool = attribute("bool", True, doc="up to opset3")

    def forward(self, x: Array, *inputs: Array) -> Array:
        x = self.pad(x)
        rank = len(x.shape)
        if self.opset < 4:
            need(len(inputs) == 1, f"takes 2 inputs, got {1 + len(inputs)}")
            axes, sizes = axes_of(self.axes, rank), integers(inputs[0], "the sizes")
            coordinates, nearest = "align_corners" if self.align_corners else "asymmetric", "simple"
        else:
            axes, sizes = self.target_sizes(x, inputs)
            coordinates, nearest = self.coordinate_transformation_mode, self.nearest_mode
        need(len(axes) == len(sizes) and min(sizes, default=1) > 0, f"axes {axes} do not fit the sizes {sizes}")
        need(max(sizes, default=1) <= _MAX_SIDE, f"sizes of at most {_MAX_SIDE} are supported, got {sizes}")
        shape = list(x.shape)
        for axis, n in zip(axes, sizes):
            shape[axis] = n
        need_sizes(shape)
        changed = [(a, n) for a, n in zip(axes, sizes) if x.shape[a] != n]
        need(
            self.mode in _INTERPOLATIONS,
            f"mode '{self.mode}' is not supported; supported: nearest, linear, linear_onnx, cubic",
        )
        is_nearest = self.mode == "nearest"
        need(
            is_nearest or coordinates != "tf_half_pixel_for_nn",
            f"{coordinates} needs mode 'nearest', got '{self.mode}'",
        )
        need(not (self.antialias and self.mode == "cubic"), "antialias with mode 'cubic' is not supported")
        if not changed:
            return x
        smaller = any(n < x.shape[a] for a, n in changed)
        need(is_nearest or not (self.antialias and smaller), "antialias with a smaller output is not supported")
        return ops.resize(
            x,
            [n for _, n in changed],
            axes=[a for a, _ in changed],
            mode=_INTERPOLATIONS[self.mode],
            coordinates=coordinates,
            nearest=nearest,
            cubic_a=self.cube_coeff,
        )

    def pad(self, x: Array) -> Array:
        """Return `x` with the zeros that pads_begin and pads_end state around it."""
        rank = len(x.shape)
        low, high = ((*p, *[0] * rank)[:rank] for p in (self.pads_begin, self.pads_end))
        need(len(self.pads_begin) <= rank >= len(self.pads_end), f"pads are for at most {rank} axes")
        need(min([*low, *high], default=0) >= 0, f"pads must not be negative, got {low} and {high}")
        need_sizes([a + d + b for a, d, b in zip(low, x.shape, high)], "the padded input")
        return np.pad(x, list(zip(low, high))) if any([*low, *high]) else x

    def target_sizes(self, x: Array, inputs: tuple[Any, ...]) -> tuple[list[int], list[int]]:
        """Return the axes and their new sizes."""
        rank = len(x.shape)
        scaled = self.shape_calculation_mode == "scales"
        if self.opset >= 11:
            need(1 <= len(inputs) <= 2, f"takes 2 or 3 inputs, got {1 + len(inputs)}")
            sizes = scales = inputs[0]
            named = inputs[1:]
        else:
            need(2 <= len(inputs) <= 3, f"takes 3 or 4 inputs, got {1 + len(inputs)}")
            sizes, scales = inputs[:2]
            named = inputs[2:]
        axes = axes_of(integers(named[0], "axes"), rank) if named else list(range(rank))
        if not scaled:
            return axes, integers(sizes, "the sizes")
        factors = [float(v) for v in constant(scales, "the scales").reshape(-1)]
        need(len(factors) == len(axes), f"the scales {factors} do not fit the axes {axes}")
        return axes, [self.scaled_size(x.shape[a], factor) for a, factor in zip(axes, factors)]

    def scaled_size(self, old: int, factor: float) -> int:
        """Return the new size of an axis. Raise LayerError when the factor is not exactly new / old."""
        new = int(np.floor(old * factor + _EXACT))
        need(
            self.coordinate_transformation_mode == "align_corners" or abs(old * factor - new) <= _EXACT * new,
            f"a scale of {factor:g} turns {old} cells into {old * factor:g}, which must be an integer",
        )
        return new
