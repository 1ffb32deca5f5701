"""BN: batch normalization with scale and shift in one layer, in three forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Enum, Layer, field, layer, need
from anylayer.layers.caffe._messages import EPSILONS, FillerParameter, engine_field, is_training
from anylayer.network import Array


@layer("BN", dialects=("pspnet", "synopsys"))
class BN(Layer):
    """Compute (x - mean) / sqrt(variance + eps) * slope + bias with stored statistics (PSPNet).

    (N, C, H, W) to the same shape. Weights, each (1, C, 1, 1): slope, bias, mean, variance.
    Source: yjxiong/caffe src/caffe/layers/bn_layer.cpp; used by hszhao/PSPNet.
    """

    elementwise = True
    message = "bn_param"
    numbers = {"pspnet": 152}
    slope_filler: FillerParameter = field(1, FillerParameter, doc="values of the slope without a file")
    bias_filler: FillerParameter = field(2, FillerParameter, doc="values of the bias without a file; default 0")
    momentum: float = field(3, "float", 0.9, doc="momentum of the stored statistics, for training")
    eps: float = field(4, "float", 1e-5, doc="added to the variance", others=EPSILONS)
    frozen: bool = field(5, "bool", False, doc="use the stored statistics in training too")
    engine: str = engine_field(6)

    def forward(self, x: Array) -> Any:
        need(len(x.shape) == 4, f"needs an input (N, C, H, W), got shape {tuple(x.shape)}")
        return self.normalize(x)

    def normalize(self, x: Array) -> Any:
        """Return `x` (N, C, ...), normalized, scaled and shifted."""
        need(
            not is_training(self) or self.frozen,
            "BN takes the batch's statistics at TRAIN, which are not computed here; read the network at TEST",
        )
        shape = (1, x.shape[1], 1, 1)
        slope = self.blob(0, shape, self.slope_filler if self.has("slope_filler") else None, what="slope")
        bias = self.blob(1, shape, self.bias_filler, what="bias")
        mean = self.blob(2, shape, what="mean")
        variance = self.blob(3, shape, what="variance")
        scale = slope / np.sqrt(variance + np.float32(self.eps))
        each = (1, -1, *(1,) * (len(x.shape) - 2))
        return x * scale.reshape(each) + (bias - mean * scale).reshape(each)


@layer("BN", dialects=("segnet",))
class SegNetBN(Layer):
    """Compute x * scale + shift, with bn_mode LEARN after normalization by the batch (SegNet).

    (N, C, H, W) to the same shape. LEARN subtracts the mean and divides by the standard deviation of the batch,
    and two further outputs (1, C, 1, 1) are that mean and variance. Weights, each (1, C, 1, 1): scale, shift.
    Source: alexgkendall/caffe-segnet src/caffe/layers/bn_layer.cpp.
    """

    elementwise = True
    message = "bn_param"
    numbers = {"segnet": 45}
    scale_filler: FillerParameter = field(1, FillerParameter, doc="values of the scale without a file")
    shift_filler: FillerParameter = field(2, FillerParameter, doc="values of the shift without a file; default 0")
    bn_mode: str = field(3, Enum("LEARN", "INFERENCE"), "LEARN", doc="INFERENCE: scale and shift only")

    def forward(self, x: Array) -> Any:
        need(len(x.shape) == 4, f"needs an input (N, C, H, W), got shape {tuple(x.shape)}")
        shape = (1, x.shape[1], 1, 1)
        scale = self.blob(0, shape, self.scale_filler if self.has("scale_filler") else None, what="scale")
        shift = self.blob(1, shape, self.shift_filler, what="shift")
        if self.bn_mode == "INFERENCE":
            return x * scale + shift
        mean = x.mean(axis=(0, 2, 3), keepdims=True)
        centred = x - mean
        variance = (centred * centred).mean(axis=(0, 2, 3), keepdims=True)
        y = centred / np.sqrt(variance + np.float32(1e-9)) * scale + shift
        return [y, mean, variance][: self.outputs]


@layer("BN", dialects=("sophgo",))
class SophgoBN(BN):
    """Compute PSPNet's BN, or x * scale + shift with `bn_mode: INFERENCE` (Sophgo).

    (N, C, ...) to the same shape. Weights, each (1, C, 1, 1): slope, bias, mean and variance, or scale and shift.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    numbers = {"sophgo": 162}
    bn_mode: str = field(7, Enum("LEARN", "INFERENCE"), "LEARN", doc="INFERENCE: scale and shift only")
    scale_filler: FillerParameter = field(8, FillerParameter, doc="values of the scale without a file")
    shift_filler: FillerParameter = field(9, FillerParameter, doc="values of the shift without a file; default 0")

    needs_dialect = True

    def forward(self, x: Array) -> Any:
        need(len(x.shape) >= 2, f"needs an input (N, C, ...), got shape {tuple(x.shape)}")
        if self.bn_mode == "LEARN":
            return self.normalize(x)
        shape = (1, x.shape[1], 1, 1)
        scale = self.blob(0, shape, self.scale_filler if self.has("scale_filler") else None, what="scale")
        shift = self.blob(1, shape, self.shift_filler, what="shift")
        each = (1, -1, *(1,) * (len(x.shape) - 2))
        return x * scale.reshape(each) + shift.reshape(each)
