"""Pooling and SPP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, field, layer, need
from anylayer.layer.arguments import pooled_sizes, same_shape
from anylayer.layer.contract import PixelMap
from anylayer.layers.caffe._axes import need_padded
from anylayer.layers.caffe._messages import engine_field, no_effect
from anylayer.network import Function

_LOWEST = float(np.finfo(np.float32).min)

Pair = tuple[int, int]
"""A number for the height and one for the width."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a pooling, of which those that start after the map are outside.

    `pads` are those before both axes, then those after them. ceil: see pooled_sizes.
    """

    kernel: Pair
    stride: Pair
    pads: tuple[int, int, int, int]
    counts: Pair
    ceil: bool

    def with_ends(self, more: Pair) -> tuple[int, int, int, int]:
        """Return the pads, those after the axes enlarged by `more`, as far as no window lies in the padding."""
        top, left, bottom, right = self.pads
        return top, left, min(bottom + more[0], self.kernel[0] - 1), min(right + more[1], self.kernel[1] - 1)

    def inside(self, operator: Function, x: Array, **options: Any) -> Any:
        """Return what an operator of pooling computes in the windows that start in the map, or before it."""
        return operator(x, self.kernel, strides=self.stride, pads=self.pads, ceil_mode=self.ceil, **options)

    def with_outside(self, y: Array, value: float) -> Array:
        """Return the results `y` of the windows inside, with a constant for the windows outside."""
        if same_shape(self.counts, y.shape[2:]):
            return y
        missing = [(0, count - n) for count, n in zip(self.counts, y.shape[2:])]
        return np.pad(y, [(0, 0), (0, 0), *missing], constant_values=np.float32(value))

    def maximum(self, x: Array) -> Array:
        """Return the maximum of each window, the lowest float outside."""
        return self.with_outside(self.inside(ops.max_pool, x), _LOWEST)

    def maximum_and_mask(self, x: Array) -> tuple[Array, Array]:
        """Return the maxima, and the flat index of each in its plane as a float, -1 outside."""
        y, index = self.inside(ops.max_pool_with_indices, x)
        return self.with_outside(y, _LOWEST), self.with_outside(index.astype(np.float32), -1)

    def mean(self, x: Array) -> Array:
        """Return the mean of each window over its cells in the map and in its padding; 0 outside.

        Where a window has no cell at all, Caffe divides 0 by 0.
        """
        inside = self.inside(ops.average_pool, x, count_include_pad=True)
        if same_shape(self.counts, inside.shape[2:]):
            return inside
        high, wide = (
            np.arange(count) * stride == size + 2 * pad
            for size, count, stride, pad in zip(x.shape[2:], self.counts, self.stride, self.pads)
        )
        nothing = np.where(high[:, None] | wide, np.float32(np.nan), np.float32(0))
        return self.with_outside(inside, 0) + nothing


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
        windows = self._windows((x.shape[2], x.shape[3]))
        if self.outputs == 1:
            return windows.maximum(x) if self.pool == "MAX" else self.mean(x, windows)
        need(self.pool == "MAX", f"only pool MAX has a second output, the mask; got pool {self.pool}")
        return windows.maximum_and_mask(x)

    def mean(self, x: Array, windows: Windows) -> Array:
        """Return the mean of each window."""
        return windows.mean(x)

    def _windows(self, sizes: Pair) -> Windows:
        kernel = self._pair("kernel", self.kernel_size)
        stride, pad = self._pair("stride", self.stride), self._pair("pad", self.pad)
        if self.global_pooling:
            need(
                stride == (1, 1) and pad == (0, 0),
                f"global_pooling needs stride 1 and pad 0, got stride {stride} and pad {pad}",
            )
            kernel = sizes
        need(min(kernel) > 0, f"kernel sizes must be positive, got {kernel}")
        need(min(stride) > 0, f"strides must be positive, got {stride}")
        need(
            pad[0] < kernel[0] and pad[1] < kernel[1],
            f"pad must be less than the kernel, got pad {pad} and kernel {kernel}",
        )
        need_padded(sizes, pad)
        ceil = self.ceil_mode and self.round_mode == "CEIL"
        counts = pooled_sizes(sizes, kernel, stride, pad, ceil=ceil, per_axis=self.dialect == "opencv")
        for count, size, k, s, p in zip(counts, sizes, kernel, stride, pad):
            need(count >= 1, f"a kernel of {k} with stride {s} does not fit {size} cells with pad {p}")
        return Windows(kernel, stride, (*pad, *pad), (counts[0], counts[1]), ceil)

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

    def mean(self, x: Array, windows: Windows) -> Array:
        high, wide = windows.stride
        pads = windows.with_ends((high - 1, wide - 1)) if windows.ceil else windows.pads
        y = ops.average_pool(x, windows.kernel, strides=windows.stride, pads=pads, count_include_pad=True)
        return windows.with_outside(y, 0)

    def _windows(self, sizes: Pair) -> Windows:
        windows = super()._windows(sizes)
        if not self.yolo:
            return windows
        high, wide = windows.counts
        return replace(windows, counts=(high + 1, wide + 1), pads=windows.with_ends(windows.stride))


@layer("SPP")
class SPP(Layer):
    """Pool into 1, 4, 16, ... windows and concatenate them (spatial pyramid pooling).

    (N, C, H, W) to (N, C * windows), or (N, C, 1, 1) with `pyramid_height: 1`.
    Source: BVLC/caffe src/caffe/layers/spp_layer.cpp; arXiv 1406.4729.
    """

    message = "spp_param"
    numbers = {"": 132}
    pyramid_height: int = field(1, "uint32", least=1, most=16, doc="levels; level i has 2 ** i windows per side")
    pool: str = field(2, Enum("MAX", "AVE", "STOCHASTIC"), "MAX", doc="method")
    engine: str = engine_field(6)

    def setup(self) -> None:
        need(
            self.pool != "STOCHASTIC",
            "pool STOCHASTIC selects random cells, so its output is not defined; Caffe has it on GPUs only",
        )

    def forward(self, x: Array) -> Array:
        need(len(x.shape) == 4, f"needs an input of 4 axes (N, C, H, W), got shape {tuple(x.shape)}")
        n, _, height, width = x.shape
        need(height > 0 and width > 0, f"needs a map with pixels, got shape {tuple(x.shape)}")
        levels = [self._level(x, level) for level in range(self.pyramid_height)]
        if len(levels) == 1:
            return levels[0]
        return np.concatenate([y.reshape(n, -1) for y in levels], axis=1)

    def _level(self, x: Array, level: int) -> Array:
        """Return the pooled windows of a level. They do not overlap, and cover the padded map."""
        kernel, pads = [], [(0, 0), (0, 0)]
        for size in x.shape[2:]:
            window = -(-size // 2**level)
            pad = (window * 2**level - size + 1) // 2
            need(
                pad < window,
                f"level {level} cuts {size} cells into {2**level} windows of {window}, which needs a padding of "
                f"{pad}: it must be less than the window",
            )
            kernel.append(window)
            pads.append((pad, window * 2**level - size - pad))
        if self.pool == "MAX":
            return ops.max_pool(np.pad(x, pads, constant_values=np.float32(_LOWEST)), kernel, strides=kernel)
        return ops.average_pool(np.pad(x, pads), kernel, strides=kernel)
