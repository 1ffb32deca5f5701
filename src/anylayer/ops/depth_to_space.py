"""Depth to space."""

from __future__ import annotations

from typing import Literal

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import integer
from anylayer.tracing import record


@operator
def depth_to_space(x: Array, block: int, *, mode: Literal["DCR", "CRD"] = "DCR") -> Array:
    """Rearrange channels into `block` x `block` cells: (N, C, H, W) to (N, C / block^2, H * block, W * block).

    Let C' = C / block^2. With mode "DCR", channel (dy * block + dx) * C' + c goes to cell (dy, dx) of channel c.
    With "CRD", channel (c * block + dy) * block + dx does. ONNX DepthToSpace-13. Raises LayerError if block^2 does
    not divide C.
    """
    n, c, h, w = _check(x, block, mode)
    if mode == "DCR":
        split, order = (n, block, block, c // block**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, c // block**2, block, block, h, w), (0, 1, 4, 2, 5, 3)
    return x.reshape(split).transpose(order).reshape(n, c // block**2, h * block, w * block)


def _check(x: Array, block: int, mode: str) -> tuple[int, ...]:
    need(len(x.shape) == 4, f"depth_to_space needs an input (N, C, H, W), got shape {tuple(x.shape)}")
    integer(block, "block")
    need(mode in ("DCR", "CRD"), f"mode must be 'DCR' or 'CRD', got {mode!r}")
    c = x.shape[1]
    need(c % block**2 == 0, f"block={block}: {block**2} does not divide {c} channels")
    return tuple(x.shape)


@depth_to_space.form
def _(x: Array, block: int, *, mode: Literal["DCR", "CRD"] = "DCR") -> Array:
    n, c, h, w = _check(x, block, mode)
    shape = (n, c // block**2, h * block, w * block)
    return record("DepthToSpace", [x], shape, x.dtype, blocksize=block, mode=mode)
