"""Keys of x[key], parsed as NumPy parses them, and the flat positions that index arrays select."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer import graph, tracing
from anylayer.graph.ir import Value
from anylayer.graph.operators import LINEAR
from anylayer.graph.place import refusal
from anylayer.graph.sizes import Dim, size_of
from anylayer.graph.symbolic import as_index, depends_on_data, extreme, is_symbolic, is_zero, same, symbolic_shape
from anylayer.network import Array
from anylayer.tracing.array import TracedArray
from anylayer.tracing.dtypes import BOOL, I8
from anylayer.tracing.primitives import as_array, cast, is_constant
from anylayer.tracing.size_arithmetic import size_list

OUTSIDE = np.int64(2**31 - 1)
"""A position outside every array: an array has at most 2^31 elements."""


def traced_masks(key: Any) -> list[TracedArray]:
    """Return the masks in a key that depend on data."""
    items = key if type(key) is tuple else (key,)
    return [k for k in items if type(k) is TracedArray and k.dtype == BOOL and not is_constant(k._resolved())]


@dataclass(slots=True)
class Key:
    """A parsed key.

    `bounds` lists slices (axis, start, n, step); an integer is a slice with n = 1. `arrays` maps an axis to the
    index array (NumPy or traced) for it. `axes` lists the axes of the result without those of the index arrays: an
    int is an axis of the indexed array, None a new axis. The axes of the index arrays are inserted into this list
    at `place`.
    """

    bounds: list[tuple[int, int, int, int]] = field(default_factory=list)
    arrays: dict[int, Array] = field(default_factory=dict)
    axes: list[int | None] = field(default_factory=list)
    place: int = 0

    @property
    def basic(self) -> bool:
        """Whether there are no index arrays."""
        return not self.arrays


def _pieces(key: Any, rank: int) -> list[Any]:
    """Return the key as a list, with lists and masks as arrays and one slice for each axis that it leaves out.

    The slices that the Ellipsis stands for follow it. It stays in the list even if it stands for no axis, because
    it separates index arrays.
    """
    items = list(key) if type(key) is tuple else [key]
    pieces: list[Any] = []
    used = 0
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, slice):
            pieces.append(item)
            used += isinstance(item, slice)
        elif type(item) is TracedArray:
            pieces.append(item)
            used += item.ndim if item.dtype == BOOL else 1
        elif isinstance(item, (bool, np.bool_)):
            pieces.append(np.asarray(item))
        elif isinstance(item, (int, np.integer)) or (hasattr(item, "__index__") and not hasattr(item, "shape")):
            pieces.append(as_index(item))
            used += 1
        else:
            array = _index_array(item)
            used += array.ndim if _is_mask(array) else 1
            pieces.append(array)
    if sum(p is Ellipsis for p in pieces) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > rank:
        raise IndexError(f"too many indices for array: array is {rank}-dimensional, but {used} were indexed")
    if not any(p is Ellipsis for p in pieces):
        pieces.append(Ellipsis)
    at = next(i for i, p in enumerate(pieces) if p is Ellipsis)
    return [*pieces[: at + 1], *[slice(None)] * (rank - used), *pieces[at + 1 :]]


def _index_array(item: Any) -> Any:
    """Return an index that is an array or a sequence as an integer array, a mask or an int."""
    if type(item) in (list, tuple) and any(type(v) is TracedArray for v in item):
        return np.stack([v if type(v) is TracedArray else np.asarray(v) for v in item])
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.intp)
    if array.dtype == BOOL:
        return array
    if array.dtype.kind not in "iu":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
            "are valid indices"
        )
    return int(array) if array.ndim == 0 else array.astype(np.int64)


def parse(key: Any, shape: Sequence[Any]) -> Key:
    """Parse a key for an array of this shape. Raises IndexError where NumPy does."""
    pieces = _pieces(key, len(shape))
    advanced = any(type(p) is TracedArray or isinstance(p, np.ndarray) for p in pieces)
    result = Key()
    places: list[int] = []
    axis = 0
    for i, p in enumerate(pieces):
        if p is Ellipsis:
            continue
        if p is None:
            result.axes.append(None)
            continue
        if _is_mask(p):
            _add_mask(result, p, shape, axis)
            places.append(i)
            axis += p.ndim
            continue
        size = shape[axis]
        if isinstance(p, slice):
            _add_slice(result, p, size, axis)
        elif isinstance(p, int):
            p = _checked_index(p, size, axis)
            result.bounds.append((axis, p, 1, 1))
            if advanced:
                places.append(i)
        else:
            result.arrays[axis] = _checked_array(p, size, axis)
            places.append(i)
        axis += 1
    if advanced:
        adjacent = places[-1] - places[0] + 1 == len(places)
        before = pieces[: places[0]] if adjacent else []
        result.place = sum(p is None or isinstance(p, slice) for p in before)
    return result


def is_sized(key: Any) -> bool:
    """Return whether an index or a bound of a slice in a key is symbolic, or such a bound depends on data."""
    items = key if type(key) is tuple else (key,)
    bounds = [b for p in items if type(p) is slice for b in (p.start, p.stop)]
    return any(map(is_symbolic, items)) or any(is_symbolic(b) or type(b) is TracedArray for b in bounds)


def with_windows(key: Any, shape: Sequence[Any]) -> Any:
    """Return a key with positions in place of its slice x[a * k + b : a * k + c] with a number k that depends on
    data, or None if there is none. The length c - b is fixed if the slice is certainly inside of the axis.
    """
    items = list(key) if type(key) is tuple else [key]
    if any(p is None or p is Ellipsis for p in items):
        return None
    slices = [i for i, p in enumerate(items) if type(p) is slice and not is_full(p)]
    moving = [i for i in slices if type(items[i].start) is type(items[i].stop) is TracedArray]
    others = [i for i, p in enumerate(items) if type(p) is not slice]
    if len(moving) != 1 or others != [*range(len(others))] or (others and moving[0] != len(others)):
        return None  # NumPy puts the axes of separated positions first
    p, size = items[moving[0]], shape[moving[0]]
    (base, factor, low), (other, other_factor, high) = _linear(p.start), _linear(p.stop)
    if base is not other or factor != other_factor or p.step not in (None, 1) or high <= low or is_symbolic(size):
        return None
    intervals = graph.intervals.Intervals(p.start._graph.producers)
    if intervals.of(p.start._value)[0] < 0 or intervals.of(p.stop._value)[1] > size:
        return None
    items[moving[0]] = cast(p.start._resolved(), I8) + np.arange(high - low)
    return tuple(items)


def _linear(k: TracedArray) -> tuple[Value, int, int]:
    """Return (value, a, b) of an integer that is computed as a * value + b."""
    producers, value, factor, offset = k._graph.producers, k._value, 1, 0
    while value in producers and producers[value] in LINEAR:
        o = producers[value]
        source = next(v for v in o.inputs if v is not None and (v.const is None or o.op not in ("Add", "Mul")))
        if source.dtype.kind not in "iu" or value.dtype.itemsize < 4:
            break
        if o.op in ("Add", "Mul"):
            const = next((v.const for v in o.inputs if v is not None and v is not source), None)
            if const is None or const.size != 1:
                break
            number = int(const.reshape(()))
            offset += factor * number if o.op == "Add" else 0
            factor *= number if o.op == "Mul" else 1
        value = source
    return value, factor, offset


def is_full(p: slice) -> bool:
    """Return whether a slice is `:`."""
    return p.start is None and p.stop is None and p.step is None


def _is_mask(p: object) -> bool:
    return isinstance(p, np.ndarray) and not isinstance(p, TracedArray) and p.dtype == BOOL


def _add_slice(key: Key, p: slice, size: Any, axis: int) -> None:
    """Add a slice of an axis to `key`. A slice that selects the whole axis adds no bounds."""
    key.axes.append(axis)
    if not is_full(p):
        start, n, step = _slice_bounds(p, size)
        if not (is_zero(start) and step == 1 and same(n, size)):
            key.bounds.append((axis, start, n, step))


def _slice_bounds(p: slice, size: Any) -> tuple[Any, Any, int]:
    """Return (start, count, step) of the cells that a slice selects of an axis. Sizes may be symbolic."""
    places = [b for b in (p.start, p.stop) if type(b) is TracedArray and size_list(b) is None]
    if places and isinstance(p.step, int) and p.step < 0:
        raise refusal("a slice backwards to a place that depends on data cannot be recorded; write x[a:b][::-1]")
    if type(p.start) is TracedArray or type(p.stop) is TracedArray:
        p = slice(tracing.counts.as_bound(p.start, size), tracing.counts.as_bound(p.stop, size), p.step)
    if not any(map(is_symbolic, (size, p.start, p.stop, p.step))):
        start, stop, step = p.indices(size)
        return start, len(range(start, stop, step)), step
    step = 1 if p.step is None else int(p.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        first = size - 1 if p.start is None else _within(p.start, size, -1, size - 1)
        last = -1 if p.stop is None else _within(p.stop, size, -1, size - 1)
        return first, extreme("max", -((last - first) // -step), 0), step
    counted = depends_on_data(size) or depends_on_data(p.start)
    inside = not counted and p.start is not None and 0 <= p.start <= size
    first = 0 if p.start is None else p.start if inside else _within(p.start, size, 0, size)
    last = _within(p.stop, size, 0, size) if p.stop is not None else size
    return first, extreme("max", -((first - last) // step), 0), step


def _within(bound: Any, size: Any, low: Any, high: Any) -> Any:
    """Return a bound of a slice counted from the front, and at least `low` and at most `high`."""
    return extreme("min", extreme("max", bound + size if bound < 0 else bound, low), high)


def _add_mask(key: Key, mask: Array, shape: Sequence[Any], axis: int) -> None:
    """Add a constant mask to `key` as the index arrays of its true elements."""
    if mask.ndim == 0:
        raise refusal("a single True or False as an index cannot be recorded; use None or a slice")
    for i, (d, n) in enumerate(zip(mask.shape, shape[axis:])):
        if d != n:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + i}; size of axis is {n} but size "
                f"of corresponding boolean axis is {d}"
            )
    for i, index in enumerate(mask.nonzero()):
        key.arrays[axis + i] = index


def _checked_index(index: int, size: Any, axis: int) -> int:
    if isinstance(size, Dim):
        if index >= 0:
            return index
        raise refusal(
            f"index {index} counts from the end of axis {axis}, whose size {size} is known only when the network "
            "runs; pad it with anylayer.ops.pad_to_maximum first"
        )
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    return index + size if index < 0 else index


def _checked_array(p: Array, size: Any, axis: int) -> Array:
    if type(p) is TracedArray:
        if p.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        if not isinstance(size, Dim):
            tracing.decisions.may_raise(
                lambda: _is_outside(p, size),
                IndexError(f"index is out of bounds for axis {axis} with size {size}"),
            )
        p._graph.note("indices that depend on data are not checked when this runs; np.clip them to be safe")
        return cast(p, I8)
    if isinstance(size, Dim):
        raise refusal(
            f"indexing axis {axis}, whose size {size} is known only when the network runs, cannot be recorded; "
            "pad it with anylayer.ops.pad_to_maximum first"
        )
    low, high = (int(p.min()), int(p.max())) if p.size else (0, -1)
    if not depends_on_data(size) and (low < -size or high >= size):
        bad = p[(p < -size) | (p >= size)].flat[0]
        raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {size}")
    return np.where(p < 0, p + (as_array(size, I8) if is_symbolic(size) else size), p) if low < 0 else p


def _is_outside(p: TracedArray, size: Any) -> Any:
    """Return whether an index is out of range of an axis, which may be known."""
    low, high = graph.intervals.Intervals(p._graph.producers).of(p._value)
    if not is_symbolic(size) and -size <= low and high < size:
        return False
    return ((p < -size) | (p >= size)).any()


def flat_index(indices: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return np.ravel_multi_index of the indices, which may be traced and negative.

    A traced index outside its axis gives a position outside every array, which the engines refuse.
    """
    if len(indices) == 1:
        return indices[0]
    if all(map(is_constant, indices)) and not symbolic_shape(sizes):
        return np.ravel_multi_index(tuple(np.broadcast_arrays(*indices)), tuple(sizes)).astype(np.int64)
    total: Any = None
    outside: Any = None
    stride = size_of(sizes)
    for p, size in zip(indices, sizes):
        stride //= size
        if type(p) is TracedArray:
            low, high = graph.intervals.Intervals(p._graph.producers).of(p._value)
            is_open = is_symbolic(size)  # the interval is that of the traced sizes
            if is_open or low < -size or high >= size:
                away = (p < -size) | (p >= size)
                outside = away if outside is None else outside | away
            p = p if low >= 0 and not is_open else p % size
        term = p if same(stride, 1) else p * as_array(stride, I8)
        total = term if total is None else total + term
    return total if outside is None else np.where(outside, OUTSIDE, total)
