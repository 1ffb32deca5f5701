"""Sections with weights: convolutions, products with a matrix, and normalization."""

from __future__ import annotations

import math

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, field, layer, need, need_shape
from anylayer.layers.darknet._base import ACTIVATION, ACTIVATIONS, EPSILON, DarknetLayer


@layer("conv")
@layer("convolutional")
class Convolutional(DarknetLayer):
    """Convolve, normalize with the stored statistics if `batch_normalize`, add the biases, and apply `activation`.

    (N, C, H, W) to (N, filters, H', W'), with H' = (H + 2 * padding - size) / stride + 1, rounded down. `pad` sets
    padding to size / 2. The file has the biases, then scales, means and variances if `batch_normalize`, then the
    weights (filters, C / groups, size, size). With a dilation the padding must be half the kernel: with another
    one Darknet computes sizes that do not fit its result. OpenCV ignores `stride_x`, `stride_y` and `dilation`.
    Source: AlexeyAB/darknet src/convolutional_layer.c, src/parser.c; opencv
    modules/dnn/src/darknet/darknet_io.cpp.
    """

    prefix = "conv"
    ignored = r"assisted_excitation|dot|angle|grad_centr|reverse"
    neutral = dict.fromkeys(("binary", "xnor", "bin_output", "antialiasing", "coordconv", "cbn"), 0)
    filters: int = field(0, "int32", least=1, doc="number of output channels")
    size: int = field(0, "int32", least=1, doc="height and width of the kernel")
    stride: int = field(0, "int32", 1, least=1, doc="the stride along both axes")
    stride_x: int = attribute("int32", 0, doc="the stride along the width; 0 for `stride`")
    stride_y: int = attribute("int32", 0, doc="the stride along the height; 0 for `stride`")
    pad: int = attribute("int32", 0, doc="whether the padding is size / 2")
    padding: int = field(0, "int32", 0, least=0, doc="the padding at each side, without `pad`")
    groups: int = field(0, "int32", 1, least=1, doc="number of groups of channels")
    dilation: int = field(0, "int32", 1, least=1, doc="the step between cells of the kernel")
    flipped: bool = attribute(
        "bool", False, doc="whether the file has the weights as (C / groups * size * size, filters)"
    )
    batch_normalize: bool = attribute("bool", False, doc="whether the result is normalized")
    activation: str = attribute(ACTIVATION, doc="the function that is applied to the result")

    def forward(self, x: Array) -> Array:
        need_shape(x, ("N", "C", "H", "W"), "input 0")
        n, k, groups = self.filters, self.size, self.groups
        need(x.shape[1] % groups == 0, f"groups={groups} does not divide {x.shape[1]} channels")
        need(n % groups == 0, f"groups={groups} does not divide filters={n}")
        padding = k // 2 if self.pad else self.padding
        dilation = 1 if k == 1 else self.dilation
        need(dilation == 1 or 2 * padding == k - 1, f"dilation={dilation} needs a padding of half the kernel")
        biases = self.blob(0, (n,), what="biases")
        last = 4 if self.batch_normalize else 1
        statistics = self.statistics(1, n) if self.batch_normalize else None
        shape = (n, x.shape[1] // groups, k, k)
        stored = self.blob(last, (math.prod(shape[1:]), n) if self.flipped else shape)
        y = ops.conv(
            x,
            stored.T.reshape(shape) if self.flipped else stored,
            None if self.batch_normalize else biases,
            strides=(max(self.stride_y, 0) or self.stride, max(self.stride_x, 0) or self.stride),
            pads=padding * dilation,
            dilations=dilation,
            group=groups,
        )
        if statistics is not None:
            scale, mean, variance = statistics
            y = ops.batch_normalization(y, scale, biases, mean, variance, epsilon=EPSILON)
        return ACTIVATIONS[self.activation](y)


@layer("conn")
@layer("connected")
class FullyConnected(DarknetLayer):
    """Multiply with a matrix, normalize if `batch_normalize`, add the biases, and apply `activation`.

    (N, ...) to (N, output). The file has the biases, the weights (output, values of the input), and then scales,
    means and variances if `batch_normalize`. OpenCV reads them before the weights, and so other numbers.
    Source: AlexeyAB/darknet src/connected_layer.c, src/parser.c load_connected_weights.
    """

    prefix = "fullyConnected"
    transposes = True
    output: int = field(0, "int32", least=1, doc="number of outputs")
    batch_normalize: bool = attribute("bool", False, doc="whether the result is normalized")
    activation: str = attribute(ACTIVATION, doc="the function that is applied to the result")

    def forward(self, x: Array) -> Array:
        flat = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        biases = self.blob(0, (self.output,), what="biases")
        weights = self.blob(1, (self.output, flat.shape[1]))
        y = ops.gemm(flat, weights, None if self.batch_normalize else biases, trans_b=True)
        if self.batch_normalize:
            scale, mean, variance = self.statistics(2, self.output)
            y = ops.batch_normalization(y, scale, biases, mean, variance, epsilon=EPSILON)
        return ACTIVATIONS[self.activation](y)


@layer("local")
class Local(DarknetLayer):
    """Convolve with weights of its own for each place of the output, add biases, and apply `activation`.

    (N, C, H, W) to (N, filters, H', W'), with H' = (H + 2 * pad - size) / stride + 1, rounded down. The file has
    the biases (filters, H', W'), and the weights (H' * W', filters, C * size * size). A `pad` of 1 needs a size of
    3: with another one Darknet computes sizes that do not fit its result.
    Source: AlexeyAB/darknet src/local_layer.c.
    """

    filters: int = field(0, "int32", least=1, doc="number of output channels")
    size: int = field(0, "int32", least=1, doc="height and width of the kernel")
    stride: int = field(0, "int32", 1, least=1, doc="the stride along both axes")
    pad: int = attribute("int32", 0, doc="the padding at each side")
    activation: str = attribute(ACTIVATION, doc="the function that is applied to the result")

    def forward(self, x: Array) -> Array:
        need_shape(x, ("N", "C", "H", "W"), "input 0")
        n, k, step, pad = self.filters, self.size, self.stride, self.pad
        need(pad == 0 or (pad == 1 and k == 3), f"pad={pad} with size={k} is not supported")
        height, width = ((d + 2 * pad - k) // step + 1 for d in x.shape[2:])
        need(height > 0 and width > 0, f"size={k} does not fit a map of {x.shape[2]} x {x.shape[3]}")
        padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        down, right = (height - 1) * step + 1, (width - 1) * step + 1
        taps = [padded[:, :, i : i + down : step, j : j + right : step] for i in range(k) for j in range(k)]
        columns = np.stack(taps, axis=2).reshape(x.shape[0], x.shape[1] * k * k, height * width)
        biases = self.blob(0, (n, height, width), what="biases")
        weights = self.blob(1, (height * width, n, x.shape[1] * k * k))
        y = (weights @ columns.transpose(2, 1, 0)).transpose(2, 1, 0).reshape(x.shape[0], n, height, width)
        return ACTIVATIONS[self.activation](y + biases)


@layer("batchnorm")
class BatchNorm(DarknetLayer):
    """Normalize each channel with the stored statistics.

    (N, C, ...) to the same shape. The file has biases (not in dialect "pjreddie"), scales, means and variances.
    Source: AlexeyAB/darknet src/batchnorm_layer.c, src/parser.c load_batchnorm_weights.
    """

    def forward(self, x: Array) -> Array:
        count, has_biases = x.shape[1], self.dialect != "pjreddie"
        biases = self.blob(0, (count,), what="biases") if has_biases else np.zeros(count, np.float32)
        scale, mean, variance = self.statistics(int(has_biases), count)
        return ops.batch_normalization(x, scale, biases, mean, variance, epsilon=EPSILON)
