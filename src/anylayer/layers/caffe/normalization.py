"""Layers that normalize by statistics of the input or of the training data."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, field, layer, need
from anylayer.layers._resampling import plane_of
from anylayer.layers._table import operators, row
from anylayer.layers.caffe._axes import canonical
from anylayer.layers.caffe._messages import (
    EPSILONS,
    INTEL,
    FillerParameter,
    constant,
    engine_field,
    is_training,
    no_effect,
    reads,
    written_filler,
)


@layer("BatchNorm")
class BatchNorm(Layer):
    """Compute (x - mean) / sqrt(variance + eps) per channel, without scale and shift.

    (N, C, ...) to the same shape.
    Weights: the sums of means (C,) and of variances (C,), and their divisor (1,), where 0 makes both 0. With
    `use_global_stats: false`, mean and biased variance are those of the input over all axes but 1.
    Source: BVLC/caffe src/caffe/layers/batch_norm_layer.cpp; arXiv 1502.03167.
    """

    elementwise = True
    message = "batch_norm_param"
    numbers = {"": 139}
    use_global_stats: bool | None = field(
        1, "bool", None, doc="take the stored statistics; default: true at TEST, false at TRAIN"
    )
    moving_average_fraction: float = field(
        2, "float", 0.999, doc="momentum of the stored statistics, for training"
    )
    eps: float = field(3, "float", 1e-5, doc="added to the variance", others=EPSILONS)
    update_global_stats: bool = field(4, "bool", False, doc="DeepLab v2, PSPNet: store statistics (training)")

    engine: str = engine_field(11, INTEL)
    use_weight_bias: bool = no_effect(5, "bool", True)
    bias_term: bool = no_effect(6, "bool", True)
    stats_batch_size: int = no_effect(9, "uint32", 0)
    relu: bool = no_effect(10, "bool", False)

    def forward(self, x: Array) -> Array:
        need(len(x.shape) >= 1, "needs an input with axes, got shape ()")
        channels = 1 if len(x.shape) == 1 else x.shape[1]
        stored = not is_training(self) if self.use_global_stats is None else self.use_global_stats
        filler = None if stored else constant(0)
        mean = self.blob(0, (channels,), filler, what="mean")
        variance = self.blob(1, (channels,), filler, what="variance")
        factor = self.blob(2, (1,), filler, what="factor")[0]
        if not stored:
            return self._of_the_batch(x)
        divided = np.float32(1) / factor if factor != 0 else np.float32(0)
        one, zero = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        wide = x.reshape(-1, 1) if len(x.shape) == 1 else x
        y = ops.batch_normalization(wide, one, zero, mean * divided, variance * divided, epsilon=self.eps)
        return y.reshape(x.shape)

    def _of_the_batch(self, x: Array) -> Array:
        axes = (0, *range(2, len(x.shape)))
        centred = x - x.mean(axis=axes, keepdims=True)
        variance = (centred * centred).mean(axis=axes, keepdims=True)
        return centred / np.sqrt(variance + np.float32(self.eps))


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

    def forward(self, x: Array) -> Array:
        need(len(x.shape) == 4, f"needs an input (N, C, H, W), got shape {tuple(x.shape)}")
        return self.normalize(x)

    def normalize(self, x: Array) -> Array:
        """Return `x` (N, C, ...), normalized, scaled and shifted."""
        need(
            not is_training(self) or self.frozen,
            "BN takes the batch's statistics at TRAIN, which are not computed here; read the network at TEST",
        )
        shape = (1, x.shape[1], 1, 1)
        slope = self.blob(0, shape, written_filler(self, "slope_filler"), what="slope")
        bias = self.blob(1, shape, self.bias_filler, what="bias")
        mean = self.blob(2, shape, what="mean")
        variance = self.blob(3, shape, what="variance")
        numbers = (blob.reshape(-1) for blob in (slope, bias, mean, variance))
        return ops.batch_normalization(x, *numbers, epsilon=self.eps)


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
        scale, shift = _scale_and_shift(self, x.shape[1])
        if self.bn_mode == "INFERENCE":
            return x * scale + shift
        mean = x.mean(axis=(0, 2, 3), keepdims=True)
        centred = x - mean
        variance = (centred * centred).mean(axis=(0, 2, 3), keepdims=True)
        y = centred / np.sqrt(variance + np.float32(1e-9)) * scale + shift
        return [y, mean, variance][: self.outputs]


def _scale_and_shift(bn: SegNetBN | SophgoBN, channels: int) -> tuple[Array, Array]:
    """Return the weights of SegNet's layer, each (1, C, 1, 1)."""
    filler, shape = written_filler(bn, "scale_filler"), (1, channels, 1, 1)
    return bn.blob(0, shape, filler, what="scale"), bn.blob(1, shape, bn.shift_filler, what="shift")


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

    def forward(self, x: Array) -> Array:
        need(len(x.shape) >= 2, f"needs an input (N, C, ...), got shape {tuple(x.shape)}")
        if self.bn_mode == "LEARN":
            return self.normalize(x)
        each = (1, -1, *(1,) * (len(x.shape) - 2))
        scale, shift = (w.reshape(each) for w in _scale_and_shift(self, x.shape[1]))
        return x * scale + shift


@layer("LRN")
class LRN(Layer):
    """Divide each element by a power of the mean square of its neighbourhood.

    (N, C, H, W) to the same shape.

        ACROSS_CHANNELS: x * (k + alpha / local_size * sum of squares over local_size channels) ** -beta
        WITHIN_CHANNEL:  x * (1 + alpha * mean of squares over local_size x local_size pixels) ** -beta, without k
    Source: BVLC/caffe src/caffe/layers/lrn_layer.cpp.
    """

    elementwise = True
    message = "lrn_param"
    numbers = {"": 118}
    local_size: int = field(
        1, "uint32", 5, doc="size of the neighbourhood in channels, or in pixels per side; odd"
    )
    alpha: float = field(2, "float", 1.0, doc="factor of the mean square")
    beta: float = field(3, "float", 0.75, doc="exponent")
    norm_region: str = field(
        4, Enum("ACROSS_CHANNELS", "WITHIN_CHANNEL"), "ACROSS_CHANNELS", doc="the neighbourhood"
    )
    k: float = field(5, "float", 1.0, doc="added to the mean square; ACROSS_CHANNELS only")
    engine: str = engine_field(6)

    def setup(self) -> None:
        need(self.local_size % 2 == 1, f"local_size must be odd, got {self.local_size}")

    def forward(self, x: Array) -> Array:
        need(len(x.shape) == 4, f"needs an input (N, C, H, W), got shape {tuple(x.shape)}")
        size = self.local_size
        if self.norm_region == "ACROSS_CHANNELS":
            return ops.lrn(x, size, alpha=self.alpha, beta=self.beta, bias=self.k)
        mean = ops.average_pool(x * x, (size, size), pads=size // 2, count_include_pad=True)
        return x * (np.float32(1) + mean * np.float32(self.alpha)) ** np.float32(-self.beta)


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

    def forward(self, x: Array) -> Array:
        rank = len(x.shape)
        need(2 <= rank <= 4, f"input 0 must be of shape (N, C, H, W), got {tuple(x.shape)}")
        channels = x.shape[1]
        scale = self.blob(0, () if self.channel_shared else (channels,), self.scale_filler, what="scale")
        axes = tuple(range(1, rank)) if self.across_spatial else (1,)
        length = np.sqrt((x * x).sum(axis=axes, keepdims=True) + np.float32(self.eps))
        return x / length * scale.reshape(1, -1, *(1,) * (rank - 2))


@layer("Softmax")
class Softmax(Layer):
    """Compute exp(x), divided by its sum along `axis`.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/softmax_layer.cpp.
    """

    elementwise = True
    message = "softmax_param"
    numbers = {"": 125}
    engine: str = engine_field(1)
    axis: int = field(2, "int32", 1, doc="axis whose elements sum to 1")

    def forward(self, x: Array) -> Array:
        return ops.softmax(x, axis=canonical(self.axis, x))


def _channel_norm(x: Array) -> Array:
    plane_of(x)
    return np.sqrt((x * x).sum(axis=1, keepdims=True))


def _grn(x: Array, bias: float) -> Array:
    need(2 <= len(x.shape) <= 4, f"input 0 must be of shape (N, C, H, W), got {tuple(x.shape)}")
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True) + np.float32(bias))


def _mvn(x: Array, normalize_variance: bool, across_channels: bool, eps: float) -> Array:
    need(len(x.shape) <= 4, f"needs an input of at most 4 axes (N, C, H, W), got shape {tuple(x.shape)}")
    x = x.reshape(*x.shape, *(1,) * (4 - len(x.shape)))
    axes = (1, 2, 3) if across_channels else (2, 3)
    centred = x - x.mean(axis=axes, keepdims=True)
    if not normalize_variance:
        return centred
    return centred / (np.sqrt((centred * centred).mean(axis=axes, keepdims=True)) + np.float32(eps))


def _normalize_channels(x: Array, normalize_type: str, *, outputs: int, **of_training: bool) -> Any:
    need(normalize_type in ("L1", "L2"), f'normalize_type must be "L1" or "L2", got "{normalize_type}"')
    rank = len(x.shape)
    need(rank in (2, 4), f"input 0 must be of shape (N, C, H, W) or (N, C), got {tuple(x.shape)}")
    x = x.reshape(*x.shape, 1, 1) if rank == 2 else x
    terms = x * x if normalize_type == "L2" else np.abs(x)
    divisor = terms.sum(axis=1, keepdims=True) + np.float32(1e-6)
    divisor = np.sqrt(divisor) if normalize_type == "L2" else divisor
    return [x / divisor, divisor][:outputs]


operators(
    Layer,
    "Source: {}.",
    {
        "ChannelNorm": row("Compute the Euclidean length of the channels of each pixel.", _channel_norm,
            "lmb-freiburg/flownet2 src/caffe/layers/channel_norm_layer.cu", "(N, C, H, W) to (N, 1, H, W)."),
        "GRN": row("Compute x / sqrt(bias + sum of x * x over the channels).", _grn,
            "openvinotoolkit/training_toolbox_caffe "
            "src/caffe/layers/grn_layer.cpp", "(N, C, H, W) to the same shape.",
            reads("grn_param", {"model-optimizer": 213}, elementwise=True),
            bias=field(1, "float", 1.0, least=0, doc="added to the sum of squares")),
        "MVN": row(
            "Compute (x - mean) / (standard deviation + eps) of each sample, per channel or over all channels.",
            _mvn, "BVLC/caffe src/caffe/layers/mvn_layer.cpp",
            "(N, C, H, W) to the same shape. An input of lower rank gets axes of size 1 at the end, and the "
            "output keeps them.",
            reads("mvn_param", 120, elementwise=True),
            normalize_variance=field(1, "bool", True, doc="divide by the standard deviation"),
            across_channels=field(2, "bool", False, doc="one mean and deviation for all channels"),
            eps=field(3, "float", 1e-9, doc="added to the standard deviation")),
        "Normalize": row(
            "Compute x / sqrt(1e-6 + sum of squares), or x / (1e-6 + sum of absolute values) (AMSoftmax).",
            _normalize_channels,
            "happynear/caffe-windows src/caffe/layers/normalize_layer.cpp, used by happynear/AMSoftmax",
            "(N, C, H, W) to the same shape, and (N, C) to (N, C, 1, 1). The sum runs over C at each pixel. A "
            "second output is the divisor (N, 1, H, W).",
            reads("normalize_param", {}, elementwise=True, dialects=("amsoftmax",),
                distinctive=frozenset({"normalize_type", "fix_gradient", "bp_norm"})),
            normalize_type=field(1, "string", "L2", doc='the divisor: "L2" or "L1"'),
            fix_gradient=field(2, "bool", False, doc="how the gradient is computed (training)"),
            bp_norm=field(3, "bool", False, doc="the same")),
    },
    __module__=__name__,
)  # fmt: skip
