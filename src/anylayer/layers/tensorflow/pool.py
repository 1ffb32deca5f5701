"""Pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Enum, TensorFlowLayer, attribute, integers, layer, need
from anylayer.layers.tensorflow._spatial import channels_first, flat_pads, restored, spatial, windows
from anylayer.network import Array


class _Pool(TensorFlowLayer):
    """A pooling with padding SAME, VALID or EXPLICIT. Padded cells count neither in a maximum nor in a mean."""

    padding: str = attribute(Enum("SAME", "VALID", "EXPLICIT"))
    explicit_paddings: tuple[int, ...] = attribute("int64", (), repeated=True)
    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")
    rank = 4

    def pool(self, x: Array, ksize: Sequence[int], strides: Sequence[int], average: bool) -> Any:
        """Return the maximum of each window, or its mean over the cells that are not padding."""
        need(len(x.shape) == self.rank, f"the input must have {self.rank} axes, got shape {tuple(x.shape)}")
        kernel = spatial(ksize, self.data_format, self.rank, "ksize")
        steps = spatial(strides, self.data_format, self.rank, "strides")
        y = channels_first(x, self.data_format)
        pads = flat_pads(
            windows(self.padding, y.shape[2:], kernel, steps, self.explicit_paddings, self.data_format)
        )
        pooled = ops.average_pool if average else ops.max_pool
        return restored(pooled(y, kernel, strides=steps, pads=pads), self.data_format)


class _FixedPool(_Pool):
    """A pooling whose window and strides are attributes."""

    ksize: tuple[int, ...] = attribute("int64", repeated=True, doc="one per axis, in the order of data_format")
    strides: tuple[int, ...] = attribute("int64", repeated=True, doc="one per axis, in the order of data_format")
    average = False

    def forward(self, x: Array) -> Any:
        return self.pool(x, self.ksize, self.strides, self.average)


@layer("MaxPool")
class MaxPool(_FixedPool):
    """Compute the maximum of each window.

    (N, H, W, C) to (N, H', W', C), sizes as in Conv2D; data_format NCHW puts channels at axis 1. ksize and strides
    have one value per axis, and those of batch and channels are 1.
    Source: tf.raw_ops.MaxPool; tensorflow/core/kernels/maxpooling_op.cc.
    """


@layer("AvgPool")
class AvgPool(_FixedPool):
    """Compute the mean of each window, without padded cells.

    (N, H, W, C) to (N, H', W', C), sizes as in Conv2D; data_format NCHW puts channels at axis 1. ksize and strides
    have one value per axis, and those of batch and channels are 1.
    Source: tf.raw_ops.AvgPool; tensorflow/core/kernels/avgpooling_op.cc.
    """

    average = True


@layer("MaxPool3D")
class MaxPool3D(_FixedPool):
    """Compute the maximum of each window of a volume.

    (N, D, H, W, C) to (N, D', H', W', C); data_format NCDHW puts channels at axis 1.
    Source: tf.raw_ops.MaxPool3D; tensorflow/core/kernels/pooling_ops_3d.cc.
    """

    data_format: str = attribute(Enum("NDHWC", "NCDHW"), "NDHWC")
    rank = 5


@layer("AvgPool3D")
class AvgPool3D(MaxPool3D):
    """Compute the mean of each window of a volume, without padded cells.

    (N, D, H, W, C) to (N, D', H', W', C); data_format NCDHW puts channels at axis 1.
    Source: tf.raw_ops.AvgPool3D; tensorflow/core/kernels/pooling_ops_3d.cc.
    """

    average = True


@layer("MaxPoolV2")
class MaxPoolV2(_Pool):
    """Compute the maximum of each window, whose size and strides are constant inputs.

    Shapes as for MaxPool.
    Source: tf.raw_ops.MaxPoolV2; tensorflow/core/kernels/maxpooling_op.cc.
    """

    def forward(self, x: Array, ksize: Array, strides: Array) -> Any:
        return self.pool(x, integers(ksize, "ksize"), integers(strides, "strides"), False)


@layer("MaxPoolWithArgmax")
class MaxPoolWithArgmax(_FixedPool):
    """Compute the maximum of each window and its index.

    (N, H, W, C) to two outputs (N, H', W', C). The index of the element in row y, column x and channel c is (y * W
    + x) * C + c; with include_batch_in_index, n * H * W * C is added for image n.
    Source: tf.raw_ops.MaxPoolWithArgmax; tensorflow/core/kernels/maxpooling_op.cc.
    """

    Targmax: str = attribute(Enum("int32", "int64"), "int64")
    include_batch_in_index: bool = attribute("bool", False)

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("output", 1), ("argmax", 1))

    def forward(self, x: Array) -> Any:
        need(self.data_format == "NHWC", f"data_format must be NHWC, got {self.data_format}")
        need(len(x.shape) == self.rank, f"the input must have {self.rank} axes, got shape {tuple(x.shape)}")
        kernel = spatial(self.ksize, "NHWC", 4, "ksize")
        steps = spatial(self.strides, "NHWC", 4, "strides")
        y = channels_first(x, "NHWC")
        pads = flat_pads(windows(self.padding, y.shape[2:], kernel, steps, self.explicit_paddings))
        best, where = ops.max_pool_with_indices(y, kernel, strides=steps, pads=pads)
        n, height, width, channels = x.shape
        flat_index = restored(where, "NHWC") * channels + np.arange(channels)
        if self.include_batch_in_index:
            flat_index = flat_index + (np.arange(n) * (height * width * channels)).reshape(n, 1, 1, 1)
        return restored(best, "NHWC"), flat_index.astype(self.Targmax)
