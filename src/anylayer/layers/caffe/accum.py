"""Accum (FlowNet)."""

from __future__ import annotations

from math import ceil
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import plural
from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layer.arguments import same_shape
from anylayer.layers.caffe._resampling import align_corners, need_plane, plane_of


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


def _resize(x: Array, tall: int, wide: int) -> Any:
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
