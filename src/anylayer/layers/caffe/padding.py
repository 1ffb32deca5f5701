"""Padding (Sophgo)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._resampling import need_plane, plane_of
from anylayer.network import Array


@layer("Padding")
class Padding(Layer):
    """Put rows and columns of one value around a map.

    (N, C, H, W) to (N, C, pad_t + H + pad_b, pad_l + W + pad_r).
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "padding_param"
    numbers: ClassVar = {"": 166, "sophgo": 166}
    pad_method: Any = field(1, "any", None, doc="not supported: its meanings are not known")
    pad_l: int = field(2, "uint32", 0, doc="columns on the left")
    pad_r: int = field(3, "uint32", 0, doc="columns on the right")
    pad_t: int = field(4, "uint32", 0, doc="rows above")
    pad_b: int = field(5, "uint32", 0, doc="rows below")
    pad_value: int = field(6, "int32", 0, doc="value of the new elements")

    def setup(self) -> None:
        need(not self.has("pad_method"), "pad_method is not supported, since its meanings are not known")

    def forward(self, x: Array) -> Array:
        h, w = plane_of(x)
        rows, columns = (self.pad_t, self.pad_b), (self.pad_l, self.pad_r)
        need_plane(h + sum(rows), w + sum(columns))
        return np.pad(x, [(0, 0), (0, 0), rows, columns], constant_values=np.float32(self.pad_value))
