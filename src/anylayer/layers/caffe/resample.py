"""Resample (FlowNet, Intel's Caffe)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Array, Enum, Layer, field, layer, need
from anylayer.layers.caffe._resampling import need_plane, plane_of, repeat_pixels, whole_factor

_SUPPORT = {"LINEAR": 2, "CUBIC": 4}


@layer("Resample")
class Resample(Layer):
    """Resize by a filter around the place of each output pixel, normalized at the borders.

    (N, C, H, W) to (N, C, H', W'). The size is that of the second input, else `height` and `width`, else `factor`
    times that of the input. Output pixel j of a row lies at j * fx + fy / 2 - 0.5 of the input, with fx = W / W'
    and fy = H / H', and likewise for columns. (The two factors cross in the reference; equal factors give
    half-pixel centers.) NEAREST takes the nearest pixel, LINEAR and CUBIC a weighted mean of near pixels, over a
    wider range with `antialias` when the output is smaller.
    Source: lmb-freiburg/flownet2 src/caffe/layers/resample_layer.cu; opencv/dldt 2018 ext_resample.cpp and
    model-optimizer/extensions/ops/resample.py (factor).
    """

    message = "resample_param"
    numbers = {"synopsys": 155}
    width: int = field(1, "uint32", 0, doc="columns of the output")
    height: int = field(2, "uint32", 0, doc="rows of the output")
    type: str = field(3, Enum(NEAREST=1, LINEAR=2, CUBIC=3, AREA=4), "LINEAR", doc="the interpolation")
    antialias: bool = field(4, "bool", True, doc="whether the filter is wider when the output is smaller")
    factor: float = field(5, "float", 1.0, doc="size of the output over that of the input, without another size")

    def forward(self, x: Array, like: Array | None = None) -> Any:
        h, w = plane_of(x)
        tall, wide = self._size(h, w) if like is None else plane_of(like, "input 1")
        need_plane(tall, wide)
        fy, fx = np.float32(h) / np.float32(tall), np.float32(w) / np.float32(wide)
        half = np.float32(0.5)
        down = np.arange(tall, dtype=np.float32) * fy + fx / np.float32(2) - half
        across = np.arange(wide, dtype=np.float32) * fx + fy / np.float32(2) - half
        if self.type == "NEAREST":
            need(
                h * wide < 2 * w * tall and w * tall < 2 * h * wide,
                f"NEAREST from {h} x {w} to {tall} x {wide} would read outside the input: the height and the "
                "width must change by similar factors",
            )
            times = whole_factor(h, tall)
            if times and times == whole_factor(w, wide):
                return repeat_pixels(x, times, times)
            return x[:, :, :, _round(across)][:, :, _round(down)]
        wider = (fx > 1) | (fy > 1) if self.antialias else np.False_
        rows = self._weights(down, h, fy, wider)
        return rows @ (x @ self._weights(across, w, fx, wider).T)

    def _size(self, h: int, w: int) -> tuple[int, int]:
        if self.has("height") or self.has("width"):
            return self.height, self.width
        need(self.has("factor"), "the size is missing: give height and width, or a second input that has it")
        factor = int(self.factor) if self.factor.is_integer() else self.factor
        tall, wide = h * factor, w * factor
        need(
            tall == int(tall) and wide == int(wide),
            f"factor={self.factor:g} must give integer sizes, got {tall:g} x {wide:g} for {h} x {w}",
        )
        return int(tall), int(wide)

    def _weights(self, at: Array, size: int, factor: Any, wider: Any) -> Array:
        """Return the normalized interpolation matrix (len(at), size) for samples at `at`."""
        scale = np.where(wider, np.float32(1) / factor, np.float32(1))
        taps = np.ceil(np.float32(_SUPPORT[self.type]) / scale).astype(np.int64)
        reach = np.where(factor < 1, 2, taps)
        away = at[:, None] - np.arange(size, dtype=np.float32)
        near = np.abs(np.arange(size) - _round(at)[:, None]) <= reach
        filter_ = _cubic if self.type == "CUBIC" else _triangle
        weights: Array = np.where(near, scale * filter_(np.abs(scale * away)), np.float32(0))
        total = weights.sum(axis=1, keepdims=True, dtype=np.float32)
        spread: Array = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
        return spread

    def setup(self) -> None:
        need(self.type != "AREA", "type AREA is not defined by the reference; NEAREST, LINEAR and CUBIC are")


def _round(at: Array) -> Array:
    """Return the nearest integer, with halves rounded away from zero (round of C)."""
    halves: Array = np.sign(at) * np.floor(np.abs(at) + 0.5)
    return halves.astype(np.int64)


def _triangle(away: Array) -> Array:
    weights: Array = np.maximum(np.float32(1) - away, np.float32(0))
    return weights


def _cubic(away: Array) -> Array:
    x = away
    inner = x * x * (np.float32(1.5) * x - np.float32(2.5)) + np.float32(1)
    outer = x * (x * (np.float32(-0.5) * x + np.float32(2.5)) - np.float32(4)) + np.float32(2)
    weights: Array = np.where(x <= 1, inner, np.where(x < 2, outer, np.float32(0)))
    return weights
