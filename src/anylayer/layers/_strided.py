"""StridedSlice, as TensorFlow and OpenVINO define it: NumPy's slices with masks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from anylayer.layer import need
from anylayer.layer.arguments import integers
from anylayer.network import Array


def strided_slice(x: Array, begin: Array, end: Array, strides: Array | None, *masks: Collection[int]) -> Any:
    """Return x[begin:end:strides, ...] for constants `begin`, `end` and `strides` (None: 1).

    `masks` list the entries without a begin, those without an end, ellipses, new axes of size 1, and those that
    are an index instead of a slice. Raises LayerError for arguments of different lengths and for strides of 0.
    """
    begins, ends = integers(begin, "begin"), integers(end, "end")
    steps = [1] * len(begins) if strides is None else integers(strides, "strides")
    need(
        len(begins) == len(ends) == len(steps),
        f"begin, end and strides must have the same length, got {len(begins)}, {len(ends)} and {len(steps)}",
    )
    first, last, ellipsis, new, index = masks
    key: list[Any] = []
    for i, (low, high, step) in enumerate(zip(begins, ends, steps)):
        if i in ellipsis:
            key.append(Ellipsis)
        elif i in new:
            key.append(None)
        elif i in index:
            key.append(low)
        else:
            need(step != 0, "strides must not be 0")
            key.append(slice(None if i in first else low, None if i in last else high, step))
    return x[tuple(key)]
