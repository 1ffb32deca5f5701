"""Checks and conversions of arguments that the layers of several formats share: axes, constants, SAME padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import TraceError, need
from anylayer.network import Array
from anylayer.ops._indexing import axes_of, axis_of
from anylayer.ops._spatial import Pairs, extent, flat_pads
from anylayer.tracing import is_traced, size_list

__all__ = [
    "Pairs",
    "axes_of",
    "axis_of",
    "channels_first",
    "constant",
    "extent",
    "flat_pads",
    "integer",
    "integers",
    "restored",
    "same_pads",
]


def constant(x: Any, what: str) -> Array:
    """Return an input that must be a constant, as an array.

    Raise TraceError when it is computed from the network's inputs; the layer is then a host call.
    """
    need(not is_traced(x), f"{what} must be a constant, but it is computed from the network's inputs", TraceError)
    return np.asarray(x)


def integers(x: Any, what: str, rank: int | None = None) -> list[int]:
    """Return the integers of a constant input in C order. Raise LayerError when its rank exceeds `rank`.

    An input that holds sizes of the network's inputs is a constant, too; the integers may then be symbolic.
    """
    sizes = size_list(x)
    if sizes is not None:
        need(rank is None or x.ndim <= rank, f"{what} must be a list of numbers, got shape {tuple(x.shape)}")
        return sizes
    values = constant(x, what)
    need(values.dtype.kind in "iu", f"{what} must be integers, got {values.dtype}")
    need(rank is None or values.ndim <= rank, f"{what} must be a list of numbers, got shape {values.shape}")
    return [int(v) for v in values.reshape(-1)]


def integer(x: Any, what: str) -> int:
    """Return the integer of a constant input with one element. Raise LayerError when it has another size."""
    values = integers(x, what, 1)
    need(len(values) == 1, f"{what} must be one number, got {len(values)}")
    return values[0]


def same_pads(sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int], upper: bool = True) -> Pairs:
    """Return the SAME padding of each spatial axis: as many cells as let ceil(size / stride) windows fit.

    Where the number of cells is odd, the extra cell goes after the axis (`upper`) or before it.
    Source: tensorflow/core/framework/common_shape_fns.cc; ONNX operators Conv and MaxPool, auto_pad.
    """
    pairs = []
    for size, window, stride in zip(sizes, extents, strides):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        small, large = total // 2, total - total // 2
        pairs.append((small, large) if upper else (large, small))
    return tuple(pairs)


def channels_first(x: Any, data_format: str) -> Any:
    """Return `x`, whose axes have the order `data_format`, as (N, C, ...)."""
    if _is_channels_first(data_format):
        return x
    return x.transpose(0, len(x.shape) - 1, *range(1, len(x.shape) - 1))


def restored(x: Any, data_format: str) -> Any:
    """Return `x` (N, C, ...) with its axes in the order of `data_format`: the inverse of `channels_first`."""
    if _is_channels_first(data_format):
        return x
    return x.transpose(0, *range(2, len(x.shape)), 1)


def _is_channels_first(data_format: str) -> bool:
    """Return whether a TensorFlow format ("NCHW") or a Keras format ("channels_first") puts channels at axis 1."""
    return data_format == "channels_first" or data_format.startswith("NC")
