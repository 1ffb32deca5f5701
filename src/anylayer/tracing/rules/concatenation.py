"""Functions that concatenate, repeat or pad arrays: concatenate, stack, repeat, tile, roll, pad."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from anylayer import tracing
from anylayer.graph.facts import number
from anylayer.graph.intervals import Intervals
from anylayer.graph.place import refusal
from anylayer.graph.sizes import numpy_axis
from anylayer.graph.symbolic import (
    as_index,
    depends_on_data,
    extreme,
    holds_symbolic,
    is_empty,
    is_symbolic,
    same,
    symbolic_shape,
)
from anylayer.network import Array, DType
from anylayer.tracing import primitives
from anylayer.tracing.array import TracedArray, selected
from anylayer.tracing.dispatch import implements, traced_in
from anylayer.tracing.dtypes import common_dtype, python_type, weak
from anylayer.tracing.primitives import (
    AxisArg,
    arange,
    as_array,
    cast,
    concat,
    expand,
    ints,
    is_constant,
    sized,
    slices,
)
from anylayer.tracing.python_numbers import as_arrays
from anylayer.tracing.record import record, running_graph, value_of
from anylayer.tracing.size_arithmetic import size_list


def array_like(x: Any) -> Array:
    """Return what np.asarray(x) would, with traced arrays in lists stacked."""
    x = as_arrays(x)
    if type(x) is TracedArray:
        return x
    if type(x) in (list, tuple) and any(type(array_like(v)) is TracedArray for v in x):
        return stack([array_like(v) for v in x])
    if is_symbolic(x):
        return as_array(x, python_type(x))
    if type(x) in (list, tuple) and any(map(is_symbolic, x)):
        return sized(x, np.result_type(*[np.asarray(v) for v in x]))
    return np.asarray(x)


@implements(np.concatenate)
def concatenate(
    arrays: Sequence[ArrayLike],
    /,
    axis: AxisArg = 0,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Array:
    parts = [array_like(a) for a in arrays]
    if axis is None:
        parts, axis = [p.reshape(-1) for p in parts], 0
    if any(p.ndim == 0 for p in parts):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    dtype = np.dtype(dtype) if dtype is not None else common_dtype(*parts)
    return concat([cast(p, dtype) for p in parts], numpy_axis(axis, parts[0].ndim))


@implements(np.stack)
def stack(
    arrays: Sequence[ArrayLike], axis: int = 0, *, dtype: DTypeLike | None = None, casting: str = "same_kind"
) -> Array:
    parts = [array_like(a) for a in arrays]
    if not parts or any(p.shape != parts[0].shape for p in parts[1:]):
        raise ValueError("all input arrays must have the same shape")
    axis = numpy_axis(axis, parts[0].ndim + 1)
    return concatenate([np.expand_dims(p, axis) for p in parts], axis, dtype=dtype)


@implements(np.vstack)
def vstack(tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Array:
    return concatenate([np.atleast_2d(array_like(a)) for a in tup], 0, dtype=dtype)


@implements(np.hstack)
def hstack(tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Array:
    parts = [np.atleast_1d(array_like(a)) for a in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


@implements(np.dstack)
def dstack(tup: Sequence[ArrayLike]) -> Array:
    return concatenate([np.atleast_3d(array_like(a)) for a in tup], 2)


@implements(np.column_stack)
def column_stack(tup: Sequence[ArrayLike]) -> Array:
    parts = [array_like(a) for a in tup]
    return concatenate([p if p.ndim >= 2 else np.atleast_1d(p).reshape(-1, 1) for p in parts], 1)


@implements(np.block)
def block(arrays: Any) -> Array:
    depth = _depth(arrays)
    leaves = list(_leaves(arrays))
    rank = max(depth, *[x.ndim for x in leaves])
    dtype = common_dtype(*leaves)

    def concatenated(items: Any, level: int) -> Array:
        if not isinstance(items, list):
            x = cast(array_like(items), dtype)
            return x.reshape([1] * (rank - x.ndim) + list(x.shape))
        return concat([concatenated(i, level + 1) for i in items], rank - depth + level)

    return concatenated(arrays, 0)


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def _leaves(arrays: Any) -> Iterator[Array]:
    if isinstance(arrays, list):
        for item in arrays:
            yield from _leaves(item)
    else:
        yield array_like(arrays)


@implements(np.append)
def append(arr: ArrayLike, values: Any, axis: AxisArg = None) -> Array:
    return concatenate([array_like(arr), array_like(values)], axis)


@implements(np.insert)
def insert(arr: Array, obj: Any, values: Any, axis: AxisArg = None) -> Array:
    arr = arr.reshape(-1) if axis is None else arr
    place = numpy_axis(0 if axis is None else axis, arr.ndim)
    n = arr.shape[place]
    at = obj
    if type(obj) is not TracedArray and not isinstance(obj, (int, np.integer)):
        return _insert_several(arr, np.asarray(obj), array_like(values), place)
    if type(obj) is TracedArray:
        if obj.ndim:
            raise refusal("np.insert at several places that depend on data cannot be recorded; use np.concatenate")
        running_graph().note("np.insert does not check a place that depends on data; np.clip it to be safe")
    elif not depends_on_data(n):
        at = int(obj) + (n if obj < 0 else 0)
        if not 0 <= at <= n:
            raise IndexError(f"index {obj} is out of bounds for axis {place} with size {n}")
    v = cast(array_like(values), arr.dtype)
    v = np.moveaxis(v.reshape([1] * (arr.ndim - v.ndim) + list(v.shape)), 0, place)  # as NumPy for one place
    v = expand(v, (*arr.shape[:place], v.shape[place], *arr.shape[place + 1 :]))
    lead = (slice(None),) * place
    return concat([arr[(*lead, slice(None, at))], v, arr[(*lead, slice(at, None))]], place)


def _insert_several(arr: Array, places: Array, values: Array, axis: int) -> Array:
    """Insert values before constant places: take them from the array and the values in the order of np.insert."""
    n = arr.shape[axis]
    if is_symbolic(n):
        raise refusal("np.insert at several places of an open size cannot be recorded; use np.concatenate")
    count = int(np.count_nonzero(places)) if places.dtype == bool else places.size
    order = np.insert(np.arange(n), places, n + np.arange(count))
    new = expand(cast(values, arr.dtype), (*arr.shape[:axis], count, *arr.shape[axis + 1 :]))
    return np.take(concat([arr, new], axis), order, axis)


@implements(np.delete)
def delete(arr: Array, obj: Any, axis: AxisArg = None) -> Array:
    arr = arr.reshape(-1) if axis is None else arr
    place = numpy_axis(0 if axis is None else axis, arr.ndim)
    n = arr.shape[place]
    if type(obj) is not TracedArray and not is_symbolic(n):
        return np.take(arr, np.delete(np.arange(n), obj), place)
    if type(obj) is int and obj == 0 and (rest := _without_first(arr, place)) is not None:
        return rest
    if isinstance(obj, slice):
        obj = arange(n)[obj]
    gone = array_like(obj)
    rest = _without_masked(arr, gone, place)
    if rest is not None:
        return rest
    running_graph().note("np.delete does not check positions that depend on data; np.clip them to be safe")
    if gone.dtype == bool:
        return np.compress(~gone, arr, place)
    inside = Intervals(running_graph().producers).of(value_of(gone))[0] >= 0
    at = gone if inside else np.where(gone < 0, gone + as_array(n, np.int64), gone)
    if not gone.ndim and is_symbolic(n):
        return tracing.counts.without_position(arr, at, place)
    if not gone.ndim:
        left = arange(extreme("max", n - 1, 0))
        return primitives.gather(arr, left + (left >= at), place)
    return np.compress(~(np.expand_dims(arange(n), -1) == at.reshape(-1)).any(-1), arr, place)


def _without_masked(x: Array, gone: object, axis: int) -> Array | None:
    """Return an array without its elements at the positions of a mask's true elements. The mask may leave out the
    first or the last element if that is deleted, too, as in np.concatenate(([last], np.where(mask)[0])). Return
    None if the positions are others.
    """
    if type(gone) is not TracedArray:
        return None
    graph = gone._graph
    joined = graph.producers.get(gone._value)
    places = [gone._value] if joined is None or joined.op != "Concat" else joined.inputs
    n, low, high, shift = x.shape[axis], 0, 0, 0
    masks: list[TracedArray] = []
    parts: list[Array] = []
    for part in places:
        if part is None:
            return None
        identity = graph.producers.get(part)
        part = identity.first if identity is not None and identity.op == "Identity" else part
        if part.const is not None:
            for e in size_list(TracedArray(graph, part)) or part.const.reshape(-1).tolist():
                if same(e, n - 1) or same(e, -1):
                    high = 1
                elif same(e, 0):
                    low = 1
                else:
                    return None
            continue
        o = graph.producers.get(part)
        if o is not None and o.op == "Add" and o.inputs[1] is not None and number(o.inputs[1]) == 1:
            part, shift = o.first, 1
        mask = tracing.counts.mask_of_positions([TracedArray(graph, part)])
        if mask is None or mask.ndim != 1 or masks:
            return None
        masks.append(mask)
    rest = _cut(x, axis, low, n - high)
    if (low or high) and is_symbolic(n):
        running_graph().note("np.delete does not check whether there is a first or last element; ask for the size")
    if not masks:
        return rest
    if shift > low:  # np.where(mask)[0] + 1 for a mask of x[1:]
        parts, rest = [_cut(rest, axis, 0, 1)], _cut(rest, axis, 1, None)
        low = shift
    if shift != low or not same(masks[0].shape[0], rest.shape[axis]):
        return None
    return np.concatenate([*parts, np.compress(~masks[0], rest, axis)], axis)


def _cut(x: Array, axis: int, start: int, end: int | None) -> Array:
    return x[(slice(None),) * axis + (slice(start, end),)]


def _without_first(x: Array, axis: int) -> Array | None:
    """Return a concatenation of an element and a selection from the others, as _without_masked returns it, without
    its first element. Return None for another array.
    """
    graph = running_graph()
    joined = graph.producers.get(value_of(x))
    if joined is None or joined.op != "Concat" or len(joined.inputs) != 2 or joined["axis"] != axis:
        return None
    first, rest = joined.inputs
    chosen = None if rest is None else graph.producers.get(rest)
    cut = None if chosen is None or chosen.op not in ("Compress", "Gather") else graph.producers.get(chosen.first)
    if rest is None or chosen is None or cut is None or cut.op != "Slice":
        return None
    parts = [value_of(_cut(TracedArray(graph, cut.first), axis, *ends)) for ends in ((0, 1), (1, None))]
    return TracedArray(graph, rest) if parts == [first, chosen.first] else None


# ------------------------------------------------------------------ repeating


@implements(np.repeat)
def repeat(a: Array, repeats: Any, axis: AxisArg = None) -> Array:
    sizes = size_list(repeats)
    if type(repeats) is TracedArray and sizes is None:
        raise refusal(
            "np.repeat with traced repeats has a size that is known only when the network runs; for a fixed one "
            "write x[np.searchsorted(np.cumsum(repeats), np.arange(n), 'right')]"
        )
    a = a.reshape(-1) if axis is None else a
    place = numpy_axis(0 if axis is None else axis, a.ndim)
    sizes = list(repeats) if holds_symbolic(repeats) and isinstance(repeats, (list, tuple)) else sizes
    if sizes is not None and len(sizes) > 1:
        if a.shape[place] != len(sizes):
            raise ValueError(f"operands could not be broadcast together: {len(sizes)} repeats, shape {a.shape}")
        parts = np.split(a, len(sizes), place)
        return concat([repeat(part, n, place) for part, n in zip(parts, sizes)], place)
    count = repeats if sizes is None else sizes[0]
    if isinstance(count, int) and (is_symbolic(a.shape[place]) or is_symbolic(count)):
        return primitives.gather(a, arange(a.shape[place] * count) // count, place)
    return np.take(a, np.repeat(np.arange(a.shape[place]), repeats), place)


class Joined:
    """np.r_ or np.c_ (`original`), which also joins traced arrays: np.c_[boxes, scores]."""

    def __init__(self, original: Any, rank: int) -> None:
        self._original, self._rank = original, rank

    def __getitem__(self, key: Any) -> Any:
        items = selected(key if type(key) is tuple else (key,))
        if next(traced_in(list(items)), None) is None:
            return self._original[key]
        if any(isinstance(item, str) for item in items):
            raise refusal("np.r_ and np.c_ with a text as the first item cannot be recorded; use np.concatenate")
        parts = [self._original[item] if isinstance(item, slice) else item for item in items]
        dtype = np.result_type(*(p if weak(p) else array_like(p).dtype for p in parts))
        return np.concatenate([self._part(p, dtype) for p in parts], axis=-1)

    def _part(self, x: Any, dtype: DType) -> Any:
        """Return an item as an array of at least the rank; an array of rank 1 is a column where the rank is 2."""
        part = array_like([x] if np.ndim(x) == 0 else x).astype(dtype)
        return part[:, None] if part.ndim == 1 and self._rank == 2 else part


_MAX_COPIES = 16
"""The largest number of copies for which Concat is faster than Tile."""


@implements(np.tile)
def tile(A: Array, reps: Any) -> Array:
    reps = size_list(reps) or reps
    counts = tuple(map(as_index, reps if np.iterable(reps) else [reps]))
    rank = max(A.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    x = A.reshape([1] * (rank - A.ndim) + list(A.shape))
    few = not any(map(is_symbolic, counts)) and math.prod(counts) <= _MAX_COPIES
    if few and 0 not in counts:
        for axis, n in enumerate(counts):
            x = concat([x] * n, axis)
        return x
    shape = [d * n for d, n in zip(x.shape, counts)]
    if is_empty(shape):
        return np.zeros(shape, x.dtype)
    if is_constant(x):
        copies = expand(x.reshape([d for size in x.shape for d in (1, size)]), [*chain(*zip(counts, x.shape))])
        return primitives.reshape(copies, shape)
    return record("Tile", [x, ints(counts)], shape, x.dtype)


@implements(np.resize)
def resize(a: Array, new_shape: Any) -> Array:
    shape = (new_shape,) if isinstance(new_shape, (int, np.integer)) else tuple(new_shape)
    flat = a.reshape(-1)
    if symbolic_shape(shape) or is_symbolic(flat.size):
        return primitives.gather(flat, arange(math.prod(shape)) % flat.size, 0).reshape(shape)
    return np.take(flat, np.resize(np.arange(flat.size), math.prod(shape)), 0).reshape(shape)


@implements(np.roll)
def roll(a: Array, shift: Any, axis: AxisArg = None) -> Array:
    if axis is None:
        total = shift if is_symbolic(shift) else int(np.sum(shift))
        return roll(a.reshape(-1), total, 0).reshape(a.shape)
    shifts = [shift] if is_symbolic(shift) else np.asarray(shift).reshape(-1).tolist()
    axes = np.asarray(axis).reshape(-1).tolist()
    count = max(len(shifts), len(axes))
    for s, i in zip(shifts * (count // len(shifts)), axes * (count // len(axes))):
        place = numpy_axis(int(i), a.ndim)
        n = a.shape[place]
        if depends_on_data(n):
            raise refusal("np.roll along an axis of selected elements cannot be recorded; use np.concatenate")
        cut = n - s % n if n else 0
        if not same(cut, n):
            a = concat([slices(a, [(place, cut, n - cut, 1)]), slices(a, [(place, 0, cut, 1)])], place)
    return a


# -------------------------------------------------------------------- padding

_INDEX_MODES = ("edge", "reflect", "symmetric", "wrap")


@implements(np.pad)
def pad(array: Array, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    widths = _pad_widths(pad_width, array.ndim)
    if mode == "empty":
        mode = "constant"
    if mode == "constant":
        values = kwargs.pop("constant_values", 0)
        _reject_keywords(mode, kwargs)
        return _pad_constant(array, widths, values)
    if mode not in _INDEX_MODES:
        raise refusal(f"np.pad(..., mode={mode!r}) cannot be recorded; use constant, {', '.join(_INDEX_MODES)}")
    if kwargs.pop("reflect_type", "even") != "even":
        raise refusal("np.pad(..., reflect_type='odd') cannot be recorded; use reflect_type='even'")
    _reject_keywords(mode, kwargs)
    if mode == "edge" or (mode == "reflect" and all(b < d and a < d for (b, a), d in zip(widths, array.shape))):
        return primitives.pad(array, [b for b, _ in widths], [a for _, a in widths], mode=mode)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            places = _padded_places(array.shape[axis], before, after, mode)
            fixed = type(places) is not TracedArray
            array = np.take(array, places, axis) if fixed else primitives.gather(array, places, axis)
    return array


def _padded_places(size: int, before: int, after: int, mode: Any) -> Array:
    """Return the index of the element that np.pad copies to each place along an axis of this size."""
    if not any(map(is_symbolic, (size, before, after))):
        fixed: Array = np.pad(np.arange(size), (before, after), mode)
        return fixed
    places = arange(size + before + after) - before
    if mode == "wrap":
        return places % size
    period = extreme("max", 2 * size - 2, 1) if mode == "reflect" else 2 * size
    forward = places % period
    backward = period - forward - int(mode == "symmetric")
    nearer: Array = np.minimum(forward, backward)
    return nearer


def _reject_keywords(mode: str, kwargs: Any) -> None:
    """Raise ValueError for a keyword that np.pad does not accept in this mode."""
    for name in kwargs:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {{'{name}'}}")


def _pad_widths(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    """Return (before, after) per axis from the pad_width of np.pad."""
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * rank
        for axis, width in pad_width.items():
            pairs[axis] = (width, width) if isinstance(width, int) else tuple(width)
        pad_width = pairs
    pad_width = _with_sizes(pad_width)
    if is_symbolic(pad_width) or any(map(is_symbolic, _flat(pad_width))):
        return _symbolic_widths(pad_width, rank)
    widths = np.broadcast_to(np.asarray(pad_width), (rank, 2))
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if (widths < 0).any():
        raise ValueError("index can't contain negative values")
    return [(int(b), int(a)) for b, a in widths]


def _with_sizes(x: Any) -> Any:
    """Return nested lists with sizes in place of the integers that depend on data."""
    if type(x) in (list, tuple):
        return [_with_sizes(v) for v in x]
    size = None if type(x) is int else tracing.counts.as_size(x)
    return x if size is None else size


def _flat(x: Any) -> list[Any]:
    """Return the numbers in nested lists."""
    return [v for item in x for v in _flat(item)] if type(x) in (list, tuple) else [x]


def _symbolic_widths(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    """Return (before, after) per axis from a pad_width in which sizes are symbolic."""
    numbers = _flat(pad_width)
    if len(numbers) not in (1, 2, 2 * rank):
        raise ValueError(f"pad_width must be 1 number, 2 numbers, or 2 per axis, got {len(numbers)}")
    if any(n < 0 for n in numbers):
        raise ValueError("index can't contain negative values")
    pairs = numbers * (2 * rank // len(numbers))
    return list(zip(pairs[::2], pairs[1::2]))


def _pad_constant(x: Array, widths: list[tuple[int, int]], values: Any) -> Array:
    """Pad with constants, which may differ per axis and side."""
    if type(values) is TracedArray:
        raise refusal("np.pad with a traced constant_values cannot be recorded; use np.concatenate")
    pairs = np.broadcast_to(np.asarray(values), (x.ndim, 2))
    if (pairs == pairs.flat[0]).all():
        value = np.asarray(pairs.flat[0]).astype(x.dtype) if x.ndim else 0
        return primitives.pad(x, [b for b, _ in widths], [a for _, a in widths], value)
    for axis, ends in enumerate(widths):
        for side, n in enumerate(ends):
            only = [[n if i == axis and s == side else 0 for i in range(x.ndim)] for s in (0, 1)]
            x = primitives.pad(x, only[0], only[1], pairs[axis, side].astype(x.dtype))
    return x
