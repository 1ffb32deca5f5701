"""x[key] = v: the content of an array after a part of it is overwritten, recorded in the cheapest form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.graph.place import refusal
from anylayer.graph.sizes import Dim, broadcast, is_static, size_of
from anylayer.graph.symbolic import depends_on_data, is_empty, is_symbolic, same, symbolic_shape
from anylayer.network import Array
from anylayer.tracing.array import (
    UNKNOWN_SIZE,
    TracedArray,
    require_static,
    selected,
)
from anylayer.tracing.dispatch import converted, resolved, traced_in
from anylayer.tracing.dtypes import as_operand, loop_dtypes
from anylayer.tracing.keys import Key, flat_index, is_sized, parse, with_windows
from anylayer.tracing.masks import positions_in, with_masks, with_positions, write_masked
from anylayer.tracing.primitives import (
    arange,
    as_array,
    concat,
    expand,
    gather,
    is_constant,
    pad,
    reshape,
    scatter,
    select,
    slices,
)
from anylayer.tracing.python_numbers import as_key
from anylayer.tracing.record import record, running_graph
from anylayer.tracing.size_arithmetic import hold


def setitem(x: TracedArray, key: Any, value: Any) -> None:
    """Record x[key] = value, which also changes the array of which `x` is a view."""
    if x._scalar:
        raise TypeError(f"'numpy.{x.dtype.name}' object does not support item assignment")
    key = with_masks(with_positions(as_key(key)), x)
    if write_masked(x, key, value) or _is_own_view(x, key, value):
        return
    key, value = positions_in(key), selected(value)
    windows = with_windows(key, x.shape)
    key = key if windows is None else windows
    x._assign(content_after_write(x._resolved(), resolved(key), converted(value, x.dtype)))


def _is_own_view(x: TracedArray, key: Any, value: Any) -> bool:
    """Return whether `value` is the view x[key] itself, as in the second half of `x[key] += v`."""
    view = value._view if type(value) is TracedArray else None
    return view is not None and view.parent is x and view.key is key and view.seen == x._base()._version


def content_after_write(x: Array, key: Any, v: Array) -> Array:
    """Return the content of `x` after `x[key] = v`, for a key without masks that depend on data."""
    if is_constant(x) and is_sized(key):
        x = hold(running_graph(), x)
    if is_constant(x) and is_constant(v) and next(traced_in(key), None) is None:
        x = x.copy()
        x[key] = v
        return x
    parsed = parse(key, x.shape)
    if parsed.basic:
        return _write_box(x, parsed, v)
    if all(map(is_constant, parsed.arrays.values())):
        return _write_elements(x, key, parsed, v)
    return _write_at_data(x, parsed, v)


def _broadcast_value(v: Array, shape: Sequence[Any]) -> Array:
    """Return `v` broadcast to the shape of the overwritten part.

    Superfluous leading axes of size 1 are dropped.
    """
    while v.ndim > len(shape) and v.shape[0] == 1:
        v = reshape(v, v.shape[1:])
    shape = tuple(shape)
    if v.ndim > len(shape) or broadcast(v.shape, shape) != shape:
        raise ValueError(f"could not broadcast input array from shape {v.shape} into shape {shape}")
    return expand(v, shape)


def _write_box(x: Array, key: Key, v: Array) -> Array:
    """Overwrite the part that slices select."""
    if not is_static(x.shape):
        return _write_dynamic(x, key, v)
    sizes = {axis: n for axis, _, n, _ in key.bounds}
    box = tuple(sizes.get(a, d) for a, d in enumerate(x.shape))
    v = _broadcast_value(v, [1 if a is None else box[a] for a in key.axes])
    if is_empty([*sizes.values()]):
        return x
    v = reshape(v, box)
    bounds = []
    for axis, start, n, step in key.bounds:
        if step < 0:
            v = slices(v, [(axis, n - 1, n, -1)])
            start, step = start + step * (n - 1), -step
        if not same(n, x.shape[axis]):
            bounds.append((axis, start, n, step if step != 1 and n > 1 else 1))
    if not bounds:
        return v
    uniform = uniform_value(x)
    if uniform is None and any(is_symbolic(b) for bound in bounds for b in (*bound, x.shape[bound[0]])):
        return _write_symbolic(x, bounds, v)
    if any(step != 1 for *_, step in bounds):
        return _write_strided(x, bounds, v) if not symbolic_shape(x.shape) else _write_symbolic(x, bounds, v)
    return _write_block(x, bounds, v)


def _write_dynamic(x: Array, key: Key, v: Array) -> Array:
    """Overwrite a part of an array with a dynamic size. The part includes the whole dynamic axis."""
    if any(step != 1 for *_, step in key.bounds):
        raise refusal(f"writing into {x!r} with a step cannot be recorded, because {UNKNOWN_SIZE}")
    sizes = {axis: n for axis, _, n, _ in key.bounds}
    shape = [1 if a is None else sizes.get(a, x.shape[a]) for a in key.axes]
    v = reshape(v, (*[1] * (len(shape) - v.ndim), *v.shape))
    if broadcast(v.shape, shape) != tuple(shape):
        raise ValueError(f"could not broadcast input array from shape {v.shape} into shape {tuple(shape)}")
    v = expand(v, [d if isinstance(n, Dim) else n for d, n in zip(v.shape, shape)])
    value_sizes = dict(zip(key.axes, v.shape))
    v = reshape(v, [value_sizes.get(axis, 1) for axis in range(x.ndim)])
    if not key.bounds:
        return record("Expand", [v, record("Shape", [x], (x.ndim,), np.int64)], x.shape, x.dtype)
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis, start, n, _ in key.bounds:
        before[axis], after[axis] = start, x.shape[axis] - start - n
    mask = np.zeros([1 if isinstance(d, Dim) else d for d in x.shape], bool)
    mask[tuple(slice(b, d - a) for b, a, d in zip(before, after, mask.shape))] = True
    return select(mask, pad(v, before, after, x.dtype.type(0)), x)


def _write_block(x: Array, bounds: Sequence[tuple[int, int, int, int]], v: Array) -> Array:
    """Overwrite a contiguous block: Pad if `x` is uniform, Concat along a single axis, else Where."""
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis, start, n, _ in bounds:
        before[axis], after[axis] = start, x.shape[axis] - start - n
    uniform = uniform_value(x)
    if uniform is not None:
        return pad(v, before, after, uniform)
    if len(bounds) == 1:
        axis, start, n, _ = bounds[0]
        parts = [slices(x, [(axis, 0, start, 1)]), v, slices(x, [(axis, start + n, after[axis], 1)])]
        return concat([p for p in parts if p.shape[axis]], axis)
    mask = np.pad(
        np.ones([1 if not b and not a else n for b, a, n in zip(before, after, v.shape)], bool),
        list(zip(before, after)),
    )
    return select(mask, pad(v, before, after, x.dtype.type(0)), x)


def _write_symbolic(x: Array, bounds: Sequence[tuple[int, int, int, int]], v: Array) -> Array:
    """Overwrite the part that slices of symbolic size select: gather the new values, and select them by Where."""
    mask: Any = True
    for axis, start, n, step in bounds:
        place = arange(x.shape[axis]) - as_array(start, np.int64)
        inside = (place >= 0) & (place < as_array(n * step, np.int64))
        if step != 1:
            inside = inside & (place % step == 0)
        if depends_on_data(n):  # Gather needs an element to read, where none is written
            v, n = pad(v, [0] * v.ndim, [int(i == axis) for i in range(v.ndim)]), n + 1
        v = gather(v, np.clip(place // step, 0, as_array(n - 1, np.int64)), axis)
        mask = mask & inside.reshape((-1, *(1,) * (x.ndim - axis - 1)))
    return select(mask, v, x)


def uniform_value(x: Array) -> Array | None:
    """Return the value that all elements of an array certainly have, or None."""
    if type(x) is TracedArray:
        producer = x._graph.producers.get(x._value)
        filled = producer.inputs[0] if producer is not None and producer.op == "Expand" else None
        const = filled.const if filled is not None else None
        return const.reshape(-1)[0] if const is not None and const.size == 1 else None
    if not is_constant(x) or not x.size:
        return None
    first = x.flat[0]
    return first if (x == first).all() else None


def _write_strided(x: Array, bounds: Sequence[tuple[int, int, int, int]], v: Array) -> Array:
    """Overwrite the part that slices with steps select."""
    key = [slice(None)] * x.ndim
    for axis, start, n, step in bounds:
        key[axis] = slice(start, start + step * n, step)
    if len(bounds) == 1:
        axis, start, n, step = bounds[0]
        if size_of(x.shape[axis + 1 :]) >= _ROW_SIZE:
            return _write_rows(x, start + step * np.arange(n), v, axis)
    return _scatter_flat(x, _all_positions(x)[tuple(key)], v)


_ROW_SIZE = 4
"""The smallest number of contiguous elements for which gathering whole rows is faster than scattering elements."""


def _write_rows(x: Array, rows: Array, v: Array, axis: int) -> Array:
    """Overwrite some rows of an axis: concatenate old and new rows, and gather the right ones."""
    order = np.arange(x.shape[axis])
    order[rows] = x.shape[axis] + np.arange(rows.size)
    return gather(concat([x, v], axis), order, axis)


def _all_positions(x: Array) -> Array:
    """Return the flat position of each element of `x`, in its shape."""
    require_static(x, "writing into a part")
    positions: Array = np.arange(size_of(x.shape), dtype=np.int64).reshape(x.shape)
    return positions


def _scatter_flat(x: Array, positions: Array, v: Array) -> Array:
    """Overwrite elements at flat positions. If positions repeat, the last value stays, as in NumPy."""
    flat = positions.reshape(-1)
    v = reshape(v, (flat.size,))
    last = flat.size - 1 - np.unique(flat[::-1], return_index=True)[1]
    if last.size < flat.size:
        last.sort()
        flat, v = flat[last], gather(v, last, 0)
    if not flat.size:
        return x
    return reshape(scatter(reshape(x, (size_of(x.shape),)), flat, v, 0), x.shape)


def _write_elements(x: Array, key: Any, parsed: Key, v: Array) -> Array:
    """Overwrite the elements that constant index arrays select."""
    if symbolic_shape(x.shape):
        _require_different(parsed)
        return _write_at_data(x, parsed, v)
    positions = _all_positions(x)[key]
    v = _broadcast_value(v, positions.shape)
    if len(parsed.arrays) == 1 and not parsed.bounds and None not in parsed.axes:
        ((axis, rows),) = parsed.arrays.items()
        if rows.ndim == 1 and rows.size and size_of(x.shape[axis + 1 :]) >= _ROW_SIZE:
            return _write_rows(x, rows, v, axis)
    return _scatter_flat(x, positions, v)


def _require_different(parsed: Key) -> None:
    """Raise TraceError if constant index arrays repeat an element: NumPy would keep the last value."""
    indices = np.broadcast_arrays(*(p for p in parsed.arrays.values()))
    rows = np.stack([i.reshape(-1) for i in indices], axis=1)
    if len(np.unique(rows, axis=0)) < len(rows):
        raise refusal("indices that repeat cannot be written to where sizes are symbolic; write each element once")


def flat_positions(x: Array, parsed: Key) -> Array:
    """Return the flat positions that a key with traced index arrays selects."""
    require_static(x, "indexing with data")
    shape = broadcast(*[p.shape for p in parsed.arrays.values()])
    layout: list[Any] = list(parsed.axes)
    layout[parsed.place : parsed.place] = ["array"] * len(shape)
    bounds = {axis: (start, n, step) for axis, start, n, step in parsed.bounds}
    trailing = len(parsed.axes) - parsed.place
    indices: list[Array] = []
    for axis, size in enumerate(x.shape):
        if axis in parsed.arrays:
            p = parsed.arrays[axis]
            indices.append(reshape(p, (*p.shape, *[1] * trailing)))
            continue
        start, n, step = bounds.get(axis, (0, size, 1))
        line = start + step * arange(n)
        if axis not in layout:  # rank 0: OpenVINO removes an addition of [0], and the axis with it
            indices.append(line.reshape(()))
            continue
        indices.append(line.reshape([-1] + [1] * (len(layout) - 1 - layout.index(axis))))
    return flat_index(indices, x.shape)


def _write_at_data(x: Array, parsed: Key, v: Array) -> Array:
    """Overwrite the elements that traced index arrays select."""
    flat = flat_positions(x, parsed)
    return scatter_at(x, flat, v, None)


def scatter_at(x: Array, flat: Any, v: Array, reduction: str | None) -> Array:
    """Write values to flat positions that depend on data, or combine them by `reduction`."""
    if reduction is None and type(flat) is TracedArray:
        flat._graph.note("where indices repeat, it is undefined which of the written values stays")
    v = _broadcast_value(v, flat.shape)
    n = size_of(flat.shape)
    result = scatter(reshape(x, (size_of(x.shape),)), reshape(flat, (n,)), reshape(v, (n,)), 0, reduction)
    return reshape(result, x.shape)


_REDUCTIONS = {np.add: "add", np.subtract: "add", np.multiply: "mul", np.maximum: "max", np.minimum: "min"}


def _require_same_kind(ufunc: np.ufunc, a: TracedArray, b: Array) -> None:
    """Raise TraceError if NumPy computes in another kind of dtype than the array's: it casts after each index."""
    computed = loop_dtypes(ufunc, (a, b))[-1]
    integers = computed.kind in "iu" and a.dtype.kind in "iu"
    if integers:
        same = computed == a.dtype or ufunc in (np.add, np.subtract, np.multiply)  # these wrap in the same way
    else:
        same = computed.kind == a.dtype.kind
    if not same:
        raise refusal(
            f"np.{ufunc.__name__}.at of {a.dtype.name} with {computed.name} casts after each index, which cannot "
            f"be recorded; write x = x.astype(np.{computed.name}) first"
        )


def ufunc_at(ufunc: np.ufunc, a: Array, indices: Array, b: Array | None = None) -> None:
    """Record ufunc.at: if indices repeat, the operation is applied once per occurrence."""
    if type(a) is not TracedArray:
        raise refusal(
            f"np.{ufunc.__name__}.at writes a traced array into a NumPy array; make that array with "
            "np.zeros_like(x) or np.zeros(shape, dtype, like=x)"
        )
    if ufunc not in _REDUCTIONS or b is None:
        raise refusal(
            f"np.{ufunc.__name__}.at cannot be recorded; only those of add, subtract, multiply, maximum and "
            "minimum can"
        )
    key, content = resolved(indices), a._resolved()
    _require_same_kind(ufunc, a, as_operand(resolved(b)))
    v = converted(b, a.dtype)
    if is_constant(content) and is_constant(v) and next(traced_in(key), None) is None:
        content = content.copy()
        ufunc.at(content, key, v)
        a._assign(content)
        return
    parsed = parse(key, a.shape)
    flat = (
        flat_positions(content, parsed)
        if not parsed.basic or symbolic_shape(a.shape)
        else _all_positions(content)[key]
    )
    v = -v if ufunc is np.subtract else v
    a._assign(scatter_at(content, flat, v, _REDUCTIONS[ufunc]))
