"""Normalize (SSD)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._messages import FillerParameter
from anylayer.network import Array


@layer("Normalize")
class Normalize(Layer):
    """Compute x / sqrt(eps + sum of squares) * scale.

    (N, C, H, W) to the same shape. The sum runs over (C, H, W) of an image with `across_spatial`, else over C at
    each pixel. Blob: the scale, () with `channel_shared`, else (C,). Without a weights file `scale_filler` gives
    it, 1 by default.
    Source: weiliu89/caffe (branch ssd) src/caffe/layers/normalize_layer.cpp.
    """

    message = "norm_param"
    elementwise = True
    numbers = {"": 206, "ssd": 206, "opencv": 149, "model-optimizer": 204}
    across_spatial: bool = field(1, "bool", True, doc="one length for the image, not one for each pixel")
    scale_filler: FillerParameter = field(2, FillerParameter, doc="filler of the scale without a weights file")
    channel_shared: bool = field(3, "bool", True, doc="one scale for all channels")
    eps: float = field(4, "float", 1e-10, doc="added to the sum of squares")

    def setup(self) -> None:
        if not self.has("scale_filler"):
            self.scale_filler = FillerParameter()
            self.scale_filler.assign({"type": "constant", "value": 1.0})

    def forward(self, x: Array) -> Any:
        rank = len(x.shape)
        need(2 <= rank <= 4, f"input 0 must be of shape (N, C, H, W), got {tuple(x.shape)}")
        channels = x.shape[1]
        scale = self.blob(0, () if self.channel_shared else (channels,), self.scale_filler, what="scale")
        axes = tuple(range(1, rank)) if self.across_spatial else (1,)
        length = np.sqrt((x * x).sum(axis=axes, keepdims=True) + np.float32(self.eps))
        return x / length * scale.reshape(1, -1, *(1,) * (rank - 2))
