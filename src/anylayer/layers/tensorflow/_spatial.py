"""Windows over pictures: where channels lie, and how much SAME pads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anylayer.layer import need

Pairs = list[tuple[int, int]]


def channels_first(x: Any, data_format: str) -> Any:
    """`x` as (N, C, ...)."""
    if data_format.startswith("NC"):
        return x
    return x.transpose(0, len(x.shape) - 1, *range(1, len(x.shape) - 1))


def as_before(x: Any, data_format: str) -> Any:
    """(N, C, ...) back as `data_format` has it."""
    if data_format.startswith("NC"):
        return x
    return x.transpose(0, *range(2, len(x.shape)), 1)


def spatial(values: Sequence[int], data_format: str, rank: int, what: str) -> list[int]:
    """The values of the spatial axes, of one value an axis; those of batch and channels must be 1."""
    need(len(values) == rank, f"{what} must be {rank} numbers, one an axis, got {list(values)}")
    first = data_format.startswith("NC")
    outside = [values[0], values[1] if first else values[-1]]
    need(outside == [1, 1], f"{what} of batch and channels must be 1, got {list(values)}")
    inside = list(values[2:] if first else values[1:-1])
    need(all(v >= 1 for v in inside), f"{what} must be 1 or more, got {list(values)}")
    return inside


def extent(kernel: int, dilation: int) -> int:
    """Cells from a window's first to its last, both included."""
    return (kernel - 1) * dilation + 1


def windows(
    padding: str,
    sizes: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
    explicit: Sequence[int] = (),
    data_format: str = "NHWC",
) -> Pairs:
    """Cells padded before and after each spatial axis (core/framework/common_shape_fns.cc): for SAME so many that
    ceil(size / stride) windows fit, the odd one behind."""
    if padding == "EXPLICIT":
        return _explicit(explicit, len(sizes), data_format)
    need(not explicit or not any(explicit), f"explicit_paddings belong to padding EXPLICIT, got {padding}")
    if padding == "VALID":
        return [(0, 0)] * len(sizes)
    pairs = []
    for n, e, s in zip(sizes, extents, strides):
        total = max((-(-n // s) - 1) * s + e - n, 0)
        pairs.append((total // 2, total - total // 2))
    return pairs


def _explicit(explicit: Sequence[int], axes: int, data_format: str) -> Pairs:
    need(
        len(explicit) == 2 * (axes + 2),
        f"explicit_paddings must be {2 * (axes + 2)} numbers, two an axis, got {list(explicit)}",
    )
    pairs = list(zip(explicit[::2], explicit[1::2]))
    channel = 1 if data_format.startswith("NC") else axes + 1
    need(
        pairs[0] == pairs[channel] == (0, 0),
        f"explicit_paddings of batch and channels must be 0, got {list(explicit)}",
    )
    need(all(v >= 0 for v in explicit), f"explicit_paddings must not be negative, got {list(explicit)}")
    return [p for i, p in enumerate(pairs) if i not in (0, channel)]


def flat(pairs: Pairs) -> list[int]:
    """All befores, then all afters: as `anylayer.ops` take pads."""
    return [b for b, _ in pairs] + [a for _, a in pairs]
