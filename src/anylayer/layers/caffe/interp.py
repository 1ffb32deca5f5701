"""Interp (DeepLab, PSPNet): bilinear resize with aligned corners."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layers.caffe._resampling import align_corners, need_plane, plane_of


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
    zoom_factor: int = field(3, "int32", 1, doc="distance of two neighbours in the output, in pixels")
    shrink_factor: int = field(4, "int32", 1, doc="keep every n-th pixel")
    pad_beg: int = field(5, "int32", 0, doc="0, or minus the number of rows and columns cropped at the beginning")
    pad_end: int = field(6, "int32", 0, doc="0, or minus the number of rows and columns cropped at the end")
    full_zoom_factor: int = field(7, "int32", 1, doc="factor of the numbers of rows and columns")

    def setup(self) -> None:
        for name in ("pad_beg", "pad_end"):
            need(getattr(self, name) <= 0, f"{name} must be 0 or negative (it crops), got {getattr(self, name)}")
        for name in ("zoom_factor", "shrink_factor", "full_zoom_factor"):
            need(getattr(self, name) >= 1, f"{name} must be at least 1, got {getattr(self, name)}")

    def forward(self, x: Array, like: Array | None = None) -> Any:
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
