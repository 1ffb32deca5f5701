"""Interp, Resample and Accum, which resize a plane."""

from __future__ import annotations

from math import ceil
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import plural
from anylayer.layer import Array, Enum, Layer, field, layer, need
from anylayer.layer.arguments import same_shape
from anylayer.layers._arrays import round_half_away
from anylayer.layers._resampling import align_corners, need_plane, plane_of, repeat_pixels, whole_factor


@layer("Interp", dialects=("deeplab", "pspnet", "synopsys", "ascend"))
class Interp(Layer):
    """Resize by bilinear interpolation with aligned corners; zoom_factor z gives 1 + z * (H - 1) rows.

    (N, C, H, W) to (N, C, H', W'), used by DeepLab and PSPNet. Negative pads first crop the input to He = H +
    pad_beg + pad_end rows. H' depends on the fields that the file contains:

        shrink_factor alone:  (He - 1) // shrink_factor + 1
        zoom_factor alone:    1 + zoom_factor * (He - 1)
        height and width:     height
        both factors:         the first rule, then the second
        full_zoom_factor:     He * full_zoom_factor (synopsys)

    An optional second input gives the size instead (some forks). Without a dialect, this class is meant.
    Source: xmojiao/deeplab_v2, hszhao/PSPNet and synopsys-caffe src/caffe/layers/interp_layer.cpp,
    src/caffe/util/interp.cpp.
    """

    message = "interp_param"
    numbers = {
        "": 143,
        "deeplab": 143,
        "pspnet": 143,
        "ascend": 158,
        "synopsys": 163,
        "sophgo": 161,
        "caffe2onnx": 166,
        "ncnn": 205,
        "model-optimizer": 217,
        "opencv": 0,
    }
    height: int = field(1, "int32", 0, doc="rows of the output")
    width: int = field(2, "int32", 0, doc="columns of the output")
    zoom_factor: int = field(3, "int32", 1, least=1, doc="distance of two neighbours in the output, in pixels")
    shrink_factor: int = field(4, "int32", 1, least=1, doc="keep every n-th pixel")
    pad_beg: int = field(5, "int32", 0, doc="0, or minus the number of rows and columns cropped at the beginning")
    pad_end: int = field(6, "int32", 0, doc="0, or minus the number of rows and columns cropped at the end")
    full_zoom_factor: int = field(7, "int32", 1, least=1, doc="factor of the numbers of rows and columns")

    def setup(self) -> None:
        for name in ("pad_beg", "pad_end"):
            need(getattr(self, name) <= 0, f"{name} must be 0 or negative (it crops), got {getattr(self, name)}")

    def forward(self, x: Array, like: Array | None = None) -> Array:
        h, w = plane_of(x)
        cut = self.pad_beg + self.pad_end
        need(
            h + cut > 0 and w + cut > 0,
            f"pad_beg={self.pad_beg} and pad_end={self.pad_end} leave nothing of {h} x {w}",
        )
        x = x[:, :, -self.pad_beg : h + self.pad_end, -self.pad_beg : w + self.pad_end]
        size = self.size(h + cut, w + cut) if like is None else plane_of(like, "input 1")
        need_plane(*size)
        return x if size == (h + cut, w + cut) else align_corners(x, size)

    def size(self, h: int, w: int) -> tuple[int, int]:
        """Return the size of the output for that of the cropped input."""
        zoom, shrink = self.has("zoom_factor"), self.has("shrink_factor")
        sized = self.has("height") and self.has("width")
        if zoom != shrink:
            if self.has("height") or self.has("width"):
                self.note(f"height and width are ignored: {'zoom' if zoom else 'shrink'}_factor is written")
            return self._by_factors(h), self._by_factors(w)
        if sized:
            return self.height, self.width
        if zoom:
            return self._by_factors(h), self._by_factors(w)
        need(
            self.has("full_zoom_factor"),
            "the size is missing: give height and width, zoom_factor or shrink_factor",
        )
        return h * self.full_zoom_factor, w * self.full_zoom_factor

    def _by_factors(self, size: int) -> int:
        return (size - 1) // self.shrink_factor * self.zoom_factor + 1


@layer("Interp", dialects=("opencv",))
class InterpOpenCV(Interp):
    """Resize by bilinear interpolation with aligned corners, without crop and shrink_factor (OpenCV).

    (N, C, H, W) to (N, C, H', W').
    Source: opencv modules/dnn/src/layers/resize_layer.cpp.
    """

    needs_dialect = True

    def setup(self) -> None:
        super().setup()
        for name in ("shrink_factor", "pad_beg", "pad_end", "full_zoom_factor"):
            need(not self.has(name), f"OpenCV's Interp has no {name}; leave the dialect out for DeepLab's rule")


@layer("Interp", dialects=("model-optimizer", "openvino"))
class InterpModelOptimizer(Interp):
    """Resize by bilinear interpolation with aligned corners; zoom_factor z gives z * H rows (OpenVINO 2018).

    (N, C, H, W) to (N, C, H', W'). A factor of 1 counts as absent. Both factors together give 1 + zoom_factor * (H
    - 1) / shrink_factor rows, rounded down.
    Source: opencv/dldt 2018 model-optimizer/extensions/ops/interp.py.
    """

    needs_dialect = True

    def setup(self) -> None:
        super().setup()
        need(not self.has("full_zoom_factor"), "the Model Optimizer's Interp has no full_zoom_factor")

    def size(self, h: int, w: int) -> tuple[int, int]:
        zoom, shrink = self.zoom_factor, self.shrink_factor
        if zoom != 1 and shrink == 1:
            return h * zoom, w * zoom
        if zoom == 1 and shrink != 1:
            return (h - 1) // shrink + 1, (w - 1) // shrink + 1
        if self.height and self.width:
            return self.height, self.width
        return (h - 1) * zoom // shrink + 1, (w - 1) * zoom // shrink + 1


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

    def forward(self, x: Array, like: Array | None = None) -> Array:
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
            rows, columns = (round_half_away(at).astype(np.int64) for at in (down, across))
            return x[:, :, :, columns][:, :, rows]
        wider = (fx > 1) | (fy > 1) if self.antialias else np.False_
        return self._weights(down, h, fy, wider) @ (x @ self._weights(across, w, fx, wider).T)

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
        near = np.abs(np.arange(size) - round_half_away(at)[:, None]) <= reach
        filter_ = _cubic if self.type == "CUBIC" else _triangle
        weights: Array = np.where(near, scale * filter_(np.abs(scale * away)), np.float32(0))
        total = weights.sum(axis=1, keepdims=True, dtype=np.float32)
        return np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)

    def setup(self) -> None:
        need(self.type != "AREA", "type AREA is not defined by the reference; NEAREST, LINEAR and CUBIC are")


def _triangle(away: Array) -> Array:
    return np.maximum(np.float32(1) - away, np.float32(0))


def _cubic(away: Array) -> Array:
    x = away
    inner = x * x * (np.float32(1.5) * x - np.float32(2.5)) + np.float32(1)
    outer = x * (x * (np.float32(-0.5) * x + np.float32(2.5)) - np.float32(4)) + np.float32(2)
    return np.where(x <= 1, inner, np.where(x < 2, outer, np.float32(0)))


@layer("Accum")
class Accum(Layer):
    """Resize the inputs to one size by bilinear interpolation and concatenate their channels.

    (N, C_i, H_i, W_i) to (N, sum of C_i, H, W), with aligned corners. The size is that of the last input with
    `have_reference`, else the largest height and width of the inputs. The size given by the fields replaces it
    only if it is larger in both directions.
    Source: lmb-freiburg/flownet2 src/caffe/layers/accum_layer.cpp, accum_layer.cu.
    """

    message = "accum_param"
    numbers: ClassVar = {"synopsys": 160}
    top_height: int = field(1, "uint32", 0, doc="rows of the output")
    top_width: int = field(2, "uint32", 0, doc="columns of the output")
    size_divisible_by: int = field(3, "uint32", 0, doc="the largest size, rounded up to a multiple of this number")
    have_reference: bool = field(4, "bool", False, doc="the last input only gives the size")

    def setup(self) -> None:
        need(
            not self.has("size_divisible_by") or self.size_divisible_by > 0,
            "size_divisible_by must be at least 1, got 0",
        )

    def forward(self, *inputs: Array) -> Array:
        least = 2 if self.have_reference else 1
        need(len(inputs) >= least, f"takes {plural(least, 'input')} or more, got {len(inputs)}")
        planes = [plane_of(x, f"input {i}") for i, x in enumerate(inputs)]
        parts = inputs[:-1] if self.have_reference else inputs
        n = parts[0].shape[0]
        for i, x in enumerate(parts):
            need(x.shape[0] == n, f"inputs must have as many images: input 0 has {n}, input {i} {x.shape[0]}")
        tall, wide = planes[-1] if self.have_reference else self._size(planes)
        need_plane(tall, wide)
        resized = [_resize(x, tall, wide) for x in parts]
        return resized[0] if len(resized) == 1 else np.concatenate(resized, axis=1)

    def _size(self, planes: list[tuple[int, int]]) -> tuple[int, int]:
        largest = max(h for h, _ in planes), max(w for _, w in planes)
        asked = self.top_height, self.top_width
        if self.has("size_divisible_by"):
            step = self.size_divisible_by
            asked = ceil(largest[0] / step) * step, ceil(largest[1] / step) * step
        return asked if asked[0] > largest[0] and asked[1] > largest[1] else largest


def _resize(x: Array, tall: int, wide: int) -> Array:
    """Return `x` (N, C, H, W), resized to `tall` x `wide`."""
    h, w = x.shape[2:]
    if same_shape((h, w), (tall, wide)):
        return x
    for size, samples, what in ((h, tall, "row"), (w, wide, "column")):
        need(
            samples > 1 or size == 1,
            f"an output of 1 {what} is not defined for an input of {size}, because the reference divides by 0",
        )
    return align_corners(x, (tall, wide))
