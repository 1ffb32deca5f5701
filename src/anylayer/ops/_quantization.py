"""Scales, zero points and integers of quantized arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.errors import TraceError, need, need_shape
from anylayer.network import Array, DType
from anylayer.ops._indexing import axis_of

_INTEGERS = {
    **{f"{sign}int{bits}": None for sign in ("", "u") for bits in (8, 16, 32)},
    "int4": (-8, 7),
    "uint4": (0, 15),
}
_QUANTIZED_DTYPES = ("int8", "uint8", "int16", "uint16")
"""The dtypes to which engines can quantize."""


def is_quantized(dtype: DType) -> bool:
    """Return whether a dtype is one of the integers that a quantized array may hold."""
    return dtype.name in _INTEGERS


def bounds(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer dtype."""
    need(is_quantized(dtype), f"a quantized array holds integers of 4 to 32 bits, got {dtype}")
    stated = _INTEGERS[dtype.name]
    return stated or (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def broadcastable(value: Array, x: Array, axis: int, block: int = 0, what: str = "scale") -> Array:
    """Return a scale or zero point, reshaped so that it broadcasts to `x`.

    It has one number for all, one per slice of `axis`, or one per block of `block` slices.
    """
    rank = len(x.shape)
    if math.prod(value.shape) == 1:
        return value.reshape(())
    axis = axis_of(axis, rank)
    if len(value.shape) == 1 and not block:
        need(
            value.shape[0] == x.shape[axis],
            f"the {what} has {value.shape[0]} numbers, but axis {axis} has size {x.shape[axis]}",
        )
        return value.reshape([-1 if i == axis else 1 for i in range(rank)])
    need(
        block > 0,
        f"the {what} must have one number, or one per slice of axis {axis}, got shape {tuple(value.shape)}",
    )
    blocks = tuple(-(-d // block) if i == axis else d for i, d in enumerate(x.shape))
    need_shape(value, blocks, f"the {what}", about=f" for block_size={block}")
    return np.take(value, np.arange(x.shape[axis]) // block, axis)


def need_supported(op: str, steps: Any, reals: Any) -> None:
    """Raise TraceError for dtypes of the integers and of the scale with which no engine runs an operator."""
    integers = (*_QUANTIZED_DTYPES, "int4", "uint4", "int32") if op == "DequantizeLinear" else _QUANTIZED_DTYPES
    need(
        steps.name in integers and reals.name in ("float16", "float32"),
        f"{op} between {steps.name} and {reals.name} is not supported by engines",
        TraceError,
    )
