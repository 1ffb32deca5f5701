"""Operations that move blocks of pixels into channels or into the batch, and back; shuffled channels."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axis_of, integers, need_sizes
from anylayer.layers._arrays import Pairs, batch_to_space, space_to_batch
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer


def _depth_to_space(x: Array, block_size: int, mode: str) -> Array:
    n, c, *shape = x.shape
    k, b = len(shape), block_size
    need(b > 0 and c % b**k == 0, f"block_size={b} to the power of {k} does not divide {c} channels")
    if mode == "blocks_first":
        y = x.reshape(n, *[b] * k, c // b**k, *shape)
        order = [0, k + 1, *(v for i in range(k) for v in (k + 2 + i, 1 + i))]
    else:
        y = x.reshape(n, c // b**k, *[b] * k, *shape)
        order = [0, 1, *(v for i in range(k) for v in (k + 2 + i, 2 + i))]
    return y.transpose(order).reshape(n, c // b**k, *(d * b for d in shape))


def _space_to_depth(x: Array, block_size: int, mode: str) -> Array:
    n, c, *shape = x.shape
    k, b = len(shape), block_size
    need(b > 0 and all(d % b == 0 for d in shape), f"block_size={b} does not divide {tuple(shape)}")
    y = x.reshape(n, c, *(v for d in shape for v in (d // b, b)))
    blocks, pixels = [3 + 2 * i for i in range(k)], [2 + 2 * i for i in range(k)]
    order = [0, *blocks, 1, *pixels] if mode == "blocks_first" else [0, 1, *blocks, *pixels]
    return y.transpose(order).reshape(n, c * b**k, *(d // b for d in shape))


def _shuffle_channels(x: Array, axis: int, group: int) -> Array:
    place = axis_of(axis, len(x.shape))
    c = x.shape[place]
    need(group > 0 and c % group == 0, f"group={group} does not divide {c} channels")
    before, after = x.shape[:place], x.shape[place + 1 :]
    return x.reshape(*before, group, c // group, *after).swapaxes(place, place + 1).reshape(x.shape)


def _blocks(x: Array, block: list[int], begin: list[int], end: list[int]) -> tuple[list[int], Pairs]:
    """Return the block and the pairs (begin, end) of all axes but the batch, whose own must be 1 and (0, 0)."""
    rank = len(x.shape)
    need(
        rank > 0 and len(block) == len(begin) == len(end) == rank, f"block, begin and end must have {rank} numbers"
    )
    need(min([*begin, *end]) >= 0, f"begin and end must not be negative, got {begin} and {end}")
    first = (block[0], begin[0], end[0])
    need(first == (1, 0, 0), f"block, begin and end must be 1, 0 and 0 for the batch, got {first}")
    return block[1:], list(zip(begin[1:], end[1:]))


def _space_to_batch(x: Array, block: list[int], begin: list[int], end: list[int]) -> Array:
    blocks, pads = _blocks(x, block, begin, end)
    need_sizes([a + d + b for d, (a, b) in zip(x.shape[1:], pads)])
    return space_to_batch(x, blocks, pads)


_BLOCK = {"mode": attribute(Enum("blocks_first", "depth_first")), "block_size": attribute("int64", 1)}
_CONSTANTS: Any = {"block": integers, "begin": integers, "end": integers}

operators(
    OpenVINOLayer,
    SPECIFICATION,
    {
        "DepthToSpace": row("Move channels into blocks of block_size pixels along each spatial axis.",
            _depth_to_space, "DepthToSpace-1",
            "(N, C, d1, ..., dk) to (N, C / b^k, d1 * b, ..., dk * b). The place in the block is the outer index "
            "of the channels with blocks_first, the inner one with depth_first.", **_BLOCK),
        "SpaceToDepth": row("Move blocks of block_size pixels along each spatial axis into channels.",
            _space_to_depth, "SpaceToDepth-1",
            "(N, C, d1, ..., dk) to (N, C * b^k, d1 / b, ..., dk / b): the inverse of DepthToSpace.", **_BLOCK),
        "ShuffleChannels": row(
            "Shuffle an axis: reshape it to (group, size / group), transpose, and flatten.", _shuffle_channels,
            "ShuffleChannels-1", axis=attribute("int64", 1), group=attribute("int64", 1)),
        "BatchToSpace": row("Move batches into blocks of pixels and crop.",
            lambda x, block, begin, end: batch_to_space(x, *_blocks(x, block, begin, end)), "BatchToSpace-2",
            "(N * prod(block), d1, ...) to (N, d1 * block[1] - crops, ...). block, begin and end are constants "
            "with one number per axis.", **_CONSTANTS),
        "SpaceToBatch": row("Pad with zeros and move blocks of pixels into the batch.", _space_to_batch,
            "SpaceToBatch-2",
            "(N, d1, ...) to (N * prod(block), (d1 + pads) / block[1], ...). block, begin and end are constants "
            "with one number per axis.", **_CONSTANTS),
    },
)  # fmt: skip
