"""Correlation and Correlation1D (FlowNet)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer.layer import Array, Enum, Layer, field, layer, need
from anylayer.layers._correlation import compare, correlate, places


class CorrelationLayer(Layer):
    """The fields of both correlations, and their checks."""

    message = "correlation_param"
    numbers: ClassVar = {"synopsys": 150}
    pad: int = field(2, "uint32", 0, doc="zeros around the maps")
    kernel_size: int = field(3, "uint32", doc="side of the patches that are compared; odd")
    max_displacement: int = field(4, "uint32", doc="largest distance at which a patch is searched for, in cells")
    stride_1: int = field(5, "uint32", 1, least=1, doc="cells between two patches of input 0")
    stride_2: int = field(6, "uint32", 1, least=1, doc="cells between two displacements")
    do_abs: bool = field(7, "bool", False, doc="no effect: the reference reads it and does not use it")
    single_direction: int = field(8, "int32", 0, doc="Correlation1D: to the left (-1) or right (1) only")
    correlation_type: str = field(15, Enum(MULTIPLY=0, SUBTRACT=1), "MULTIPLY", doc="products or distances")

    def setup(self) -> None:
        self.multiply = self.correlation_type == "MULTIPLY"
        if self.do_abs:
            self.note("do_abs has no effect: the reference reads it and does not use it")


@layer("Correlation")
class Correlation(CorrelationLayer):
    """Correlate each patch of input 0 with the patches of input 1 around its place (FlowNet, arXiv 1504.06852).

    Two maps (N, C, H, W) to (N, (2 r + 1)^2, H', W') with r = max_displacement / stride_2. Output channel (dy + r)
    * (2 r + 1) + (dx + r) is the mean over the patch of the products, or of the absolute differences, with the
    patch dy * stride_2 rows below and dx * stride_2 columns to the right. The maps are padded with zeros.
    Source: lmb-freiburg/flownet2 src/caffe/layers/correlation_layer.cpp, correlation_layer.cu.
    """

    def forward(self, a: Array, b: Array) -> Array:
        return correlate(
            a, b, kernel_size=self.kernel_size, max_displacement=self.max_displacement, stride1=self.stride_1,
            stride2=self.stride_2, pad_size=self.pad, is_multiply=self.multiply,
        )  # fmt: skip


@layer("Correlation1D")
class Correlation1D(CorrelationLayer):
    """Correlate each patch of input 0 with the patches of input 1 in its row (DispNet, arXiv 1512.02134).

    Two maps (N, C, H, W) to (N, displacements, H', W'). As Correlation, with displacements along the row only:
    from -r to r without single_direction, from 0 to r for 1, from -r - 1 to -1 for -1, where r = max_displacement
    / stride_2. The maps are padded with zeros on the left and right.
    Source: lmb-freiburg/flownet2 src/caffe/layers/correlation_layer1d.cpp, correlation_layer1d.cu.
    """

    def setup(self) -> None:
        super().setup()
        way = self.single_direction
        need(way in (-1, 0, 1), f"single_direction must be -1, 0 or 1, got {way}")

    def forward(self, a: Array, b: Array) -> Array:
        pad, radius = self.pad, self.max_displacement // self.stride_2
        border = (0, self.max_displacement)
        rows, columns = places(a, b, border, (0, pad), self.kernel_size, self.stride_1)
        first = {-1: -radius - 1, 0: -radius, 1: 0}[self.single_direction]
        count = 2 * radius + 1 if self.single_direction == 0 else radius + 1
        steps = (first + np.arange(count)) * self.stride_2
        before = max(0, -(self.max_displacement + int(steps[0])))
        need(
            before <= pad,
            f"single_direction=-1 reads {before} columns before the padded row, where the reference reads the row "
            f"above; pad must be at least {before}, got {pad}",
        )
        left = np.pad(a, ((0, 0), (0, 0), (0, 0), (pad + before, pad)))
        right = np.pad(b, ((0, 0), (0, 0), (0, 0), (pad + before, pad)))
        at = [rows, columns + before]
        return compare(left, right, at, np.zeros(1, np.int64), steps, self.kernel_size, self.multiply)
