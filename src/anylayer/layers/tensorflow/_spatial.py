"""Windows over spatial axes: strides and dilations from attributes, and the padding of each axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.layer import Array, need
from anylayer.layer.arguments import Pairs, extent, same_pads

_MAX_CELLS = 1 << 12
"""Cells of a window whose pixels are taken one by one."""


def spatial(values: Sequence[int], data_format: str, rank: int, what: str) -> list[int]:
    """Return the entries of the spatial axes from an attribute with one value per axis.

    Raise LayerError when the entry of batch or channels is not 1.
    """
    need(len(values) == rank, f"{what} must be {rank} numbers, one per axis, got {list(values)}")
    first = data_format.startswith("NC")
    outside = [values[0], values[1] if first else values[-1]]
    need(outside == [1, 1], f"{what} of batch and channels must be 1, got {list(values)}")
    inside = list(values[2:] if first else values[1:-1])
    need(all(v >= 1 for v in inside), f"{what} must be 1 or more, got {list(values)}")
    return inside


def windows(
    padding: str,
    sizes: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
    explicit: Sequence[int] = (),
    data_format: str = "NHWC",
) -> Pairs:
    """Return the pads of each spatial axis for padding SAME, VALID or EXPLICIT.

    `extents` are the extents of the dilated kernel. SAME pads as many cells as let ceil(size / stride) windows
    fit, and an odd cell goes after the axis. EXPLICIT takes pairs for all axes, of which those of batch and
    channels must be 0.
    Source: tensorflow/core/framework/common_shape_fns.cc.
    """
    if padding == "EXPLICIT":
        return _explicit(explicit, len(sizes), data_format)
    need(not explicit or not any(explicit), f"explicit_paddings need padding EXPLICIT, got {padding}")
    if padding == "VALID":
        return ((0, 0),) * len(sizes)
    return same_pads(sizes, extents, strides)


def _explicit(explicit: Sequence[int], axes: int, data_format: str) -> Pairs:
    need(
        len(explicit) == 2 * (axes + 2),
        f"explicit_paddings must be {2 * (axes + 2)} numbers, two per axis, got {list(explicit)}",
    )
    pairs = list(zip(explicit[::2], explicit[1::2]))
    channel = 1 if data_format.startswith("NC") else axes + 1
    need(
        pairs[0] == pairs[channel] == (0, 0),
        f"explicit_paddings of batch and channels must be 0, got {list(explicit)}",
    )
    need(all(v >= 0 for v in explicit), f"explicit_paddings must not be negative, got {list(explicit)}")
    return tuple(p for i, p in enumerate(pairs) if i not in (0, channel))


def patches(
    x: Array, kernel: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str, fill: float = 0
) -> list[Array]:
    """Return for each cell of a window the pixel of images (N, H, W, C) at that cell, in all windows.

    `kernel`, `strides` and `rates`, the dilations, have a number for height and one for width. Padded cells hold
    `fill`.
    """
    need(
        kernel[0] * kernel[1] <= _MAX_CELLS,
        f"a window of {kernel[0]} x {kernel[1]} pixels exceeds the limit of {_MAX_CELLS}",
    )
    reach = [extent(k, r) for k, r in zip(kernel, rates)]
    wide = np.pad(x, [(0, 0), *windows(padding, x.shape[1:3], reach, strides), (0, 0)], constant_values=fill)
    counts = [(n - e) // s + 1 for n, e, s in zip(wide.shape[1:3], reach, strides)]
    need(min(counts) > 0, f"a window with an extent of {reach} pixels does not fit the input {tuple(x.shape)}")
    return [
        wide[
            :,
            *(slice(c * r, c * r + (n - 1) * s + 1, s) for c, r, n, s in zip((i, j), rates, counts, strides)),
        ]
        for i in range(kernel[0])
        for j in range(kernel[1])
    ]
