"""Blocks of pixels as channels or as batches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Enum, Operation, attribute, layer, need, whole
from anylayer.layers.tensorflow._spatial import as_before, channels_first, extent, spatial, windows


class _Block(Operation):
    block_size: int = attribute("int64")
    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")


@layer("SpaceToDepth")
class SpaceToDepth(_Block):
    """Blocks of pixels as channels: of a block the rows, then the columns, then the channels."""

    def forward(self, x: Any) -> Any:
        return as_before(
            ops.space_to_depth(channels_first(x, self.data_format), self.block_size), self.data_format
        )


@layer("DepthToSpace")
class DepthToSpace(_Block):
    """Channels as blocks of pixels: the inverse of SpaceToDepth."""

    def forward(self, x: Any) -> Any:
        y = ops.depth_to_space(channels_first(x, self.data_format), self.block_size, mode="DCR")
        return as_before(y, self.data_format)


def _pairs(values: Any, count: int, what: str) -> list[tuple[int, int]]:
    flat = whole(values, what, 2)
    need(
        tuple(values.shape) == (count, 2) and all(v >= 0 for v in flat),
        f"{what} must be {count} pairs of 0 or more, got shape {tuple(values.shape)}: {flat[:20]}",
    )
    return list(zip(flat[::2], flat[1::2]))


def _to_batch(x: Any, block: list[int], pairs: list[tuple[int, int]]) -> Any:
    """Cells of equal place in their block as batches of their own."""
    m, rank = len(block), len(x.shape)
    need(m < rank and all(b >= 1 for b in block), f"block_shape {block} does not fit shape {tuple(x.shape)}")
    x = np.pad(x, [(0, 0), *pairs, *[(0, 0)] * (rank - m - 1)])
    inner: list[int] = []
    for axis, b in enumerate(block, 1):
        need(
            x.shape[axis] % b == 0,
            f"block_shape {b} does not divide the {x.shape[axis]} padded cells of axis {axis}",
        )
        inner += [x.shape[axis] // b, b]
    rest = list(x.shape[m + 1 :])
    y = x.reshape(x.shape[0], *inner, *rest)
    places = range(2, 2 * m + 1, 2)
    cells = range(1, 2 * m, 2)
    y = y.transpose(*places, 0, *cells, *range(2 * m + 1, 2 * m + 1 + len(rest)))
    return y.reshape(x.shape[0] * math.prod(block), *inner[::2], *rest)


def _from_batch(x: Any, block: list[int], crops: list[tuple[int, int]]) -> Any:
    m, rank = len(block), len(x.shape)
    need(m < rank and all(b >= 1 for b in block), f"block_shape {block} does not fit shape {tuple(x.shape)}")
    count = math.prod(block)
    need(x.shape[0] % count == 0, f"a block of {count} cells does not divide a batch of {x.shape[0]}")
    batch, sizes, rest = x.shape[0] // count, list(x.shape[1 : m + 1]), list(x.shape[m + 1 :])
    y = x.reshape(*block, batch, *sizes, *rest)
    order = [m]
    for i in range(m):
        order += [m + 1 + i, i]
    y = y.transpose(*order, *range(2 * m + 1, 2 * m + 1 + len(rest)))
    y = y.reshape(batch, *(s * b for s, b in zip(sizes, block)), *rest)
    key: list[Any] = [slice(None)]
    for axis, (before, after) in enumerate(crops, 1):
        need(before + after <= y.shape[axis], f"crops {before} + {after} are more than axis {axis} has")
        key.append(slice(before, y.shape[axis] - after))
    return y[tuple(key)]


@layer("SpaceToBatchND")
class SpaceToBatchND(Operation):
    """Blocks of cells as batches, after padding with zeros."""

    def forward(self, x: Any, block_shape: Any, paddings: Any) -> Any:
        block = whole(block_shape, "block_shape")
        return _to_batch(x, block, _pairs(paddings, len(block), "paddings"))


@layer("BatchToSpaceND")
class BatchToSpaceND(Operation):
    """Batches as blocks of cells, cropped: the inverse of SpaceToBatchND."""

    def forward(self, x: Any, block_shape: Any, crops: Any) -> Any:
        block = whole(block_shape, "block_shape")
        return _from_batch(x, block, _pairs(crops, len(block), "crops"))


@layer("SpaceToBatch")
class SpaceToBatch(Operation):
    """SpaceToBatchND for pictures, with one size of block."""

    block_size: int = attribute("int64")

    def forward(self, x: Any, paddings: Any) -> Any:
        return _to_batch(x, [self.block_size] * 2, _pairs(paddings, 2, "paddings"))


@layer("BatchToSpace")
class BatchToSpace(Operation):
    """BatchToSpaceND for pictures, with one size of block."""

    block_size: int = attribute("int64")

    def forward(self, x: Any, crops: Any) -> Any:
        return _from_batch(x, [self.block_size] * 2, _pairs(crops, 2, "crops"))


@layer("ExtractImagePatches")
class ExtractImagePatches(Operation):
    """Each window's values as channels: rows, then columns, then channels."""

    ksizes: tuple[int, ...] = attribute("int64", repeated=True)
    strides: tuple[int, ...] = attribute("int64", repeated=True)
    rates: tuple[int, ...] = attribute("int64", repeated=True)
    padding: str = attribute(Enum("SAME", "VALID"))

    def forward(self, x: Any) -> Any:
        need(len(x.shape) == 4, f"the input must have 4 axes, got shape {tuple(x.shape)}")
        kernel, steps, rates = (
            spatial(v, "NHWC", 4, n)
            for v, n in ((self.ksizes, "ksizes"), (self.strides, "strides"), (self.rates, "rates"))
        )
        reach = [extent(k, r) for k, r in zip(kernel, rates)]
        pairs = windows(self.padding, x.shape[1:3], reach, steps)
        need(kernel[0] * kernel[1] <= 4096, f"ksizes {kernel} are more than 4096 cells")
        wide = np.pad(x, [(0, 0), *pairs, (0, 0)])
        counts = [(n - e) // s + 1 for n, e, s in zip(wide.shape[1:3], reach, steps)]
        parts = []
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                rows, columns = (
                    slice(c * r, c * r + (n - 1) * s + 1, s) for c, r, n, s in zip((i, j), rates, counts, steps)
                )
                parts.append(wide[:, rows, columns])
        return np.concatenate(parts, axis=3)
