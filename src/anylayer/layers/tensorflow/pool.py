"""Pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Enum, Operation, attribute, layer, need, whole
from anylayer.layers.tensorflow._spatial import as_before, channels_first, flat, spatial, windows


class _Pool(Operation):
    padding: str = attribute(Enum("SAME", "VALID", "EXPLICIT"))
    explicit_paddings: tuple[int, ...] = attribute("int64", (), repeated=True)
    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")
    rank = 4

    def pool(self, x: Any, ksize: Sequence[int], strides: Sequence[int], average: bool) -> Any:
        """The windows' largest values, or means that count no padding."""
        need(len(x.shape) == self.rank, f"the input must have {self.rank} axes, got shape {tuple(x.shape)}")
        kernel = spatial(ksize, self.data_format, self.rank, "ksize")
        steps = spatial(strides, self.data_format, self.rank, "strides")
        y = channels_first(x, self.data_format)
        pads = flat(windows(self.padding, y.shape[2:], kernel, steps, self.explicit_paddings, self.data_format))
        pooled = ops.average_pool if average else ops.max_pool
        return as_before(pooled(y, kernel, strides=steps, pads=pads), self.data_format)


class _Fixed(_Pool):
    ksize: tuple[int, ...] = attribute("int64", repeated=True, doc="one an axis")
    strides: tuple[int, ...] = attribute("int64", repeated=True, doc="one an axis")
    average = False

    def forward(self, x: Any) -> Any:
        return self.pool(x, self.ksize, self.strides, self.average)


@layer("MaxPool")
class MaxPool(_Fixed):
    """The largest value in each window."""


@layer("AvgPool")
class AvgPool(_Fixed):
    """The mean of each window; padding is not counted."""

    average = True


@layer("MaxPool3D")
class MaxPool3D(_Fixed):
    """The largest value in each window of a volume."""

    data_format: str = attribute(Enum("NDHWC", "NCDHW"), "NDHWC")
    rank = 5


@layer("AvgPool3D")
class AvgPool3D(MaxPool3D):
    """The mean of each window of a volume; padding is not counted."""

    average = True


@layer("MaxPoolV2")
class MaxPoolV2(_Pool):
    """The largest value in each window, whose size and step are inputs."""

    def forward(self, x: Any, ksize: Any, strides: Any) -> Any:
        return self.pool(x, whole(ksize, "ksize"), whole(strides, "strides"), False)


@layer("MaxPoolWithArgmax")
class MaxPoolWithArgmax(_Fixed):
    """The largest value in each window and where it lies: (row * width + column) * channels + channel."""

    Targmax: str = attribute(Enum("int32", "int64"), "int64")
    include_batch_in_index: bool = attribute("bool", False)

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("output", 1), ("argmax", 1))

    def forward(self, x: Any) -> Any:
        need(self.data_format == "NHWC", f"data_format must be NHWC, got {self.data_format}")
        need(len(x.shape) == self.rank, f"the input must have {self.rank} axes, got shape {tuple(x.shape)}")
        kernel = spatial(self.ksize, "NHWC", 4, "ksize")
        steps = spatial(self.strides, "NHWC", 4, "strides")
        y = channels_first(x, "NHWC")
        pads = flat(windows(self.padding, y.shape[2:], kernel, steps, self.explicit_paddings))
        best, where = ops.max_pool_with_indices(y, kernel, strides=steps, pads=pads)
        n, height, width, channels = x.shape
        flat_index = as_before(where, "NHWC") * channels + np.arange(channels)
        if self.include_batch_in_index:
            flat_index = flat_index + (np.arange(n) * (height * width * channels)).reshape(n, 1, 1, 1)
        return as_before(best, "NHWC"), flat_index.astype(self.Targmax)
