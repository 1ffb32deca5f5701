"""Arguments of operators with spatial axes: one value an axis, pads by pairs, the sizes that come out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from anylayer.errors import need

Pairs = tuple[tuple[int, int], ...]
_MOST = 2**31


def whole(value: Any, what: str, least: int = 1) -> int:
    """`value` as an int of at least `least`; refuses anything that is not a whole number."""
    known = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    need(known and value >= least, f"{what} must be a whole number of {least} or more, got {value!r}")
    return int(value)


def per_axis(value: Any, axes: int, what: str, least: int = 1) -> tuple[int, ...]:
    """One int a spatial axis, from one for all of them or a sequence of `axes`."""
    if isinstance(value, (int, np.integer)):
        return (whole(value, what, least),) * axes
    values = list(value)
    need(len(values) == axes, f"{what} must be 1 or {axes} numbers, got {len(values)}: {values}")
    return tuple(whole(v, what, least) for v in values)


def need_room(shape: Sequence[Any], what: str) -> None:
    """Refuse an array of more values than engines can count; a size that depends on data is not counted."""
    count = math.prod(n for n in shape if isinstance(n, (int, np.integer)))
    need(count <= _MOST, f"{what} of shape {tuple(shape)} would have {count} values, more than {_MOST}")


def pad_pairs(pads: Any, axes: int) -> Pairs:
    """(begin, end) for each spatial axis, from one value, `axes` values, or all begins and then all ends."""
    if isinstance(pads, (int, np.integer)):
        one = whole(pads, "pads", 0)
        return ((one, one),) * axes
    values = [whole(v, "pads", 0) for v in pads]
    need(
        len(values) in (axes, 2 * axes),
        f"pads must be 1, {axes} or {2 * axes} numbers, got {len(values)}: {values}",
    )
    return tuple(zip(values[:axes], values[-axes:]))


def flat_pads(pairs: Pairs) -> list[int]:
    """Pairs as ONNX's `pads` attribute writes them: all begins, then all ends."""
    return [b for b, _ in pairs] + [e for _, e in pairs]


def spatial_rank(x: Any, what: str) -> int:
    """The number of axes of `x` behind (N, C): at least one."""
    need(len(x.shape) >= 3, f"{what} needs an input (N, C, ...) of rank 3 or more, got shape {tuple(x.shape)}")
    return len(x.shape) - 2


def extent(kernel: int, dilation: int) -> int:
    """Cells from a window's first to its last, both included."""
    return (kernel - 1) * dilation + 1


def window_counts(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pairs: Pairs,
    dilations: Sequence[int],
    ceil_mode: bool = False,
) -> tuple[int, ...]:
    """Windows along each axis. With `ceil_mode` a last window may hang over, but must start before the end
    padding does (ONNX MaxPool, note on ceil_mode)."""
    need_room([n + begin + end for n, (begin, end) in zip(sizes, pairs)], "a padded map")
    counts = []
    for axis, (n, k, s, (begin, end), d) in enumerate(zip(sizes, kernel, strides, pairs, dilations)):
        spare = n + begin + end - extent(k, d)
        dilated = f" dilated by {d}" if d > 1 else ""
        need(
            spare >= 0,
            f"a kernel of {k}{dilated} does not fit spatial axis {axis}: {n} cells and pads {begin} + {end}",
        )
        count = (-(-spare // s) if ceil_mode else spare // s) + 1
        if ceil_mode and (count - 1) * s >= n + begin:
            count -= 1
        counts.append(count)
    return tuple(counts)


def overhang(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pairs: Pairs,
    dilations: Sequence[int],
    counts: Sequence[int],
) -> Pairs:
    """`pairs` with each end grown until `counts` windows fit, so that no rounding mode is needed."""
    grown = []
    for n, k, s, (begin, end), d, count in zip(sizes, kernel, strides, pairs, dilations, counts):
        grown.append((begin, max(end, (count - 1) * s + extent(k, d) - n - begin)))
    return tuple(grown)


def padded(x: Any, pairs: Pairs, value: Any = 0) -> Any:
    """`x` (N, C, ...) with its spatial axes padded by a constant; `x` itself where there is nothing to pad."""
    if not any(b or e for b, e in pairs):
        return x
    shape = (*x.shape[:2], *(n + b + e for n, (b, e) in zip(x.shape[2:], pairs)))
    out = np.full(shape, value, x.dtype)
    out[box([b for b, _ in pairs], x.shape[2:])] = x
    return out


def box(starts: Sequence[int], sizes: Sequence[int]) -> tuple[Any, ...]:
    """The index of a box of the spatial axes."""
    return (..., *(slice(s, s + n) for s, n in zip(starts, sizes)))


def taps(
    kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], counts: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """For every cell of the kernel: its index, and the index into the padded array (..., spatial) that takes
    what this cell sees in all the windows."""
    for cell in product(*map(range, kernel)):
        yield (
            cell,
            (
                ...,
                *(
                    slice(c * d, c * d + (n - 1) * s + 1, s)
                    for c, d, n, s in zip(cell, dilations, counts, strides)
                ),
            ),
        )
