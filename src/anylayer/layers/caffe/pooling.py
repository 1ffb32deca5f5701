"""Pooling and SPP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.graph.facts import pooled_sizes
from anylayer.graph.symbolic import extreme, is_symbolic, is_zero, same
from anylayer.layer import Enum, Layer, field, layer, need
from anylayer.layer.contract import PixelMap
from anylayer.layers.caffe._axes import need_padded
from anylayer.layers.caffe._messages import engine_field, no_effect
from anylayer.network import Array

_LOWEST = np.finfo(np.float32).min
Pair = tuple[int, int]
"""A number for the height and one for the width."""


@dataclass(frozen=True, slots=True)
class Line:
    """The windows of a pooling along one axis of `size` cells.

    `drops`: whether a last window that starts after the map is dropped.
    """

    size: int
    kernel: int
    stride: int
    pad: int
    count: int
    ceil: bool
    drops: bool

    @property
    def inside(self) -> Any:
        """Return the number of windows that overlap the map; the windows after them do not."""
        return extreme("min", self.count, -(-(self.size + self.pad) // self.stride))

    @property
    def end(self) -> Any:
        """Return the padding at the end that the windows inside need.

        Where the size is symbolic, and all windows overlap the map, it is the largest one that needs no further
        window. This is a number, and a number needs no operator before the pooling.
        """
        numbers = not any(map(is_symbolic, (self.kernel, self.stride, self.pad)))
        if self.is_symbolic and numbers and (self.drops or self.stride <= self.kernel):
            return min(self.pad + (self.stride - 1 if self.ceil else 0), self.kernel - 1)
        return extreme("max", 0, (self.inside - 1) * self.stride + self.kernel - self.size - self.pad)

    @property
    def is_symbolic(self) -> bool:
        """Return whether the line has another number of cells in every picture."""
        return is_symbolic(self.size)


def lines_of(
    sizes: Pair, kernels: Pair, strides: Pair, pads: Pair, *, ceil: bool, per_axis: bool = False
) -> tuple[Line, Line]:
    """Return the windows of a pooling along both axes: see pooled_sizes."""
    counts = pooled_sizes(sizes, kernels, strides, pads, ceil=ceil, per_axis=per_axis)

    def line(i: int) -> Line:
        size, kernel, stride, pad = sizes[i], kernels[i], strides[i], pads[i]
        rule = f"a kernel of {kernel} with stride {stride} does not fit {size} cells with pad {pad}"
        need(counts[i] >= 1, rule)
        return Line(size, kernel, stride, pad, counts[i], ceil, bool(pad) if per_axis else any(pads))

    return line(0), line(1)


def _divisors(line: Line) -> Array:
    """Return the cells by which each window is divided: those within the padding, maybe 0 or less."""
    starts = np.arange(line.count) * line.stride - line.pad
    return np.minimum(starts + line.kernel, line.size + line.pad) - starts


def pool(x: Array, method: str, lines: tuple[Line, Line]) -> Any:
    """Return (N, C, H, W), pooled by the maximum ("MAX") or the mean ("AVE").

    The maximum of a window outside the map is the lowest float. Source: BVLC/caffe
    src/caffe/layers/pooling_layer.cpp.
    """
    if all(line.is_symbolic and same(line.size, line.kernel) and line.pad == 0 for line in lines):
        return x.max((2, 3), keepdims=True) if method == "MAX" else x.mean((2, 3), keepdims=True)
    if method == "MAX":
        return _with_outer_windows(_run(ops.max_pool, x, lines), lines, _LOWEST)
    if any(line.is_symbolic for line in lines):
        return _symbolic_mean(x, lines)
    cells = _divisors(lines[0])[:, None] * _divisors(lines[1])
    whole = lines[0].kernel * lines[1].kernel
    inside = (slice(lines[0].inside), slice(lines[1].inside))
    clipped = bool((cells[inside] != whole).any())
    padded = any(line.pad for line in lines)
    if clipped and padded:
        y = _run(ops.average_pool, x, lines, count_include_pad=True) * (whole / cells[inside]).astype(np.float32)
    else:  # the divisor is the cells in the map; with padding and no clipped window, all cells
        y = _run(ops.average_pool, x, lines, count_include_pad=padded)
    y = _with_outer_windows(y, lines, 0)
    if (cells == 0).any():  # Caffe divides 0 by 0
        y = y + np.where(cells == 0, np.float32(np.nan), np.float32(0))
    return y


def _symbolic_mean(x: Array, lines: tuple[Line, Line]) -> Array:
    """Return the mean of each window where the numbers of cells are symbolic."""
    if any(line.pad for line in lines):
        cells = _divisors(lines[0])[: lines[0].inside, None] * _divisors(lines[1])[: lines[1].inside]
        whole = lines[0].kernel * lines[1].kernel
        y = _run(ops.average_pool, x, lines, count_include_pad=True) * (whole / cells).astype(np.float32)
    else:
        y = _run(ops.average_pool, x, lines)
    y = _with_outer_windows(y, lines, 0)
    if all(line.stride <= line.kernel for line in lines):
        return y
    empty = _divisors(lines[0])[:, None] * _divisors(lines[1]) == 0  # only such windows may lie outside the map
    return y + np.where(empty, np.float32(np.nan), np.float32(0))


def pool_with_mask(x: Array, lines: tuple[Line, Line]) -> tuple[Array, Array]:
    """Return the maxima, and the flat index of each in its plane as a float, -1 outside the map."""
    y, index = _run(ops.max_pool_with_indices, x, lines)
    return _with_outer_windows(y, lines, _LOWEST), _with_outer_windows(index.astype(np.float32), lines, -1)


def _run(operator: Callable[..., Any], x: Array, lines: tuple[Line, Line], **options: Any) -> Any:
    pads = [line.pad for line in lines] + [line.end for line in lines]
    return operator(
        x, [line.kernel for line in lines], strides=[line.stride for line in lines], pads=pads, **options
    )


def _with_outer_windows(y: Array, lines: tuple[Line, Line], value: Any) -> Array:
    """Return `y` with a constant for the windows outside the map."""
    missing = [line.count - line.inside for line in lines]
    if all(map(is_zero, missing)):
        return y
    return np.pad(y, [(0, 0), (0, 0), *((0, m) for m in missing)], constant_values=np.float32(value))


@layer("Pooling")
class Pooling(Layer):
    """Compute the maximum or the mean of each window.

    (N, C, H, W) to (N, C, H', W'). The number of windows is rounded up. If pad_h or pad_w is not 0, a last window
    that starts after the map is dropped along both axes; in OpenCV, along a padded axis only. The mean counts
    padded cells, but no cells beyond the padding. A second output of MAX is the flat index of each maximum in its
    plane, as a float.
    Source: BVLC/caffe src/caffe/layers/pooling_layer.cpp; opencv modules/dnn/src/layers/pooling_layer.cpp.
    """

    message = "pooling_param"
    numbers = {"": 121}
    pool: str = field(1, Enum("MAX", "AVE", "STOCHASTIC"), "MAX", doc="method")
    kernel_size: int = field(2, "uint32", 0, doc="kernel size of height and width")
    stride: int = field(3, "uint32", 1, doc="stride of height and width")
    pad: int = field(4, "uint32", 0, doc="padding on all sides; less than the kernel")
    kernel_h: int = field(5, "uint32", 0, doc="kernel size along the height")
    kernel_w: int = field(6, "uint32", 0, doc="kernel size along the width")
    stride_h: int = field(7, "uint32", 1, doc="stride along the height")
    stride_w: int = field(8, "uint32", 1, doc="stride along the width")
    pad_h: int = field(9, "uint32", 0, doc="padding above and below")
    pad_w: int = field(10, "uint32", 0, doc="padding left and right")
    engine: str = engine_field(11)
    global_pooling: bool = field(12, "bool", False, doc="whether one window covers the whole map")
    round_mode: str = field(
        13, Enum("CEIL", "FLOOR"), "CEIL", doc="rounding of the number of windows", others=("FLOOR",)
    )
    ceil_mode: bool = field(
        14, "bool", True, doc="forks: false is round_mode FLOOR (its number is 13 in OpenCV, Ascend and MO18)"
    )

    def setup(self) -> None:
        need(
            self.pool != "STOCHASTIC",
            "pool STOCHASTIC selects random cells, so its output is not defined; Caffe has it on GPUs only",
        )
        self.check_rounding()
        kernels = [n for n in ("kernel_size", "kernel_h", "kernel_w") if self.has(n)]
        if self.global_pooling:
            need(
                not kernels,
                f"global_pooling uses the size of the map as kernel, so remove {' and '.join(kernels)}",
            )
            return
        need(kernels, "the kernel is missing: give kernel_size, or kernel_h and kernel_w, or global_pooling: true")
        for whole, high, wide in (
            ("kernel_size", "kernel_h", "kernel_w"),
            ("stride", "stride_h", "stride_w"),
            ("pad", "pad_h", "pad_w"),
        ):
            need(
                self.has(high) == self.has(wide),
                f"{high} and {wide} go together, {high if self.has(wide) else wide} is missing",
            )
            need(not (self.has(whole) and self.has(high)), f"give {whole}, or {high} and {wide}, not both")

    def check_rounding(self) -> None:
        """Refuse two fields that round differently."""
        both = self.has("round_mode") and self.has("ceil_mode")
        need(
            not both or (self.round_mode == "CEIL") == self.ceil_mode,
            f"round_mode {self.round_mode} and ceil_mode {str(self.ceil_mode).lower()} contradict each other",
        )

    def forward(self, x: Array) -> Any:
        need(len(x.shape) == 4, f"needs an input of 4 axes (N, C, H, W), got shape {tuple(x.shape)}")
        lines = self._lines(x.shape[2], x.shape[3])
        if self.outputs == 1:
            return self.pool_windows(x, lines)
        need(self.pool == "MAX", f"only pool MAX has a second output, the mask; got pool {self.pool}")
        return pool_with_mask(x, lines)

    def pool_windows(self, x: Array, lines: tuple[Line, Line]) -> Any:
        """Return the maximum or the mean of each window."""
        return pool(x, self.pool, lines)

    def _lines(self, height: int, width: int) -> tuple[Line, Line]:
        kernel = self._pair("kernel", self.kernel_size)
        stride, pad = self._pair("stride", self.stride), self._pair("pad", self.pad)
        if self.global_pooling:
            need(
                stride == (1, 1) and pad == (0, 0),
                f"global_pooling needs stride 1 and pad 0, got stride {stride} and pad {pad}",
            )
            kernel = (height, width)
        need(min(kernel) > 0, f"kernel sizes must be positive, got {kernel}")
        need(min(stride) > 0, f"strides must be positive, got {stride}")
        need(
            pad[0] < kernel[0] and pad[1] < kernel[1],
            f"pad must be less than the kernel, got pad {pad} and kernel {kernel}",
        )
        need_padded((height, width), pad)
        ceil = self.ceil_mode and self.round_mode == "CEIL"
        return lines_of((height, width), kernel, stride, pad, ceil=ceil, per_axis=self.dialect == "opencv")

    def coordinates(self) -> PixelMap | None:
        if self.global_pooling:
            return None
        kernel = self._pair("kernel", self.kernel_size)
        stride, pad = self._pair("stride", self.stride), self._pair("pad", self.pad)
        high, wide = ((Fraction(1, s), Fraction(2 * p - k + 1, 2 * s)) for k, s, p in zip(kernel, stride, pad))
        return high, wide

    def _pair(self, stem: str, both: int) -> tuple[int, int]:
        if self.has(f"{stem}_h") or self.has(f"{stem}_w"):
            return getattr(self, f"{stem}_h"), getattr(self, f"{stem}_w")
        return both, both


@layer("Pooling", dialects=("sophgo",))
class SophgoPooling(Pooling):
    """Compute the maximum or the mean of each window, the sum over kernel_h * kernel_w in every window (Sophgo).

    As BVLC's layer, except that a mean is divided by the size of the kernel also where a window reaches beyond the
    padding, and is 0 where it lies outside the map. `ceil_mode: false` or `round_mode: FLOOR` rounds down.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    avg_include_pad: bool = no_effect(13, "bool", False)
    ceil_mode: bool = field(18, "bool", True, doc="false is round_mode FLOOR")
    round_mode: str = field(19, Enum("CEIL", "FLOOR"), "CEIL", doc="rounding of the number of windows")
    yolo: bool = field(99, "bool", False, doc="one row and one column of windows more")

    needs_dialect = True

    def check_rounding(self) -> None:
        """Take both fields, of which the one that rounds down prevails."""

    def pool_windows(self, x: Array, lines: tuple[Line, Line]) -> Any:
        if self.pool == "MAX":
            return super().pool_windows(x, lines)
        return _with_outer_windows(_run(ops.average_pool, x, lines, count_include_pad=True), lines, 0)

    def _lines(self, height: int, width: int) -> tuple[Line, Line]:
        down, across = super()._lines(height, width)
        return (
            (replace(down, count=down.count + 1), replace(across, count=across.count + 1))
            if self.yolo
            else (down, across)
        )


@layer("SPP")
class SPP(Layer):
    """Pool into 1, 4, 16, ... windows and concatenate them (spatial pyramid pooling).

    (N, C, H, W) to (N, C * windows), or (N, C, 1, 1) with `pyramid_height: 1`.
    Source: BVLC/caffe src/caffe/layers/spp_layer.cpp; arXiv 1406.4729.
    """

    message = "spp_param"
    numbers = {"": 132}
    pyramid_height: int = field(1, "uint32", doc="number of levels; level i has 2 ** i windows per side")
    pool: str = field(2, Enum("MAX", "AVE", "STOCHASTIC"), "MAX", doc="method")
    engine: str = engine_field(6)

    def setup(self) -> None:
        need(1 <= self.pyramid_height <= 16, f"pyramid_height must lie in 1..16, got {self.pyramid_height}")
        need(
            self.pool != "STOCHASTIC",
            "pool STOCHASTIC selects random cells, so its output is not defined; Caffe has it on GPUs only",
        )

    def forward(self, x: Array) -> Any:
        need(len(x.shape) == 4, f"needs an input of 4 axes (N, C, H, W), got shape {tuple(x.shape)}")
        n, _, height, width = x.shape
        need(height > 0 and width > 0, f"needs a map with pixels, got shape {tuple(x.shape)}")
        if is_symbolic(height) or is_symbolic(width):
            levels = [_symbolic_level(x, self.pool, level) for level in range(self.pyramid_height)]
        else:
            levels = [pool(x, self.pool, _lines(height, width, level)) for level in range(self.pyramid_height)]
        if len(levels) == 1:
            return levels[0]
        return np.concatenate([y.reshape(n, -1) for y in levels], axis=1)


def _lines(height: int, width: int, level: int) -> tuple[Line, Line]:
    (tall, top), (wide, left) = _window(height, level), _window(width, level)
    for size, kernel, pad in ((height, tall, top), (width, wide, left)):
        need(
            pad < kernel,
            f"level {level} cuts {size} cells into {2**level} windows of {kernel}, which needs a padding of {pad}"
            ": it must be less than the window",
        )
    return lines_of((height, width), (tall, wide), (tall, wide), (top, left), ceil=True)


def _window(size: int, level: int) -> tuple[int, int]:
    """Return the cells of each window along an axis, and the padding before the map."""
    bins = 2**level
    kernel = -(-size // bins)
    return kernel, (kernel * bins - size + 1) // 2


def _symbolic_level(x: Array, method: str, level: int) -> Any:
    """Return a level for a map of any size: the padded map is reshaped into its windows, which do not overlap."""
    n, c, *sizes = x.shape
    bins = 2**level
    _lines(sizes[0], sizes[1], level)
    windows = [_window(size, level) for size in sizes]
    pads = [(pad, kernel * bins - size - pad) for size, (kernel, pad) in zip(sizes, windows)]
    lowest = np.finfo(np.float32).min if method == "MAX" else 0
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=np.float32(lowest))
    parts = padded.reshape(n, c, bins, windows[0][0], bins, windows[1][0])
    return parts.max((3, 5)) if method == "MAX" else parts.mean((3, 5))
