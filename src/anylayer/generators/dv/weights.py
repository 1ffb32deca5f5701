"""Weights in the order in which DMP's hardware reads them, as 16-bit floats or as indices of 8 bits into a table.

A convolution has one block of 12 x 6 values per output channel and group of 1, 2, 8 or 64 input channels,
depending on the kernel's size. The biases and slopes of eight outputs precede their blocks, as 16-bit floats. A
table precedes all of them. Source of the arrangement: dv-user-driver, src/weights_conv.c, weights_dil.c and
weights_fc.c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.errors import need
from anylayer.generators.dv.plan import ALIGN, Convolution, FullyConnected
from anylayer.network import Array

_BLOCK = 72
_HALF = np.dtype(np.float16)
LARGEST = 65520.0
"""The smallest number that is infinite as a 16-bit float."""


def packed(kind: Convolution | FullyConnected) -> bytes:
    """Return the weights of a layer; b"" for one without weights."""
    if kind.weight is None or kind.bias is None:
        return b""
    table = b"" if kind.table is None else stored(_half(kind.table))
    if isinstance(kind, FullyConnected):
        return table + _align(_values(kind.weight, kind.table).tobytes()) + _align(_half(kind.bias).tobytes())
    if kind.dilation == (1, 1):
        return table + _align(_convolution(kind.weight, kind.bias, kind.slopes, kind.table))
    *_, ky, kx = kind.weight.shape
    parts = [table]
    for tap in range(ky * kx):  # one kernel of 1 x 1 per tap, of which the last one has the bias
        y, x = divmod(tap, kx)
        last = tap == ky * kx - 1
        slopes = None if kind.slopes is None else kind.slopes * last
        one = kind.weight[:, :, y : y + 1, x : x + 1]
        parts.append(_align(_convolution(one, kind.bias * last, slopes, kind.table)))
    return b"".join(parts)


def _values(weight: Array, table: Array | None) -> Array:
    """Return weights as the hardware stores each of them."""
    return _half(weight) if table is None else indices(table, weight)


def _half(values: Array) -> Array:
    """Return weights as 16-bit floats. Raises LayerError for weights that these cannot hold."""
    largest = float(np.abs(values).max(initial=0))
    need(largest < LARGEST, f"16-bit floats hold at most 65504, and its weights go up to {largest:.3g}")
    return values.astype(_HALF)


def _align(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGN)


def _convolution(weight: Array, bias: Array, slopes: Array | None, table: Array | None) -> bytes:
    """Return the weights of a convolution (M, C, ky, kx) without dilation, without its table."""
    outputs, channels, ky, kx = weight.shape
    size = max(kx, ky) | 1
    square = _values(np.pad(weight, ((0, 0), (0, 0), (size - ky, 0), (0, size - kx))), table)
    places = _places(channels, size)
    per_output = (int(places.max()) // _BLOCK + 1) * _BLOCK
    parts = []
    for first in range(0, outputs, 8):
        some = square[first : first + 8]
        for head in (bias, slopes):
            if head is not None:
                parts.append(np.pad(_half(head[first : first + 8]), (0, 8 - len(some))))
        blocks = np.zeros((len(some), per_output), square.dtype)
        blocks[:, places.reshape(-1)] = some.reshape(len(some), -1)
        parts.append(_by_groups(blocks, size))
    return b"".join(part.tobytes() for part in parts)


def _by_groups(blocks: Array, size: int) -> Array:
    """Return the blocks of eight outputs, ordered by group of channels, then by output."""
    step = _BLOCK * _blocks(_group(size), size)
    groups = [blocks[:, i : i + step].reshape(-1) for i in range(0, blocks.shape[1], step)]
    return np.concatenate(groups)


def _group(size: int) -> int:
    """Return the number of channels in a group."""
    return 64 if size == 1 else 8


def _blocks(count: int, size: int) -> int:
    """Return the number of blocks for `count` channels of one group."""
    return count if size == 7 else -(-count // 2) if size == 5 else 1


def _places(channels: int, size: int) -> Array:
    """Return an array (C, y, x): the position of each weight in the memory of one output's blocks."""
    c, y, x = np.ogrid[:channels, :size, :size]
    group, inside = c // _group(size), c % _group(size)
    if size == 7:
        block, row = inside, np.where(x < 6, 5 + y, np.where(y == 0, 2, (y - 1) % 3))
        column = np.where(x < 6, x, np.where(y == 0, 5, np.where(y < 4, 3, 0)))
    elif size == 5:
        block, row, column = inside // 2, 7 - inside % 2 * 6 + y, x
    elif size == 3:
        block, row, column = 0 * inside, 9 - inside // 2 * 3 + y, inside % 2 * 3 + x
    else:
        block, row = 0 * inside, 11 - inside % 8 // 2 * 3 - inside // 8 // 3
        column = inside % 2 * 3 + inside // 8 % 3
    positions = (group * _blocks(_group(size), size) + block) * _BLOCK + row * 6 + column
    return np.broadcast_to(positions, (channels, size, size))


# ---- weights of 8 bits: a table of 255 numbers per layer, as DMP's tool makes it, and an index per weight

CENTERS = 255
"""The numbers of a table without the 0 at its beginning."""
_ROUNDS = 50
_BINS = 4096


def table_of(weights: Array) -> Array:
    """Return at most 255 different 16-bit floats that represent the weights other than 0, by k-means.

    The numbers are sorted. They are the weights themselves where these have few different values.
    """
    values = np.sort(weights[weights != 0].astype(np.float64))
    distinct = np.unique(values.astype(np.float16))
    if len(distinct) <= CENTERS:
        return distinct
    sums, centers = np.concatenate([[0.0], np.cumsum(values)]), _first_centers(values)
    for _ in range(_ROUNDS):
        ends = np.searchsorted(values, (centers[1:] + centers[:-1]) / 2)
        ends = np.concatenate([[0], ends, [len(values)]])
        counts = np.diff(ends)
        means = np.where(counts > 0, np.diff(sums[ends]) / np.maximum(counts, 1), centers)
        if np.array_equal(means, centers):
            break
        centers = means
    return np.unique(centers.astype(np.float16))


def _first_centers(values: Array) -> Array:
    """Return 255 numbers with the cube root of the values' density, the best one for many centers."""
    counts, edges = np.histogram(values, _BINS)
    share = np.concatenate([[0.0], np.cumsum(np.cbrt(counts))])
    return np.interp((np.arange(CENTERS) + 0.5) / CENTERS * share[-1], share, edges)


def nearest(table: Array, weights: Array) -> Array:
    """Return the weights with each number other than 0 replaced by the nearest one of a table."""
    numbers = table.astype(np.float32)
    replaced = numbers[np.searchsorted((numbers[1:] + numbers[:-1]) / 2, weights)] if len(numbers) else weights
    return np.where(weights == 0, np.float32(0), replaced).astype(np.float32)


def indices(table: Array, weights: Array) -> Array:
    """Return the position of each weight in the table of the hardware, which begins with 0."""
    numbers = table.astype(np.float32)
    return np.where(weights == 0, 0, np.searchsorted(numbers, weights) + 1).astype(np.uint8)


def stored(table: Array) -> bytes:
    """Return a table as the hardware reads it: 256 16-bit floats, of which the first is 0."""
    return np.pad(table.astype(np.float16), (1, CENTERS - len(table))).tobytes()


# ---- windows: kernels in the order of the weights, and poolings in stages that the hardware has

MAX_KERNEL = 7  # cells per axis of a kernel
_MAX_POOL = 3  # cells per axis of a max pooling
Pair = tuple[int, int]
Sides = tuple[int, int, int, int]


def dense(weight: Array, group: int) -> Array:
    """Return weights of a grouped convolution as one without groups; the hardware has one channel per group."""
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
    result = np.zeros((m, c, *((k - 1) * d + 1 for k, d in zip(kernel, dilations))), weight.dtype)
    result[:, :, :: dilations[0], :: dilations[1]] = weight
    return result


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
