"""The windows of the hardware: kernels in the order of its weights, and poolings in stages that it has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.network import Array

MAX_KERNEL = 7  # cells per axis of a kernel
_MAX_POOL = 3  # cells per axis of a max pooling
Pair = tuple[int, int]
Sides = tuple[int, int, int, int]


def dense(weight: Array, group: int) -> Array:
    """Return the weights of a grouped convolution as those of one without groups. The hardware supports only
    groups of one channel.
    """
    if group == 1:
        return weight
    m, c, ky, kx = weight.shape
    dense = np.zeros((m, c * group, ky, kx), weight.dtype)
    for i in range(group):
        rows = slice(i * m // group, (i + 1) * m // group)
        dense[rows, i * c : (i + 1) * c] = weight[rows]
    return dense


def factors(size: int) -> list[int]:
    """Return factors of a size that are valid kernel sizes, each as large as possible."""
    if size <= MAX_KERNEL:
        return [size]
    largest = next((n for n in range(MAX_KERNEL, 1, -1) if size % n == 0), size)
    return [size] if largest == size else [largest, *factors(size // largest)]


def xy(numbers: Sequence[int]) -> Pair:
    """Return numbers per axis (y, x) as (x, y)."""
    y, x = numbers
    return int(x), int(y)


def sides(begins: Sequence[int], ends: Sequence[int]) -> Sides:
    """Return pads as (left, right, top, bottom)."""
    return int(begins[1]), int(ends[1]), int(begins[0]), int(ends[0])


def mirrored(weight: Array, group: int) -> Array:
    """Return the weights of the convolution that computes a transposed one: (C, M / group, ky, kx) becomes
    (M, C / group, ky, kx), with the kernels turned by 180 degrees."""
    c, outputs, ky, kx = weight.shape
    parts = weight.reshape(group, c // group, outputs, ky, kx).swapaxes(1, 2)
    return parts.reshape(group * outputs, c // group, ky, kx)[:, :, ::-1, ::-1]


def spread(weight: Array, dilations: Sequence[int]) -> Array:
    """Return the kernel without dilation that computes the same: zeros are inserted between the cells."""
    m, c, *kernel = weight.shape
    found = np.zeros((m, c, *((k - 1) * d + 1 for k, d in zip(kernel, dilations))), weight.dtype)
    found[:, :, :: dilations[0], :: dilations[1]] = weight
    return found


def is_pool(kernel: Sequence[int], average: bool) -> bool:
    """Return whether the hardware has a pooling of this size (y, x)."""
    y, x = kernel
    return max(kernel) <= MAX_KERNEL if average else y <= _MAX_POOL and 2 <= x <= _MAX_POOL


def max_stages(
    kernel: Sequence[int], strides: Sequence[int], begins: Sequence[int], ends: Sequence[int]
) -> list[tuple[Pair, Pair, Sides]] | None:
    """Return max poolings (size, stride, pads) that together have a larger kernel; None if there are none.

    All but the last have the stride 1. A stage is padded as far as its windows reach, before the next one is.
    """
    axes = [[_MAX_POOL] * ((k - 1) // 2) + [2] * ((k - 1) % 2) for k in kernel]
    count = len(axes[1])
    if len(axes[0]) > count:
        return None
    ys, xs = axes[0] + [1] * (count - len(axes[0])), axes[1]
    left, stages = [list(begins), list(ends)], []
    for i, size in enumerate(zip(ys, xs)):
        pads = [[min(k - 1, p) for k, p in zip(size, side)] for side in left]
        left = [[p - q for p, q in zip(side, own)] for side, own in zip(left, pads)]
        stages.append((xy(size), xy(strides) if i == count - 1 else (1, 1), sides(*pads)))
    return None if any(map(any, left)) else stages
