"""NumPy meanings of AffineGrid, of GridSample for volumes, and of LinearAttention, as operators of any size."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.layer.arguments import integers
from anylayer.layers.onnx._call import OpCall, meaning
from anylayer.network import Array
from anylayer.ops.grid_sample import on_axis, taps


@meaning("AffineGrid", recorded=True)
def _affine_grid(call: OpCall, theta: Array, size: Array) -> Array:
    """Return the points (x, y) or (x, y, z) at which GridSample samples for an affine transform per sample."""
    sizes = integers(size, "size")[2:]
    axes = len(sizes)
    shape = tuple(theta.shape)
    need(
        axes in (2, 3) and shape[1:] == (axes, axes + 1),
        f"theta must be of shape (N, 2, 3) for pictures and (N, 3, 4) for volumes, got {shape} for {axes} axes",
    )
    corners = bool(call["align_corners"])
    need(
        not corners or all(n != 1 for n in sizes),
        "with align_corners=1, programs differ in the point of an axis of size 1: PyTorch has 0, ONNX Runtime 1, "
        "and the reference implementation -1. Set align_corners=0, or more than one cell along each axis",
    )
    result = theta[:, :, axes].reshape(-1, *[1] * axes, axes)
    for i, n in enumerate(sizes):
        steps = np.arange(n).astype(theta.dtype)
        points = steps * (2 / (n - 1)) - 1 if corners else (steps * 2 + 1) / n - 1
        column = theta[:, :, axes - 1 - i].reshape(-1, *[1] * axes, axes)
        result = result + points.astype(theta.dtype).reshape(-1, *[1] * (axes - i)) * column
    return result


def sampled_volume(call: OpCall, x: Array, grid: Array, mode: str) -> Any:
    """Sample `x` (N, C, D, H, W) at the points `grid` (N, d, h, w, 3): the result is (N, C, d, h, w)."""
    n, c, *sizes = x.shape
    need(
        len(sizes) == 3 and len(grid.shape) == 5 and grid.shape[0] == n and grid.shape[4] == 3,
        f"takes a grid of shape (N, d, h, w, 3) for an input (N, C, D, H, W), got {tuple(grid.shape)} and "
        f"{tuple(x.shape)}",
    )
    need(mode in ("linear", "nearest"), f"mode of a volume must be linear or nearest, got {mode!r}")
    rules = mode, call["padding_mode"], bool(call["align_corners"])
    taps_of_axes = [list(taps(on_axis(grid[..., 2 - i], d, *rules), d, *rules)) for i, d in enumerate(sizes)]
    cells = x.transpose(0, 2, 3, 4, 1).reshape(-1, c)
    first = (np.arange(n) * math.prod(sizes)).reshape(-1, 1, 1, 1)
    total: Any = 0
    for (z, a), (y, b), (w, e) in product(*taps_of_axes):
        total = total + cells[first + (z * sizes[1] + y) * sizes[2] + w] * (a * b * e)[..., None]
    return total.astype(x.dtype).transpose(0, 4, 1, 2, 3)


@meaning("LinearAttention", recorded=True)
def _linear_attention(
    call: OpCall, query: Array, key: Array, value: Array, past: Any = None, decay: Any = None, beta: Any = None
) -> tuple[Array, Array]:
    """Update a state (N, heads, d_k, d_v) by each token, and multiply the token's query by it."""
    heads, queries, rule = call["kv_num_heads"], call["q_num_heads"], call["update_rule"]
    need(rule in ("linear", "gated", "delta", "gated_delta"), f"update_rule={rule!r} is not defined")
    need(min(heads, queries) > 0 == queries % heads, f"kv_num_heads={heads} must divide q_num_heads={queries}")
    for array, name, used in ((decay, "decay", "gated" in rule), (beta, "beta", "delta" in rule)):
        need((array is not None) == used, f"update_rule={rule!r} {'needs' if used else 'has no'} input {name}")

    n, length = query.shape[:2]
    tokens = all(
        x is None or (len(x.shape) == 3 and x.shape[1] == length) for x in (query, key, value, decay, beta)
    )
    need(tokens, f"query, key, value, decay and beta must be of shape (N, {length}, values)")

    def split(x: Any, parts: int) -> Any:
        return x.astype(np.float32).reshape(x.shape[0], x.shape[1], parts, -1)

    q, k, v = split(query, queries), split(key, heads), split(value, heads)
    if past is None:
        state = np.zeros((n, heads, k.shape[3], v.shape[3]), np.float32)
    else:
        state = past.astype(np.float32)
    factors = np.exp(split(decay, heads)) if decay is not None else None
    rates = split(beta, beta.shape[2]) if beta is not None else None
    scale = call["scale"] or 1 / math.sqrt(k.shape[3])
    outputs = []
    for t in range(length):
        added = v[:, t]
        if factors is not None:
            state = state * factors[:, t][..., None]
        if rates is not None:
            added = rates[:, t] * (added - (k[:, t][..., None] * state).sum(2))
        state = state + k[:, t][..., None] * added[:, :, None]
        read = np.repeat(state, queries // heads, axis=1)
        outputs.append((q[:, t][..., None] * read).sum(2) * np.float32(scale))
    result = np.stack(outputs, 1).reshape(n, length, -1).astype(query.dtype)
    return result, state.astype(query.dtype if past is None else past.dtype)
