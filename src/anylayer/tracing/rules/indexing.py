"""x[key]: NumPy's indexing, recorded as the cheapest of Slice, Gather and Reshape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.graph.intervals import Intervals
from anylayer.graph.place import refusal
from anylayer.graph.sizes import Dim, broadcast, is_one, is_static, size_of
from anylayer.network import Array
from anylayer.tracing.array import TracedArray, view_of, wrapped
from anylayer.tracing.dispatch import dummies, resolved
from anylayer.tracing.dtypes import BOOL, I8
from anylayer.tracing.primitives import cast, gather, is_constant, reshape, slices, transpose

_OUTSIDE = np.int64(2**31 - 1)
"""A position outside every array: an array has at most 2^31 elements."""


@dataclass(slots=True)
class Key:
    """A parsed key.

    `bounds` lists slices (axis, start, n, step); an integer is a slice with n = 1. `arrays` maps an axis to the
    index array (NumPy or traced) for it. `axes` lists the axes of the result without those of the index arrays: an
    int is an axis of the indexed array, None a new axis. The axes of the index arrays are inserted into this list
    at `place`.
    """

    bounds: list[tuple[int, int, int, int]] = field(default_factory=list)
    arrays: dict[int, Any] = field(default_factory=dict)
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
            pieces.append(item.__index__())
            used += 1
        else:
            found = _index_array(item)
            used += found.ndim if _is_mask(found) else 1
            pieces.append(found)
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
    advanced = any(_is_array(p) for p in pieces)
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
            _put_mask(result, p, shape, axis)
            places.append(i)
            axis += p.ndim
            continue
        size = shape[axis]
        if isinstance(p, slice):
            if not is_full(p):
                start, stop, step = p.indices(size)
                n = len(range(start, stop, step))
                if (start, n, step) != (0, size, 1):
                    result.bounds.append((axis, start, n, step))
            result.axes.append(axis)
        elif type(p) is int:
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


def is_full(p: slice) -> bool:
    """Return whether a slice is `:`."""
    return p.start is None and p.stop is None and p.step is None


def _is_array(p: Array) -> bool:
    return type(p) is TracedArray or isinstance(p, np.ndarray)


def _is_mask(p: Array) -> bool:
    return isinstance(p, np.ndarray) and not isinstance(p, TracedArray) and p.dtype == BOOL


def _put_mask(key: Key, mask: Array, shape: Sequence[Any], axis: int) -> None:
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
            "runs"
        )
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    return index % size if size else index


def _checked_array(p: Array, size: Any, axis: int) -> Array:
    if type(p) is TracedArray:
        if p.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        p._graph.note("indices that depend on data are not checked when this runs; np.clip them to be safe")
        return cast(p, I8)
    if isinstance(size, Dim):
        raise refusal(f"indexing axis {axis}, whose size {size} is known only when the network runs")
    if p.size and (p.min() < -size or p.max() >= size):
        bad = p[(p < -size) | (p >= size)].flat[0]
        raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {size}")
    return np.where(p < 0, p + size, p)


# ------------------------------------------------------------------ reading


def getitem(x: TracedArray, key: Any) -> Any:
    """Return x[key]: a view for slices and integers, a copy for index arrays."""
    from anylayer.tracing.masks import select_masked

    selection = select_masked(x, key)
    if selection is not None:
        return selection
    known_key = resolved(key)
    parsed = parse(known_key, x.shape)
    if parsed.basic:
        result = basic_view(x, known_key)
        if result._view is not None:
            result._view.key = key
        return result
    key = known_key
    content = x._resolved()
    if is_constant(content) and all(map(is_constant, parsed.arrays.values())):
        result = wrapped(x._graph, content[key])
    else:
        result = wrapped(x._graph, take(content, parsed))
    result._memory_layout = lambda: np.asarray(x._dummy()[dummies(key)])  # rarely in C order
    return result


def basic_view(x: TracedArray, key: Any, content: Array | None = None) -> TracedArray:
    """Return the view for a key of slices, integers and None.

    `content` is the content of the view, if the caller has already computed it.
    """
    from anylayer.tracing.rules.writing import content_after_write

    parsed = parse(key, x.shape)

    def replay(p: Array) -> Array:
        return p[key] if is_constant(p) else _basic(p, parsed)

    result = view_of(x, replay, lambda p, new: content_after_write(p, key, new), content=content)
    ellipsis = any(p is Ellipsis for p in (key if type(key) is tuple else (key,)))
    result._scalar = result.ndim == 0 and not ellipsis
    if result._scalar:
        result._view = None
    return result


def _basic(x: Array, key: Key) -> Array:
    """Return the elements that a key without index arrays selects."""
    part = slices(x, key.bounds)
    shape = tuple(1 if a is None else part.shape[a] for a in key.axes)
    return reshape(part, shape)


def take(x: Array, key: Key) -> Array:
    """Return the elements that a key with index arrays selects."""
    arrays = {a: np.asarray(p) if is_constant(p) else p for a, p in key.arrays.items()}
    index_shape = broadcast(*[p.shape for p in arrays.values()])
    singles = {a: int(p.reshape(-1)[0]) for a, p in arrays.items() if is_constant(p) and p.size == 1}
    arrays = {a: p for a, p in arrays.items() if a not in singles}
    ranges = {} if is_constant(x) or (len(arrays) > 1 and not _separable(arrays)) else _as_slices(arrays)
    x = slices(x, [*key.bounds, *[(a, i, 1, 1) for a, i in singles.items()], *ranges.values()])
    arrays.update({a: np.arange(n).reshape(arrays[a].shape) for a, (_, _, n, _) in ranges.items()})
    kept = [a for a in key.axes if a is not None]
    dropped = [a for a in range(x.ndim) if a not in kept and a not in arrays]
    if len(arrays) > 1 and not _separable(arrays):
        part, order = _gather_jointly(x, arrays, index_shape, dropped)
    else:
        part, order = _gather_separately(x, arrays, len(index_shape), dropped)
    return _in_numpy_order(part, order, key, index_shape)


_Origins = list[tuple[str, int]]
"""What each axis of an array is: ("axis", i) of the indexed array, ("dropped", i) for an axis to remove, or
("array", i) for axis i of the index arrays."""


def _separable(arrays: dict[int, Any]) -> bool:
    """Return whether the index arrays are constants that vary along different axes of the result."""
    if not all(map(is_constant, arrays.values())):
        return False
    seen: set[int] = set()
    for p in arrays.values():
        own = {i - p.ndim for i, d in enumerate(p.shape) if d != 1}
        if own & seen:
            return False
        seen |= own
    return True


def _gather_separately(x: Array, arrays: dict[int, Any], rank: int, dropped: list[int]) -> tuple[Any, _Origins]:
    """Apply one Gather or Slice per index array, the innermost axis first, which leaves less data for the others.

    Return the result and what each of its axes is.
    """
    source_rank = x.ndim
    order: _Origins = []
    widths: dict[int, list[int]] = {}
    for axis in sorted(arrays, reverse=True):
        p = arrays[axis]
        own = [i - p.ndim for i, d in enumerate(p.shape) if not is_one(d) or len(arrays) == 1]
        flat = p if len(own) == p.ndim else p.reshape([p.shape[i] for i in own])
        x = _gather_axis(x, flat, axis)
        widths[axis] = [i + rank for i in own]
    for axis in range(source_rank):
        if axis in widths:
            order.extend(("array", i) for i in widths[axis])
        else:
            order.append(("dropped" if axis in dropped else "axis", axis))
    return x, order


def _gather_axis(x: Array, p: Array, axis: int) -> Array:
    """Return np.take along one axis, or `x` itself if the indices select the whole axis in order."""
    if is_constant(p) and p.ndim == 1 and p.size == x.shape[axis] and (p == np.arange(p.size)).all():
        return x
    return gather(x, p, axis)


def _as_slices(arrays: dict[int, Any]) -> dict[int, tuple[int, int, int, int]]:
    """Return the index arrays that are arithmetic progressions as slices (axis, start, n, step)."""
    found = {}
    for axis, p in arrays.items():
        if is_constant(p) and p.size > 1 and max(p.shape) == p.size:
            flat = p.reshape(-1)
            step = int(flat[1] - flat[0])
            if step and (np.diff(flat) == step).all():
                found[axis] = (axis, int(flat[0]), p.size, step)
    return found


def _gather_jointly(
    x: Array, arrays: dict[int, Any], index_shape: Sequence[Any], dropped: list[int]
) -> tuple[Any, _Origins]:
    """Merge the indexed axes into one, and apply one Gather with flat positions.

    Return the result and what each of its axes is.
    """
    axes = sorted(arrays)
    sizes = [x.shape[a] for a in axes]
    if not is_static(sizes):
        raise refusal(f"indexing {x!r} with several arrays: a size is known only when the network runs")
    flat: Any = flat_index([arrays[a] for a in axes], sizes)
    rest = [a for a in range(x.ndim) if a not in axes]
    lead = [a for a in rest if a < axes[0]]
    tail = [a for a in rest if a > axes[0]]
    x = transpose(x, [*lead, *axes, *tail])
    x = reshape(x, (*[x.shape[i] for i in range(len(lead))], size_of(sizes), *x.shape[len(lead) + len(axes) :]))
    x = gather(x, flat, len(lead))
    order: _Origins = [("dropped" if a in dropped else "axis", a) for a in lead]
    order.extend(("array", i) for i in range(len(index_shape)))
    order.extend(("dropped" if a in dropped else "axis", a) for a in tail)
    return x, order


def flat_index(indices: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Return np.ravel_multi_index of the indices, which may be traced and negative.

    A traced index outside its axis gives a position outside every array, which the engines refuse.
    """
    if len(indices) == 1:
        return indices[0]
    if all(map(is_constant, indices)):
        return np.ravel_multi_index(tuple(np.broadcast_arrays(*indices)), tuple(sizes)).astype(np.int64)
    total: Any = None
    outside: Any = None
    stride = size_of(sizes)
    for p, size in zip(indices, sizes):
        stride //= size
        if not is_constant(p):
            low, high = Intervals(p._graph.producers).of(p._value)
            if low < -size or high >= size:
                away = (p < -size) | (p >= size)
                outside = away if outside is None else outside | away
            p = p if low >= 0 else p % np.int64(size)
        term = p if stride == 1 else p * np.int64(stride)
        total = term if total is None else total + term
    return total if outside is None else np.where(outside, _OUTSIDE, total)


def _in_numpy_order(x: Array, order: _Origins, key: Key, index_shape: Sequence[Any]) -> Array:
    """Permute the axes into NumPy's order, insert the new axes and drop those that integers remove."""
    wanted: _Origins = []
    arrays: _Origins = [o for o in order if o[0] == "array"]
    before = [a for a in key.axes[: key.place] if a is not None]
    after = [a for a in key.axes[key.place :] if a is not None]
    wanted.extend(("axis", a) for a in before)
    wanted.extend(sorted(arrays))
    wanted.extend(("axis", a) for a in after)
    wanted.extend(o for o in order if o[0] == "dropped")
    x = transpose(x, [order.index(o) for o in wanted])
    sizes = dict(zip(wanted, x.shape))
    shape: list[Any] = [1 if a is None else sizes["axis", a] for a in key.axes]
    shape[key.place : key.place] = list(index_shape)
    return reshape(x, shape)
