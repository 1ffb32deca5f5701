"""Functions that return another view of the same elements: reshape, transpose and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from anylayer.graph.place import refusal
from anylayer.graph.sizes import Dim, broadcast, is_fixed_to_one, is_static, numpy_axes, numpy_axis, product
from anylayer.graph.symbolic import as_index, depends_on_data
from anylayer.network import Array, DType
from anylayer.tracing import primitives
from anylayer.tracing.array import UNKNOWN_SIZE, TracedArray, copy_of, require_static, view_of
from anylayer.tracing.dispatch import implements
from anylayer.tracing.primitives import AxisArg, arange, is_constant
from anylayer.tracing.rules.indexing import basic_view
from anylayer.tracing.size_arithmetic import size_list

_REVERSE = slice(None, None, -1)


def reshaped(x: TracedArray, shape: tuple[Any, ...]) -> TracedArray:
    """Return a view in another shape. In NumPy this may be a copy, depending on the memory layout."""
    old = x.shape
    return view_of(
        x,
        lambda p: primitives.reshape(p, shape),
        lambda p, new: primitives.reshape(new, old),
        certain=not x._is_moved,
    )


def _target_shape(x: TracedArray, shape: Any) -> tuple[Any, ...]:
    """Return the shape that the argument of reshape means: -1 is computed, a dynamic size stays."""
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    if type(shape) is TracedArray or isinstance(shape, np.ndarray):
        sizes = tuple(size_list(shape) or np.asarray(shape).reshape(-1))
    sizes = tuple(d if isinstance(d, Dim) else _size(d) for d in sizes)
    free = [i for i, d in enumerate(sizes) if not isinstance(d, Dim) and d == -1]
    if len(free) > 1:
        raise ValueError("can only specify one unknown dimension")
    have, left = product(x.shape)
    fixed, dynamic = product([d for i, d in enumerate(sizes) if i not in free])
    for d in dynamic:  # a dynamic size on both sides cancels out
        if d not in left:
            raise refusal(f"reshaping {x!r} to {sizes} cannot be recorded, because {UNKNOWN_SIZE}")
        left.remove(d)
    divides = fixed != 0 and have % fixed == 0 if free else fixed == have
    if left and not (free and divides and len(left) == 1):
        raise refusal(f"reshaping {x!r} to {sizes} cannot be recorded, because {UNKNOWN_SIZE}")
    if not divides:
        shown = "(" + ",".join(map(str, sizes)) + ("," if len(sizes) == 1 else "") + ")"
        raise ValueError(f"cannot reshape array of size {have} into shape {shown}")
    if not free:
        return sizes
    rest = left[0].times(have // fixed) if left else have // fixed
    return (*sizes[: free[0]], rest, *sizes[free[0] + 1 :])


def _size(x: Any) -> int:
    """Return a size as a number, or as the symbolic size that a traced array of rank 0 holds."""
    sizes = size_list(x)
    return as_index(x) if sizes is None else sizes[0]


def _require_c_order(order: str, what: str) -> None:
    """Raise TraceError unless `order` is C order, or the order of the memory."""
    if order not in ("C", "A", "K", None):
        raise refusal(f"np.{what}(..., order={order!r}) cannot be recorded; transpose before and after")


def _index_order(x: TracedArray, order: str) -> str:
    """Return the order that "A" stands for: F order where the elements lie in F order, and not in C order."""
    if order != "A" or not x._is_moved:
        return order
    return "F" if x._dummy().flags.fnc else "C"


@implements(np.reshape, raw=True)
def reshape(
    a: TracedArray, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: bool | None = None
) -> Array:
    shape = newshape if shape is None else shape
    order = _index_order(a, order)
    if order == "F":
        sizes = _target_shape(a, shape)[::-1]
        return transposed(reshaped(a if a.ndim < 2 else transposed(a), sizes))
    _require_c_order(order, "reshape")
    result = reshaped(a, _target_shape(a, shape))
    return copy_of(result) if copy else result


@implements(np.ravel, raw=True)
def ravel(a: TracedArray, order: str = "C") -> Array:
    order = _index_order(a, order)
    if order == "F":
        return reshape(transposed(a), (-1,))
    _require_c_order(order, "ravel")
    if order == "K" and a._is_moved:
        raise refusal("np.ravel(..., order='K') cannot be recorded; use order='C'")
    return reshape(a, (-1,))


def transposed(x: TracedArray, order: Sequence[int] | None = None) -> TracedArray:
    """Return a view with the axes permuted by `order`; None reverses them."""
    order = tuple(range(x.ndim))[::-1] if order is None else tuple(order)
    back = tuple(int(i) for i in np.argsort(order))
    return view_of(x, lambda p: primitives.transpose(p, order), lambda p, new: primitives.transpose(new, back))


@implements(np.transpose, raw=True)
def transpose(a: TracedArray, axes: AxisArg = None) -> Array:
    if axes is None:
        return transposed(a)
    order = numpy_axes(axes, a.ndim)
    if len(order) != a.ndim:
        raise ValueError("axes don't match array")
    return transposed(a, order)


@implements(np.matrix_transpose, np.linalg.matrix_transpose, raw=True)
def matrix_transpose(x: TracedArray, /) -> Array:
    if x.ndim < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {x.ndim}")
    return swapaxes(x, -1, -2)


@implements(np.swapaxes, raw=True)
def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    order = list(range(a.ndim))
    i, j = numpy_axis(axis1, a.ndim), numpy_axis(axis2, a.ndim)
    order[i], order[j] = order[j], order[i]
    return transposed(a, order)


@implements(np.moveaxis, raw=True)
def moveaxis(a: TracedArray, source: Any, destination: Any) -> Array:
    start, end = numpy_axes(source, a.ndim), numpy_axes(destination, a.ndim)
    if len(start) != len(end):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [i for i in range(a.ndim) if i not in start]
    for to, origin in sorted(zip(end, start)):
        order.insert(to, origin)
    return transposed(a, order)


@implements(np.rollaxis, raw=True)
def rollaxis(a: TracedArray, axis: int, start: int = 0) -> Array:
    axis = numpy_axis(axis, a.ndim)
    start = numpy_axis(start, a.ndim + 1)
    start -= axis < start
    order = [i for i in range(a.ndim) if i != axis]
    order.insert(start, axis)
    return transposed(a, order)


def _certain_view(x: TracedArray, shape: tuple[Any, ...]) -> TracedArray:
    """Return a reshape that only adds or removes axes of size 1, which is always a view."""
    old = x.shape
    return view_of(x, lambda p: primitives.reshape(p, shape), lambda p, new: primitives.reshape(new, old))


@implements(np.expand_dims, raw=True)
def expand_dims(a: TracedArray, axis: AxisArg) -> Array:
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    places = numpy_axes(axes, a.ndim + len(axes))
    rest = iter(a.shape)
    return _certain_view(a, tuple(1 if i in places else next(rest) for i in range(a.ndim + len(axes))))


@implements(np.squeeze, raw=True)
def squeeze(a: TracedArray, axis: AxisArg = None) -> Array:
    axes = range(a.ndim) if axis is None else numpy_axes(axis, a.ndim)
    if axis is None and any(map(depends_on_data, a.shape)):
        raise refusal("np.squeeze of selected elements removes the axis of a single one; name the axes: axis=...")
    ones = [i for i in axes if is_fixed_to_one(a.shape[i])]
    if axis is not None and len(ones) < len(axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return _certain_view(a, tuple(d for i, d in enumerate(a.shape) if i not in ones))


def _at_least(rank: int) -> Any:
    def one(x: Array) -> Array:
        if type(x) is not TracedArray:
            return (np.atleast_1d, np.atleast_2d, np.atleast_3d)[rank - 1](x)
        shape = x.shape
        if len(shape) >= rank:
            return x
        if rank == 3 and len(shape) == 2:
            return _certain_view(x, (*shape, 1))
        if rank == 3 and len(shape) == 1:
            return _certain_view(x, (1, *shape, 1))
        return _certain_view(x, (*[1] * (rank - len(shape)), *shape))

    return lambda *arrays: one(arrays[0]) if len(arrays) == 1 else tuple(map(one, arrays))


implements(np.atleast_1d, raw=True)(_at_least(1))
implements(np.atleast_2d, raw=True)(_at_least(2))
implements(np.atleast_3d, raw=True)(_at_least(3))


def _broadcast_view(x: Array, shape: tuple[Any, ...]) -> Array:
    if type(x) is not TracedArray:
        return primitives.expand(np.asarray(x), shape)
    return view_of(x, lambda p: primitives.expand(p, shape), None)


@implements(np.broadcast_to, raw=True)
def broadcast_to(array: Array, shape: Any, subok: bool = False) -> Array:
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    sizes = size_list(shape)
    shape = tuple(d if isinstance(d, Dim) else _size(d) for d in (shape if sizes is None else sizes))
    old_shape = np.shape(array)
    if broadcast(old_shape, shape) != shape:
        raise ValueError(f"operands could not be broadcast together with remapped shapes {old_shape} -> {shape}")
    return _broadcast_view(array, shape)


@implements(np.broadcast_arrays, raw=True)
def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Array, ...]:
    arrays = tuple(x if type(x) is TracedArray else np.asarray(x) for x in arrays)
    shape = broadcast(*[x.shape for x in arrays])
    return tuple(_broadcast_view(x, shape) for x in arrays)


@implements(np.meshgrid, raw=True)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    rank = len(xi)
    places = list(range(rank))
    if indexing == "xy" and rank > 1:
        places[:2] = [1, 0]
    arrays = []
    for x, place in zip(xi, places):
        x = x if type(x) is TracedArray else np.asarray(x)
        arrays.append(x.reshape([-1 if i == place else 1 for i in range(rank)]))
    if sparse:
        return tuple(arrays)
    shape = broadcast(*[x.shape for x in arrays])
    views = [_broadcast_view(x, shape) for x in arrays]
    return tuple(copy_of(v) if copy and type(v) is TracedArray else v for v in views)


# ------------------------------------------------------------------- reversing


@implements(np.flip, raw=True)
def flip(m: Array, axis: AxisArg = None) -> Array:
    axes = numpy_axes(axis, m.ndim)
    return m[tuple(_REVERSE if i in axes else slice(None) for i in range(m.ndim))]


@implements(np.fliplr, raw=True)
def fliplr(m: TracedArray) -> Array:
    if m.ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(m, 1)


implements(np.flipud, raw=True)(lambda m: flip(m, 0))


@implements(np.rot90, raw=True)
def rot90(m: TracedArray, k: int = 1, axes: AxisArg = (0, 1)) -> Any:
    first, second = numpy_axes(axes, m.ndim)
    k %= 4
    if k == 0:
        return m[...]
    if k == 2:
        return flip(m, (first, second))
    if k == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second)


# ---------------------------------------------------------- parts and windows


def _bounds(total: int, parts: Any, even: bool) -> list[int]:
    """Return the positions at which split and array_split cut an axis: the start of each part, and the end of the
    axis.
    """
    if isinstance(parts, (int, np.integer)):
        if parts <= 0:
            raise ValueError("number sections must be larger than 0.")
        if even and total % parts:
            raise ValueError("array split does not result in an equal division")
        each, extra = divmod(total, int(parts))
        sizes = [each + 1] * extra + [each] * (int(parts) - extra)
        return [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return [0, *[int(i) for i in parts], total]


def _split(x: TracedArray, parts: Any, axis: int, even: bool = True) -> list[Array]:
    axis = numpy_axis(axis, x.ndim)
    if not is_static(x.shape[axis : axis + 1]):
        require_static(x, "splitting")
    total = x.shape[axis]
    cuts = _bounds(total, parts, even)
    lead = (slice(None),) * axis
    keys = [(*lead, slice(a, b)) for a, b in pairwise(cuts)]
    sizes = [len(range(*k[-1].indices(total))) for k in keys]
    if sum(sizes) != total or is_constant(x._resolved()):
        return [x[k] for k in keys]
    contents = primitives.split(x._resolved(), sizes, axis)
    return [basic_view(x, k, content) for k, content in zip(keys, contents)]


implements(np.split, raw=True)(lambda ary, indices_or_sections, axis=0: _split(ary, indices_or_sections, axis))
implements(np.array_split, raw=True)(
    lambda ary, indices_or_sections, axis=0: _split(ary, indices_or_sections, axis, even=False)
)
implements(np.hsplit, raw=True)(
    lambda ary, indices_or_sections: _split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)
)
implements(np.vsplit, raw=True)(lambda ary, indices_or_sections: _split(ary, indices_or_sections, 0))
implements(np.dsplit, raw=True)(lambda ary, indices_or_sections: _split(ary, indices_or_sections, 2))
implements(getattr(np, "unstack", None), raw=True)(lambda x, /, *, axis=0: tuple(moveaxis(x, axis, 0)))


@implements(np.diagonal, raw=True)
def diagonal(a: TracedArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    first, second = numpy_axes((axis1, axis2), a.ndim)
    rows, columns = a.shape[first], a.shape[second]
    n = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    steps = np.arange(n)
    key: list[Any] = [slice(None)] * a.ndim
    key[first], key[second] = steps - min(offset, 0), steps + max(offset, 0)
    apart = abs(first - second) != 1

    def replay(p: Array) -> Array:
        if is_constant(p):
            return p.diagonal(offset, first, second)
        selected = p[tuple(key)]
        return np.moveaxis(selected, 0 if apart else min(first, second), -1)

    return view_of(a, replay, None)


implements(np.linalg.diagonal, raw=True)(lambda x, /, *, offset=0: diagonal(x, offset, -2, -1))


@implements(np.lib.stride_tricks.sliding_window_view, raw=True)
def sliding_window_view(
    x: TracedArray, window_shape: Any, axis: AxisArg = None, *, subok: bool = False, writeable: bool = False
) -> Array:
    windows = (window_shape,) if isinstance(window_shape, (int, np.integer)) else tuple(window_shape)
    axes = numpy_axes(axis, x.ndim)
    if len(windows) != len(axes):
        raise ValueError("window_shape must have as many entries as there are axes to slide over")
    if writeable:
        raise refusal("sliding_window_view(..., writeable=True) cannot be recorded; write to the array itself")

    def replay(p: Array) -> Array:
        if is_constant(p):
            return np.lib.stride_tricks.sliding_window_view(p, windows, axes)
        for a, w in zip(axes, windows):
            n = p.shape[a] - w + 1
            if n < 0:
                raise ValueError("window shape cannot be larger than input array shape")
            p = np.moveaxis(np.take(p, arange(n)[:, None] + arange(w), a), a + 1, -1)
        return p

    return view_of(x, replay, None)


implements(np.real, raw=True)(lambda val: val[...])
implements(np.imag)(lambda val: np.zeros(val.shape, val.dtype))


# ------------------------------------------------------------- attributes


implements(np.shape, raw=True)(lambda a: a.shape)
implements(np.ndim, raw=True)(lambda a: a.ndim)
implements(np.iscomplexobj, raw=True)(lambda x: False)
implements(np.isrealobj, raw=True)(lambda x: True)
implements(np.result_type, raw=True)(lambda *arrays_and_dtypes: np.result_type(*map(_as_dtype, arrays_and_dtypes)))
implements(np.common_type, raw=True)(lambda *arrays: np.common_type(*[np.empty((0,), x.dtype) for x in arrays]))
implements(np.array_repr, np.array_str, np.array2string, raw=True)(lambda a, *_, **__: format(a))


@implements(np.size, raw=True)
def size(a: TracedArray, axis: AxisArg = None) -> Any:
    return a.size if axis is None else math.prod(a.shape[i] for i in numpy_axes(axis, a.ndim))


@implements(np.can_cast, raw=True)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return bool(np.can_cast(_as_dtype(from_), _as_dtype(to), casting))


@implements(np.min_scalar_type, raw=True)
def min_scalar_type(a: TracedArray, /) -> DType:
    if a.ndim == 0:
        raise refusal(
            "np.min_scalar_type needs the value of a traced scalar, which is known only when the network runs; "
            "use x.dtype"
        )
    return a.dtype


def _as_dtype(x: Array) -> Any:
    return x.dtype if type(x) is TracedArray else x
