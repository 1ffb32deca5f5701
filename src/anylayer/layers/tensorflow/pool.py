"""Pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import channels_first, flat_pads, integers, restored
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, results
from anylayer.layers.tensorflow._spatial import spatial, windows


def _pooling(function: Callable[..., Any], rank: int = 4) -> Callable[..., Any]:
    """Return a pooling of arrays of a rank in any layout, from an operator of anylayer.ops.

    Cells that SAME or EXPLICIT pad count neither in a maximum nor in a mean.
    """

    def pool(x: Array, ksize: Any, strides: Any, padding: str, explicit_paddings: Any, data_format: str) -> Any:
        need(len(x.shape) == rank, f"the input must have {rank} axes, got shape {tuple(x.shape)}")
        kernel = spatial(ksize, data_format, rank, "ksize")
        steps = spatial(strides, data_format, rank, "strides")
        y = channels_first(x, data_format)
        pads = flat_pads(windows(padding, y.shape[2:], kernel, steps, explicit_paddings, data_format))
        pooled = function(y, kernel, strides=steps, pads=pads)
        parts = [restored(part, data_format) for part in (pooled if isinstance(pooled, tuple) else (pooled,))]
        return parts if len(parts) > 1 else parts[0]

    return pool


def _with_argmax(x: Array, Targmax: str, include_batch_in_index: bool, data_format: str, **how: Any) -> Any:
    need(data_format == "NHWC", f"data_format must be NHWC, got {data_format}")
    best, place = _pooling(ops.max_pool_with_indices)(x, data_format=data_format, **how)
    n, height, width, channels = x.shape
    index = place * channels + np.arange(channels)
    if include_batch_in_index:
        index = index + (np.arange(n) * (height * width * channels)).reshape(n, 1, 1, 1)
    return best, index.astype(Targmax)


_PER_AXIS = attribute("int64", repeated=True, doc="one per axis, in the order of data_format")
_FIXED = {"ksize": _PER_AXIS, "strides": _PER_AXIS}
_PLANES = {"data_format": attribute(Enum("NHWC", "NCHW"), "NHWC")}
_VOLUMES = {"data_format": attribute(Enum("NDHWC", "NCDHW"), "NDHWC")}
_SIZES = (
    "(N, H, W, C) to (N, H', W', C), sizes as in Conv2D; data_format NCHW puts channels at axis 1. ksize and "
    "strides have one value per axis, and those of batch and channels are 1."
)
_SIZES_3D = "(N, D, H, W, C) to (N, D', H', W', C); data_format NCDHW puts channels at axis 1."

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "MaxPool": row("Compute the maximum of each window.", _pooling(ops.max_pool), "maxpooling_op.cc", _SIZES,
            **_FIXED, **_PLANES),
        "AvgPool": row("Compute the mean of each window, without padded cells.", _pooling(ops.average_pool),
            "avgpooling_op.cc", _SIZES, **_FIXED, **_PLANES),
        "MaxPool3D": row("Compute the maximum of each window of a volume.", _pooling(ops.max_pool, 5),
            "pooling_ops_3d.cc", _SIZES_3D, **_FIXED, **_VOLUMES),
        "AvgPool3D": row("Compute the mean of each window of a volume, without padded cells.",
            _pooling(ops.average_pool, 5), "pooling_ops_3d.cc", _SIZES_3D, **_FIXED, **_VOLUMES),
        "MaxPoolV2": row("Compute the maximum of each window, whose size and strides are constant inputs.",
            _pooling(ops.max_pool), "maxpooling_op.cc", "Shapes as for MaxPool.",
            ksize=integers, strides=integers, **_PLANES),
        "MaxPoolWithArgmax": row("Compute the maximum of each window and its index.", _with_argmax,
            "maxpooling_op.cc",
            "(N, H, W, C) to two outputs (N, H', W', C). The index of the element in row y, column x and channel "
            "c is (y * W + x) * C + c; with include_batch_in_index, n * H * W * C is added for image n.",
            {"results": results("output", "argmax")}, Targmax=attribute(Enum("int32", "int64"), "int64"),
            include_batch_in_index=attribute("bool", False), **_FIXED, **_PLANES),
    },
    attributes={
        "padding": attribute(Enum("SAME", "VALID", "EXPLICIT")),
        "explicit_paddings": attribute("int64", (), repeated=True),
    },
)  # fmt: skip
