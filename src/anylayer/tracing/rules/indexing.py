"""x[key]: NumPy's indexing, recorded as the cheapest of Slice, Gather and Reshape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.graph.place import refusal
from anylayer.graph.sizes import broadcast, is_one, is_static, size_of
from anylayer.network import Array
from anylayer.tracing import rules
from anylayer.tracing.array import UNKNOWN_SIZE, TracedArray, selected, view_of, wrapped
from anylayer.tracing.dispatch import dummies, implements, resolved
from anylayer.tracing.dtypes import I8
from anylayer.tracing.keys import Key, flat_index, is_sized, parse, traced_masks, with_windows
from anylayer.tracing.primitives import cast, gather, is_constant, reshape, slices, transpose
from anylayer.tracing.python_numbers import as_key
from anylayer.tracing.record import running_graph
from anylayer.tracing.size_arithmetic import hold


def getitem(x: TracedArray, key: Any) -> Any:
    """Return x[key]: a view for slices and integers, which may depend on data, a copy for index arrays."""
    key = as_key(selected(key))
    single = all(map(_is_single, key)) if type(key) is tuple else _is_single(key)
    if traced_masks(key):
        key = tracing.masks.with_positions(key)
        selection = tracing.masks.select_masked(x, key)
        if selection is not None:
            return selection
    windows = with_windows(key, x.shape)
    if windows is not None:
        return _window(x, windows)
    resolved_key = resolved(key)
    parsed = parse(resolved_key, x.shape)
    if parsed.basic or single:
        if parsed.basic:
            result = basic_view(x, resolved_key)
        else:
            result = _scalar_or_view(x, resolved_key, lambda p: select_elements(p, parse(resolved_key, p.shape)))
            result._memory_layout = lambda: np.asarray(x._dummy()[dummies(resolved_key)])
        if result._view is not None:
            result._view.key = key
        return result
    key = resolved_key
    content = x._resolved()
    if is_constant(content) and all(map(is_constant, parsed.arrays.values())):
        result = wrapped(x._graph, content[key])
    else:
        result = wrapped(x._graph, select_elements(content, parsed))
    result._memory_layout = lambda: np.asarray(x._dummy()[dummies(key)])  # rarely in C order
    return result


def basic_view(x: TracedArray, key: Any, content: Array | None = None) -> TracedArray:
    """Return the view for a key of slices, integers and None.

    `content` is the content of the view, if the caller has already computed it.
    """
    parsed = parse(key, x.shape)

    def replay(p: Array) -> Array:
        if not is_constant(p):
            return _basic(p, parsed)
        return _basic(hold(running_graph(), p), parsed) if is_sized(key) else p[key]

    return _scalar_or_view(x, key, replay, content)


def _is_single(item: Any) -> bool:
    """Return whether an item of a key is part of basic indexing: a slice, None, an Ellipsis, an integer."""
    if type(item) is TracedArray:
        return item._scalar and item.dtype.kind in "iu"
    integer = isinstance(item, (int, np.integer)) and item is not True and item is not False
    return item is None or item is Ellipsis or integer or isinstance(item, slice)


def _scalar_or_view(
    x: TracedArray, key: Any, replay: Callable[[Array], Array], content: Array | None = None
) -> TracedArray:
    """Return the scalar, or the view, that x[key] is in NumPy for a key of basic indexing."""
    result = view_of(x, replay, lambda p, new: rules.writing.content_after_write(p, key, new), content=content)
    ellipsis = any(p is Ellipsis for p in (key if type(key) is tuple else (key,)))
    result._scalar = result.ndim == 0 and not ellipsis
    if result._scalar:
        result._view = None
    return result


def _window(x: TracedArray, key: Any) -> TracedArray:
    """Return the view for a slice of fixed length at a place that depends on data, given by its positions."""
    return view_of(
        x,
        lambda p: select_elements(p, parse(resolved(key), p.shape)),
        lambda p, new: rules.writing.content_after_write(p, resolved(key), new),
    )


def _basic(x: Array, key: Key) -> Array:
    """Return the elements that a key without index arrays selects."""
    part = slices(x, key.bounds)
    shape = tuple(1 if a is None else part.shape[a] for a in key.axes)
    return reshape(part, shape)


def select_elements(x: Array, key: Key) -> Array:
    """Return the elements that a key with index arrays selects."""
    arrays = {a: np.asarray(p) if is_constant(p) else p for a, p in key.arrays.items()}
    index_shape = broadcast(*[p.shape for p in arrays.values()])
    singles = {a: int(p.reshape(-1)[0]) for a, p in arrays.items() if is_constant(p) and p.size == 1}
    arrays = {a: p for a, p in arrays.items() if a not in singles}
    ranges = {} if is_constant(x) or (len(arrays) > 1 and not _separable(arrays)) else _as_slices(arrays)
    x = slices(x, [*key.bounds, *[(a, i, 1, 1) for a, i in singles.items()], *ranges.values()])
    arrays.update({a: np.arange(n).reshape(arrays[a].shape) for a, (_, _, n, _) in ranges.items()})
    axes_left = [a for a in key.axes if a is not None]
    dropped = [a for a in range(x.ndim) if a not in axes_left and a not in arrays]
    if len(arrays) > 1 and not _separable(arrays):
        part, origins = _gather_jointly(x, arrays, index_shape, dropped)
    else:
        part, origins = _gather_separately(x, arrays, len(index_shape), dropped)
    return _in_numpy_order(part, origins, key, index_shape)


_Origins = list[tuple[str, int]]
"""The origin of each axis of an array: ("axis", i) of the indexed array, ("dropped", i) for an axis to remove, or
("array", i) for axis i of the index arrays."""


def _separable(arrays: dict[int, Array]) -> bool:
    """Return whether the index arrays are constants that vary along different axes of the result."""
    if not all(map(is_constant, arrays.values())):
        return False
    seen: set[int] = set()
    for p in arrays.values():
        moving = {i - p.ndim for i, d in enumerate(p.shape) if d != 1}
        if moving & seen:
            return False
        seen |= moving
    return True


def _gather_separately(
    x: Array, arrays: dict[int, Array], rank: int, dropped: list[int]
) -> tuple[Array, _Origins]:
    """Apply one Gather or Slice per index array, the innermost axis first, which leaves less data for the others.
    Return the result and the origin of each of its axes.
    """
    source_rank = x.ndim
    origins: _Origins = []
    widths: dict[int, list[int]] = {}
    for axis in sorted(arrays, reverse=True):
        p = arrays[axis]
        moving = [i - p.ndim for i, d in enumerate(p.shape) if not is_one(d) or len(arrays) == 1]
        flat = p if len(moving) == p.ndim else p.reshape([p.shape[i] for i in moving])
        x = _gather_axis(x, flat, axis)
        widths[axis] = [i + rank for i in moving]
    for axis in range(source_rank):
        if axis in widths:
            origins.extend(("array", i) for i in widths[axis])
        else:
            origins.append(("dropped" if axis in dropped else "axis", axis))
    return x, origins


def _gather_axis(x: Array, p: Array, axis: int) -> Array:
    """Return np.take along one axis, or `x` itself if the indices select the whole axis in order."""
    if is_constant(p) and p.ndim == 1 and p.size == x.shape[axis] and (p == np.arange(p.size)).all():
        return x
    return gather(x, p, axis)


def _as_slices(arrays: dict[int, Array]) -> dict[int, tuple[int, int, int, int]]:
    """Return the index arrays that are arithmetic progressions as slices (axis, start, n, step)."""
    joined = {}
    for axis, p in arrays.items():
        if is_constant(p) and p.size > 1 and max(p.shape) == p.size:
            flat = p.reshape(-1)
            step = int(flat[1] - flat[0])
            if step and (np.diff(flat) == step).all():
                joined[axis] = (axis, int(flat[0]), p.size, step)
    return joined


def _gather_jointly(
    x: Array, arrays: dict[int, Array], index_shape: Sequence[Any], dropped: list[int]
) -> tuple[Array, _Origins]:
    """Merge the indexed axes into one, and apply one Gather with flat positions. Return the result and the origin
    of each of its axes.
    """
    axes = sorted(arrays)
    sizes = [x.shape[a] for a in axes]
    if not is_static(sizes):
        raise refusal(f"indexing {x!r} with several arrays cannot be recorded, because {UNKNOWN_SIZE}")
    flat: Any = flat_index([arrays[a] for a in axes], sizes)
    rest = [a for a in range(x.ndim) if a not in axes]
    lead = [a for a in rest if a < axes[0]]
    tail = [a for a in rest if a > axes[0]]
    x = transpose(x, [*lead, *axes, *tail])
    x = reshape(x, (*[x.shape[i] for i in range(len(lead))], size_of(sizes), *x.shape[len(lead) + len(axes) :]))
    x = gather(x, flat, len(lead))
    origins: _Origins = [("dropped" if a in dropped else "axis", a) for a in lead]
    origins.extend(("array", i) for i in range(len(index_shape)))
    origins.extend(("dropped" if a in dropped else "axis", a) for a in tail)
    return x, origins


def _in_numpy_order(x: Array, origins: _Origins, key: Key, index_shape: Sequence[Any]) -> Array:
    """Permute the axes into NumPy's order, insert the new axes and drop those that integers remove."""
    order: _Origins = []
    arrays: _Origins = [o for o in origins if o[0] == "array"]
    before = [a for a in key.axes[: key.place] if a is not None]
    after = [a for a in key.axes[key.place :] if a is not None]
    order.extend(("axis", a) for a in before)
    order.extend(sorted(arrays))
    order.extend(("axis", a) for a in after)
    order.extend(o for o in origins if o[0] == "dropped")
    x = transpose(x, [origins.index(o) for o in order])
    sizes = dict(zip(order, x.shape))
    shape: list[Any] = [1 if a is None else sizes["axis", a] for a in key.axes]
    shape[key.place : key.place] = list(index_shape)
    return reshape(x, shape)


@implements(np.unravel_index)
def unravel_index(indices: Array, shape: Sequence[int] | int, order: str = "C") -> tuple[Array, ...]:
    """Return the index along each axis of positions in a flat array. The positions must be inside of it."""
    sizes = [*shape] if isinstance(shape, Sequence) else [shape]
    rest = cast(indices, I8)
    places: list[Array] = []
    for n in sizes[:0:-1] if order == "C" else sizes[:-1]:
        places.append(rest % n)
        rest = rest // n
    places.append(rest)
    return tuple(places[::-1] if order == "C" else places)
