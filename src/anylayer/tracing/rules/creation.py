"""Functions that create arrays: zeros_like, zeros(..., like=x) and others.

The arrays that they create are constant, but they are traced arrays, so that other traced arrays can be written to
them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from anylayer import tracing
from anylayer.graph.place import refusal
from anylayer.graph.sizes import broadcast, is_one, stand_for
from anylayer.graph.symbolic import (
    extreme,
    holds_symbolic,
    is_symbolic,
    is_zero,
    plain,
    same_shape,
    symbolic_shape,
)
from anylayer.network import Array, Function
from anylayer.tracing.array import Composite, TracedArray, copy_of, selected, wrapped
from anylayer.tracing.counts import as_size
from anylayer.tracing.dispatch import call_function, dummies, implements, traced_in
from anylayer.tracing.dtypes import python_type, weak
from anylayer.tracing.primitives import arange as counted
from anylayer.tracing.primitives import as_array, cast, expand
from anylayer.tracing.python_numbers import as_arrays
from anylayer.tracing.record import running_graph
from anylayer.tracing.rules import attributes
from anylayer.tracing.rules.concatenation import array_like


def constant_array(array: Any) -> TracedArray:
    """Return a new traced array with constant content, which keeps its memory layout."""
    content = np.asarray(array)
    result = TracedArray(running_graph(), content)
    if not content.flags.c_contiguous:
        _lay_as(result, content)
    return result


def _lay_as(result: Any, dummy: Array) -> None:
    """Record that a traced array has the memory layout of a NumPy array."""
    result._memory_layout = lambda: dummy


@implements(np.full_like, raw=True)
def full_like(
    a: TracedArray,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: object = None,
) -> Array:
    result = full(a.shape if shape is None else shape, fill_value, a.dtype if dtype is None else dtype)
    if type(result) is TracedArray and (order == "F" or (order != "C" and type(a) is TracedArray and a._is_moved)):
        shape = plain(stand_for(result.shape))
        _lay_as(result, np.zeros_like(dummies(a), result.dtype, attributes.order_of(order), shape=shape))
    return result


implements(np.zeros_like, np.empty_like, raw=True)(lambda a, *args, **kwargs: full_like(a, 0, *args, **kwargs))
implements(np.ones_like, raw=True)(lambda a, *args, **kwargs: full_like(a, 1, *args, **kwargs))


def full(
    shape: Any, fill_value: Any, dtype: DTypeLike | None = None, order: str = "C", *, device: object = None
) -> Array:
    """Implement np.full. The fill value may be traced. A complex array is a pair of real ones: see spectral."""
    is_plain = isinstance(fill_value, (int, float, complex))
    if dtype is not None and np.dtype(dtype) in (np.complex64, np.complex128) and is_plain:
        spectral, z = tracing.rules.spectral, complex(fill_value)
        part = spectral.PARTS[np.dtype(dtype)]
        pair: Array = spectral.complex_array(full(shape, z.real, part, order), full(shape, z.imag, part, order))
        return pair
    result = _full_array(shape, fill_value, dtype)
    if order == "F":
        _lay_as(result, np.zeros(plain(stand_for(result.shape)), result.dtype, "F"))
    return result


def _full_array(shape: Any, fill_value: Any, dtype: DTypeLike | None) -> Array:
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    shape = tuple(d if (n := as_size(d)) is None else n for d in shape)
    fill_value = as_arrays(fill_value)
    if is_symbolic(fill_value):
        fill_value = as_array(fill_value, python_type(fill_value))
    if type(fill_value) is not TracedArray:
        if symbolic_shape(shape):
            return expand(np.asarray(fill_value, dtype), shape)
        return constant_array(np.full(shape, fill_value, dtype))
    value = fill_value._resolved()
    value = value if dtype is None else cast(value, np.dtype(dtype))
    if not same_shape(broadcast(value.shape, shape), shape):
        raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {shape}")
    return copy_of(wrapped(running_graph(), expand(value, shape)))


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    *,
    copy: Any = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
) -> Any:
    """Implement np.array, also for traced arrays and lists of them."""
    if dtype is None and issubclass(type(object), tracing.grown.Growing):
        tracing.running_graph().note(
            "an array of an empty list is float64 of shape (0,) in NumPy, and has the dtype and columns of the "
            "elements here; write np.array(x, np.int64).reshape(-1, 2), for example"
        )
    object = as_arrays(selected(object))
    if type(object) in (list, tuple) and any(issubclass(type(z), Composite) for z in object) and dtype is None:
        return np.stack(object)
    if type(object) is TracedArray:
        same = dtype is None or np.dtype(dtype) == object.dtype
        if same and not copy and object.ndim >= ndmin and not object._scalar and attributes.lies_in(object, order):
            return object
        result = wrapped(running_graph(), cast(object._resolved(), dtype or object.dtype))
        result = copy_of(result) if result is object else result
        result._scalar = False
        attributes.lay_out(result, object, order)
    elif holds_symbolic(object):
        result = wrapped(running_graph(), _array_of_nested(object, dtype))
    elif next(traced_in(object), None) is None:
        result = constant_array(np.array(object, dtype, order=attributes.order_of(order)))
        if isinstance(object, np.ndarray) and not copy and result.dtype == object.dtype:
            result._owner = "a NumPy array (np.asarray returns the array itself)"
    else:
        result = wrapped(running_graph(), _array_of_nested(object, dtype))
    while result.ndim < ndmin:
        result = np.expand_dims(result, 0)
    return result


def _array_of_nested(items: Any, dtype: DTypeLike | None) -> Array:
    """Return an array made of nested lists. Python numbers become int64 or float64, as in NumPy."""
    joined = array_like(items)
    return joined if dtype is None else cast(joined, np.dtype(dtype))


def asarray(
    a: Array, dtype: DTypeLike | None = None, order: str = "K", *, device: object = None, copy: Any = None
) -> Any:
    """Implement np.asarray, also for traced arrays."""
    return array(a, dtype, copy=bool(copy), order=order)


_NUMPY: Any = np
"""The module NumPy without its type annotations, for arguments that are passed on unchanged."""


def _constant_fill(value: Any) -> Function:
    def rule(shape: Any, dtype: DTypeLike = float, order: str = "C", *, device: object = None) -> Array:
        return full(shape, value, dtype, order)

    return rule


def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None, *, device: object = None
) -> Array:
    """Implement np.arange. The numbers may be symbolic."""
    if stop is None:
        start, stop = 0, start
    start, stop, step = (x if (n := as_size(x)) is None else n for x in (start, stop, step))
    if not any(map(is_symbolic, (start, stop, step))):
        return constant_array(_NUMPY.arange(start, stop, step, dtype))
    kind = np.result_type(*map(python_type, (start, stop, step))) if dtype is None else np.dtype(dtype)
    count = -math.floor((start - stop) / step) if kind.kind == "f" else -((start - stop) // step)
    steps = cast(counted(extreme("max", count, 0)), np.float64 if kind.kind == "f" else np.int64)
    if not (is_one(step) and type(step) is int):
        steps = steps * step
    if not is_zero(start):
        steps = steps + start
    return cast(steps, kind)


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, **options: Any
) -> Any:
    """Implement np.linspace along one axis. The numbers may be symbolic."""
    if not any(map(is_symbolic, (start, stop, num))):
        numbers = _NUMPY.linspace(start, stop, num, endpoint, retstep, **options)
        return (constant_array(numbers[0]), numbers[1]) if retstep else constant_array(numbers)
    if retstep:
        raise refusal("np.linspace(..., retstep=True) of a symbolic size cannot be recorded; compute the step")
    last = num - 1 if endpoint else num
    steps = (
        cast(counted(num), np.float64) if is_symbolic(num) else constant_array(np.arange(num, dtype=np.float64))
    )
    values = steps * ((stop - start) / extreme("max", last, 1)) + start
    if endpoint:  # NumPy sets the last value, so that it is exact
        values = np.where(steps == last, stop * 1.0, values) if num > 1 else values
    return cast(values, np.dtype(options.get("dtype") or np.float64))


def _by_place(function: Function, relation: np.ufunc) -> Function:
    """Return the rule of np.eye or np.tri: 1 where `relation` holds for a column and a row plus k.

    The numbers may be symbolic.
    """

    def rule(
        N: Any, M: Any = None, k: Any = 0, dtype: DTypeLike = float, order: str = "C", *, device: object = None
    ) -> Array:
        if not any(map(is_symbolic, (N, M, k))):
            return constant_array(function(N, M, k, dtype, attributes.order_of(order)))
        row = array(counted(N), copy=False)[:, None] + k
        return cast(relation(counted(N if M is None else M), row), np.dtype(dtype))

    return rule


CREATION: dict[str, Function] = {
    "zeros": _constant_fill(0),
    "ones": _constant_fill(1),
    "empty": _constant_fill(0),
    "eye": _by_place(np.eye, np.equal),
    "identity": lambda n, dtype=None: _by_place(np.eye, np.equal)(n, dtype=dtype or float),
    "tri": _by_place(np.tri, np.less_equal),
    "arange": arange,
    "linspace": linspace,
    "fromfunction": lambda *args, **kwargs: constant_array(np.fromfunction(*args, **kwargs)),
    "full": full,
    "array": array,
    "asarray": asarray,
    "asanyarray": asarray,
    "ascontiguousarray": lambda a, dtype=None: array(a, dtype, copy=False, order="C", ndmin=1),
    "asfortranarray": lambda a, dtype=None: array(a, dtype, copy=False, order="F", ndmin=1),
}
"""The functions that create arrays, by name: for like= and for the substitute for NumPy."""


for _name, _rule in CREATION.items():
    implements(getattr(np, _name), raw=True)(_rule)


@implements(np.copy, raw=True)
def copy(a: TracedArray, order: str = "K", subok: bool = False) -> Array:
    return copy_as_array(a, order)


def copy_as_array(a: TracedArray, order: str) -> TracedArray:
    """Return a copy that is an array, even of a scalar."""
    result = attributes.copy(a, order)
    result._scalar = False
    return result


@implements(np.copyto, raw=True)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    if type(dst) is not TracedArray:
        raise refusal(
            "np.copyto (also np.full, np.full_like) writes a traced array into a NumPy array; make that array "
            "with np.zeros_like(x) or np.zeros(shape, dtype, like=x), or use np.broadcast_to(x, shape)"
        )
    dtype = None if weak(src) else src.dtype if hasattr(src, "dtype") else np.asarray(src).dtype
    if dtype is not None and not np.can_cast(dtype, dst.dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {dtype!r} to {dst.dtype!r} according to the rule '{casting}'"
        )
    if where is True:
        dst[...] = src
    else:
        dst[...] = np.where(where, call_function(np.asarray, (src,), {"dtype": dst.dtype}), dst)


@implements(getattr(np, "astype", None), raw=True)
def astype(x: TracedArray, dtype: DTypeLike, /, *, copy: bool = True, device: object = None) -> Array:
    return x.astype(dtype, copy=copy)
