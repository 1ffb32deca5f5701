"""Operations that move blocks of pixels into channels or into the batch, and back; shuffled channels."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Enum, layer, need
from anylayer.layer.arguments import axis_of, integers
from anylayer.layer.fields import attribute
from anylayer.layers._blocks import batch_to_space, space_to_batch
from anylayer.layers.openvino._base import OpenVINOLayer, need_sizes
from anylayer.network import Array

BLOCKS = Enum("blocks_first", "depth_first")


@layer("DepthToSpace")
class DepthToSpace(OpenVINOLayer):
    """Move channels into blocks of block_size pixels along each spatial axis.

    (N, C, d1, ..., dk) to (N, C / b^k, d1 * b, ..., dk * b). The place in the block is the outer index of the
    channels with blocks_first, the inner one with depth_first.
    Source: OpenVINO operation specification, DepthToSpace-1.
    """

    mode: str = attribute(BLOCKS)
    block_size: int = attribute("int64", 1)

    def forward(self, x: Array) -> Array:
        n, c, *shape = x.shape
        k, b = len(shape), self.block_size
        need(b > 0 and c % b**k == 0, f"block_size={b} to the power of {k} does not divide {c} channels")
        if self.mode == "blocks_first":
            y = x.reshape(n, *[b] * k, c // b**k, *shape)
            order = [0, k + 1, *(v for i in range(k) for v in (k + 2 + i, 1 + i))]
        else:
            y = x.reshape(n, c // b**k, *[b] * k, *shape)
            order = [0, 1, *(v for i in range(k) for v in (k + 2 + i, 2 + i))]
        return y.transpose(order).reshape(n, c // b**k, *(d * b for d in shape))


@layer("SpaceToDepth")
class SpaceToDepth(OpenVINOLayer):
    """Move blocks of block_size pixels along each spatial axis into channels.

    (N, C, d1, ..., dk) to (N, C * b^k, d1 / b, ..., dk / b): the inverse of DepthToSpace.
    Source: OpenVINO operation specification, SpaceToDepth-1.
    """

    mode: str = attribute(BLOCKS)
    block_size: int = attribute("int64", 1)

    def forward(self, x: Array) -> Array:
        n, c, *shape = x.shape
        k, b = len(shape), self.block_size
        need(b > 0 and all(d % b == 0 for d in shape), f"block_size={b} does not divide {tuple(shape)}")
        y = x.reshape(n, c, *(v for d in shape for v in (d // b, b)))
        blocks, pixels = [3 + 2 * i for i in range(k)], [2 + 2 * i for i in range(k)]
        order = [0, *blocks, 1, *pixels] if self.mode == "blocks_first" else [0, 1, *blocks, *pixels]
        return y.transpose(order).reshape(n, c * b**k, *(d // b for d in shape))


@layer("ShuffleChannels")
class ShuffleChannels(OpenVINOLayer):
    """Shuffle an axis: reshape it to (group, size / group), transpose, and flatten.

    The output has the shape of x.
    Source: OpenVINO operation specification, ShuffleChannels-1.
    """

    axis: int = attribute("int64", 1)
    group: int = attribute("int64", 1)

    def forward(self, x: Array) -> Array:
        axis = axis_of(self.axis, len(x.shape))
        c, g = x.shape[axis], self.group
        need(g > 0 and c % g == 0, f"group={g} does not divide {c} channels")
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        return x.reshape(*before, g, c // g, *after).swapaxes(axis, axis + 1).reshape(x.shape)


def _of_space(x: Array, block: Array, begin: Array, end: Array) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the block and the pairs (begin, end) of all axes but the batch, whose own must be 1 and (0, 0)."""
    blocks, low, high = (integers(v, w) for v, w in ((block, "block"), (begin, "begin"), (end, "end")))
    rank = len(x.shape)
    need(
        rank > 0 and len(blocks) == len(low) == len(high) == rank, f"block, begin and end must have {rank} numbers"
    )
    need(min([*low, *high]) >= 0, f"begin and end must not be negative, got {low} and {high}")
    first = (blocks[0], low[0], high[0])
    need(first == (1, 0, 0), f"block, begin and end must be 1, 0 and 0 for the batch, got {first}")
    return blocks[1:], list(zip(low[1:], high[1:]))


@layer("BatchToSpace")
class BatchToSpace(OpenVINOLayer):
    """Move batches into blocks of pixels and crop.

    (N * prod(block), d1, ...) to (N, d1 * block[1] - crops, ...). block, begin and end are constants with one
    number per axis.
    Source: OpenVINO operation specification, BatchToSpace-2.
    """

    def forward(self, x: Array, block: Array, begin: Array, end: Array) -> Any:
        return batch_to_space(x, *_of_space(x, block, begin, end))


@layer("SpaceToBatch")
class SpaceToBatch(OpenVINOLayer):
    """Pad with zeros and move blocks of pixels into the batch.

    (N, d1, ...) to (N * prod(block), (d1 + pads) / block[1], ...). block, begin and end are constants with one
    number per axis.
    Source: OpenVINO operation specification, SpaceToBatch-2.
    """

    def forward(self, x: Array, block: Array, begin: Array, end: Array) -> Array:
        blocks, pads = _of_space(x, block, begin, end)
        need_sizes([a + d + b for d, (a, b) in zip(x.shape[1:], pads)])
        return space_to_batch(x, blocks, pads)
