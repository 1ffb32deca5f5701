"""Normalize, in two forms."""

from __future__ import annotations

from collections.abc import Mapping
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
    numbers = {"sophgo": 206, "": 206, "ssd": 206, "opencv": 149, "model-optimizer": 204}
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


@layer("Normalize", dialects=("amsoftmax",))
class NormalizeChannels(Layer):
    """Compute x / sqrt(1e-6 + sum of squares), or x / (1e-6 + sum of absolute values) (AMSoftmax).

    (N, C, H, W) to the same shape, and (N, C) to (N, C, 1, 1). The sum runs over C at each pixel. A second output
    is the divisor (N, 1, H, W).
    Source: happynear/caffe-windows src/caffe/layers/normalize_layer.cpp, used by happynear/AMSoftmax.
    """

    message = "normalize_param"
    elementwise = True
    normalize_type: str = field(1, "string", "L2", doc='the divisor: "L2" or "L1"')
    fix_gradient: bool = field(2, "bool", False, doc="how the gradient is computed (training)")
    bp_norm: bool = field(3, "bool", False, doc="the same")

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        return bool(values) and super().fits(values, inputs, outputs)

    def setup(self) -> None:
        need(
            self.normalize_type in ("L1", "L2"),
            f'normalize_type must be "L1" or "L2", got "{self.normalize_type}"',
        )

    def forward(self, x: Array) -> Any:
        rank = len(x.shape)
        need(rank in (2, 4), f"input 0 must be of shape (N, C, H, W) or (N, C), got {tuple(x.shape)}")
        x = x.reshape(*x.shape, 1, 1) if rank == 2 else x
        terms = x * x if self.normalize_type == "L2" else np.abs(x)
        divisor = terms.sum(axis=1, keepdims=True) + np.float32(1e-6)
        if self.normalize_type == "L2":
            divisor = np.sqrt(divisor)
        return [x / divisor, divisor][: self.outputs]
