"""Correlation and Correlation1D (FlowNet)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer.layer import Array, Enum, Layer, field, layer, need, need_shape
from anylayer.layers._resampling import need_plane, plane_of


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
        need(self.kernel_size % 2 == 1, f"kernel_size must be odd, got {self.kernel_size}")
        if self.do_abs:
            self.note("do_abs has no effect: the reference reads it and does not use it")

    def places(self, a: Array, b: Array, border: tuple[int, int], pads: tuple[int, int]) -> list[Array]:
        """Return the padded rows and columns at which the patches of input 0 start.

        `border` is the number of cells before and after the patches of a map in each direction, besides the
        kernel.
        """
        plane_of(a)
        need_shape(b, tuple(a.shape), "input 1", about=", as input 0")
        starts = []
        for size, pad, lost in zip(a.shape[2:], pads, border):
            room = size + 2 * pad - 2 * lost - (self.kernel_size - 1)
            count = -(-room // self.stride_1)
            need(
                count >= 1,
                f"kernel_size={self.kernel_size} and max_displacement={self.max_displacement} do not fit a map of "
                f"{a.shape[2]} x {a.shape[3]} with pad={self.pad}",
            )
            starts.append(np.arange(count) * self.stride_1 + lost)
        need_plane(len(starts[0]), len(starts[1]))
        return starts

    def compare(self, a: Array, b: Array, at: list[Array], down: Array, across: Array) -> Array:
        """Return the correlation of padded maps: (N, len(down) * len(across), rows, columns).

        `at` are the rows and columns at which the patches of `a` start. Those of `b` start `down` rows and
        `across` columns further. Channels run over the displacements, row by row.
        """
        rows, columns = at
        terms = self.kernel_size**2 * a.shape[1]
        a, b = self._taps(a), self._taps(b)
        left = a[:, :, rows][:, :, :, columns].transpose(0, 2, 3, 1)[:, :, None]  # (N, rows, 1, columns, C)
        lines = b[:, :, rows[:, None] + down].transpose(0, 2, 3, 1, 4)  # (N, rows, down, C, W)
        reached = columns[:, None] + across  # (columns, across)
        if self.correlation_type == "MULTIPLY":
            every = (left @ lines).reshape(*lines.shape[:3], len(columns) * lines.shape[4])
            picked = every[..., np.arange(len(columns))[:, None] * lines.shape[4] + reached]
        else:
            picked = self._distances(left, lines, reached)
        means = picked.transpose(0, 2, 4, 1, 3) / np.float32(terms)
        return means.reshape(a.shape[0], len(down) * len(across), len(rows), len(columns))

    def _taps(self, x: Array) -> Array:
        """Return the cells of each kernel as channels: (N, C * k * k, H - k + 1, W - k + 1)."""
        k, (h, w) = self.kernel_size, x.shape[2:]
        if k == 1:
            return x
        shifted = [x[:, :, j : h - k + 1 + j, i : w - k + 1 + i] for j in range(k) for i in range(k)]
        return np.concatenate(shifted, axis=1)

    def _distances(self, left: Array, lines: Array, reached: Array) -> Array:
        """Return the sums over C of |a - b|: (N, rows, down, columns, across)."""
        left = left.transpose(0, 1, 2, 4, 3)  # (N, rows, 1, C, columns)
        sums = [np.abs(left - lines[..., reached[:, k]]).sum(axis=3) for k in range(reached.shape[1])]
        return np.stack(sums, axis=-1)


@layer("Correlation")
class Correlation(CorrelationLayer):
    """Correlate each patch of input 0 with the patches of input 1 around its place (FlowNet, arXiv 1504.06852).

    Two maps (N, C, H, W) to (N, (2 r + 1)^2, H', W') with r = max_displacement / stride_2. Output channel (dy + r)
    * (2 r + 1) + (dx + r) is the mean over the patch of the products, or of the absolute differences, with the
    patch dy * stride_2 rows below and dx * stride_2 columns to the right. The maps are padded with zeros.
    Source: lmb-freiburg/flownet2 src/caffe/layers/correlation_layer.cpp, correlation_layer.cu.
    """

    def forward(self, a: Array, b: Array) -> Array:
        far, pad = self.max_displacement, self.pad
        at = self.places(a, b, (far, far), (pad, pad))
        around = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        radius = far // self.stride_2
        steps = np.arange(-radius, radius + 1) * self.stride_2
        return self.compare(np.pad(a, around), np.pad(b, around), at, steps, steps)


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
        rows, columns = self.places(a, b, (0, self.max_displacement), (0, pad))
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
        return self.compare(left, right, [rows, columns + before], np.zeros(1, np.int64), steps)
