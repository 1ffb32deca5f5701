"""Space to depth."""

from __future__ import annotations

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import integer
from anylayer.tracing import record


@operator
def space_to_depth(x: Array, block: int) -> Array:
    """Rearrange `block` x `block` cells into channels: (N, C, H, W) to (N, C * block^2, H / block, W / block).

    Cell (dy, dx) of channel c becomes channel (dy * block + dx) * C + c (ONNX SpaceToDepth-13).
    Raises LayerError if `block` does not divide H and W.
    """
    n, c, h, w = _check(x, block)
    split = x.reshape(n, c, h // block, block, w // block, block)
    return split.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * block**2, h // block, w // block)


def _check(x: Array, block: int) -> tuple[int, ...]:
    need(len(x.shape) == 4, f"space_to_depth needs an input (N, C, H, W), got shape {tuple(x.shape)}")
    integer(block, "block")
    h, w = x.shape[2:]
    need(h % block == 0 and w % block == 0, f"block={block} does not divide a map of {h} x {w}")
    return tuple(x.shape)


@space_to_depth.form
def _(x: Array, block: int) -> Array:
    n, c, h, w = _check(x, block)
    return record("SpaceToDepth", [x], (n, c * block**2, h // block, w // block), x.dtype, blocksize=block)
