"""Windows over spatial axes: strides and dilations from attributes, and the padding of each axis."""

from __future__ import annotations

from collections.abc import Sequence

from anylayer.layer import need
from anylayer.layer.arguments import Pairs, channels_first, extent, flat_pads, restored, same_pads

__all__ = ["channels_first", "extent", "flat_pads", "restored", "spatial", "windows"]


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
