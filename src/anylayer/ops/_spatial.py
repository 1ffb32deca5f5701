"""Arguments of operators with spatial axes: one value per axis, pads as pairs, sizes of the results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, cast

import numpy as np

from anylayer.errors import need
from anylayer.graph.symbolic import as_index, extreme, is_symbolic, plain
from anylayer.network import MAX_VALUES, Array
from anylayer.tracing import primitives

Ints = int | Sequence[int]
"""One integer for all spatial axes, or one per spatial axis."""
Pairs = tuple[tuple[int, int], ...]


def integer(value: Any, what: str, least: int = 1) -> int:
    """Return `value` as an int. Raises LayerError unless it is an integer of at least `least`."""
    valid = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    need(valid, f"{what} must be an integer of at least {least}, got {value!r}")
    return cast(int, as_index(value))


def per_axis(value: Ints, axes: int, what: str, least: int = 1) -> tuple[int, ...]:
    """Return one int per spatial axis, from one integer for all of them or a sequence of `axes` integers.

    Raises LayerError for a wrong number of values, and for a value below `least`.
    """
    if isinstance(value, (int, np.integer)):
        return (integer(value, what, least),) * axes
    values = list(value)
    need(len(values) == axes, f"{what} must be 1 or {axes} numbers, got {len(values)}: {values}")
    return tuple(integer(v, what, least) for v in values)


def need_room(shape: Sequence[Any], what: str) -> None:
    """Raise LayerError for a shape of more than 2^31 elements, which engines cannot count.

    Dynamic sizes are left out of the count. `what` names the array in the message.
    """
    count = math.prod(n for n in plain(shape) if isinstance(n, (int, np.integer)))
    need(count <= MAX_VALUES, f"{what} of shape {tuple(shape)} would have {count} values, more than {MAX_VALUES}")


def pad_pairs(pads: Ints, axes: int) -> Pairs:
    """Return (begin, end) per spatial axis, from one integer, `axes` integers, or all begins and then all ends."""
    if isinstance(pads, (int, np.integer)):
        one = integer(pads, "pads", 0)
        return ((one, one),) * axes
    values = [integer(v, "pads", 0) for v in pads]
    need(
        len(values) in (axes, 2 * axes),
        f"pads must be 1, {axes} or {2 * axes} numbers, got {len(values)}: {values}",
    )
    return tuple(zip(values[:axes], values[-axes:]))


def flat_pads(pads: Pairs) -> list[int]:
    """Return the pads as ONNX's `pads` attribute: all begins, then all ends."""
    return [b for b, _ in pads] + [e for _, e in pads]


def spatial_rank(x: Array, what: str) -> int:
    """Return the number of axes of `x` after (N, C). Raises LayerError if there is none."""
    need(len(x.shape) >= 3, f"{what} needs an input (N, C, ...) of rank 3 or more, got shape {tuple(x.shape)}")
    return len(x.shape) - 2


def shape_of(x: Array | None) -> tuple[int, ...] | None:
    """Return the shape of an optional input for a message."""
    return None if x is None else tuple(x.shape)


def extent(kernel: int, dilation: int) -> int:
    """Return the number of cells from the first to the last cell of a window, both included."""
    return (kernel - 1) * dilation + 1


def window_counts(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Pairs,
    dilations: Sequence[int],
    ceil_mode: bool = False,
) -> tuple[int, ...]:
    """Return the number of windows along each spatial axis. Raises LayerError where the kernel does not fit.

    With `ceil_mode`, the last window may extend past the end, but must start before the end padding does
    (ONNX MaxPool, note on ceil_mode).
    """
    need_room([n + begin + end for n, (begin, end) in zip(sizes, pads)], "a padded map")
    counts = []
    for axis, (n, k, s, (begin, end), d) in enumerate(zip(sizes, kernel, strides, pads, dilations)):
        spare = n + begin + end - extent(k, d)
        dilated = f" dilated by {d}" if d > 1 else ""
        need(
            spare > -s if ceil_mode else spare >= 0,
            f"a kernel of {k}{dilated} does not fit spatial axis {axis}: {n} cells and pads {begin} + {end}",
        )
        count = (-(-spare // s) if ceil_mode else spare // s) + 1
        if ceil_mode:
            count = extreme("min", count, (n + begin - 1) // s + 1)
        counts.append(count)
    return tuple(counts)


def grow_pads(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Pairs,
    dilations: Sequence[int],
    counts: Sequence[int],
) -> Pairs:
    """Return `pads` with each end enlarged until `counts` windows fit, so that no rounding mode is needed.

    Where only the size is symbolic, the end is the largest that needs no further window. This is a number, and a
    number needs no operator before the pooling.
    """
    grown = []
    for n, k, s, (begin, end), d, count in zip(sizes, kernel, strides, pads, dilations, counts):
        enough = (count - 1) * s + extent(k, d) - n - begin
        if is_symbolic(enough) and not any(map(is_symbolic, (k, s, begin, end))):
            enough = min(end + s - 1, extent(k, d) - 1)
        grown.append((begin, extreme("max", end, enough)))
    return tuple(grown)


def padded(x: Array, pads: Pairs, value: float = 0) -> Array:
    """Return `x` (N, C, ...) with its spatial axes padded by a constant, or `x` itself if all pads are 0."""
    if not any(b or e for b, e in pads):
        return x
    shape = (*x.shape[:2], *(n + b + e for n, (b, e) in zip(x.shape[2:], pads)))
    out = np.full(shape, value, x.dtype)
    out[box([b for b, _ in pads], x.shape[2:])] = x
    return out


def with_static_pads(x: Array, pads: Pairs) -> tuple[Array, Pairs]:
    """Return a traced array and pads that are numbers: symbolic pads are recorded as a Pad with zeros."""
    if not any(map(is_symbolic, (p for pair in pads for p in pair))):
        return x, pads
    before, after = [0, 0, *(b for b, _ in pads)], [0, 0, *(e for _, e in pads)]
    return primitives.pad(x, before, after), ((0, 0),) * len(pads)


def box(starts: Sequence[int], sizes: Sequence[int]) -> tuple[Any, ...]:
    """Return the key of a box of the spatial axes, given its first cell and its size per axis."""
    return (..., *(slice(s, s + n) for s, n in zip(starts, sizes)))


def taps(
    kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], counts: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Yield every cell of the kernel, with the key of the input cells that it is multiplied by in all windows.

    The key indexes the padded array (..., spatial) and selects an array of shape (..., *counts).
    """
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
