"""The methods and properties of ndarray, each implemented by the NumPy function of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from anylayer.graph.place import refusal
from anylayer.graph.symbolic import symbolic_shape
from anylayer.network import Array, Function
from anylayer.tracing.array import TracedArray, TracingRule, copy_of, wrapped
from anylayer.tracing.dispatch import call_function, implements
from anylayer.tracing.primitives import cast, reshape


def _method(function: Function) -> Callable[[TracedArray], Any]:
    return lambda x: lambda *args, **kwargs: call_function(function, (x, *args), kwargs)


_FUNCTIONS = (
    "all any argmax argmin argpartition argsort clip cumprod cumsum diagonal dot max mean min nonzero "
    "prod ravel repeat round searchsorted squeeze std sum swapaxes take trace var choose put"
)


def _reshape(x: TracedArray) -> Function:
    def method(*shape: Any, order: str = "C", copy: Any = None) -> Any:
        return call_function(
            np.reshape, (x, shape[0] if len(shape) == 1 else shape), {"order": order, "copy": copy}
        )

    return method


def _transpose(x: TracedArray) -> Function:
    def method(*axes: Any) -> Any:
        order = (
            axes[0]
            if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list, np.ndarray)))
            else axes
        )
        return call_function(np.transpose, (x, None if order is None or not len(order) else tuple(order)), {})

    return method


def astype(
    x: TracedArray,
    dtype: DTypeLike,
    order: str = "K",
    casting: Any = "unsafe",
    subok: bool = True,
    copy: Any = True,
) -> Array:
    """Implement ndarray.astype: return a copy, unless the dtype is the same and copy=False."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        pair: Array = np.add(x, dtype.type(0))
        return pair
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule '{casting}'")
    if not copy and dtype == x.dtype and lies_in(x, order):
        return x
    result = wrapped(x._graph, cast(x._resolved(), dtype))
    result._scalar = x._scalar
    return lay_out(result, x, order)


def copy(x: TracedArray, order: str = "C") -> TracedArray:
    """Implement ndarray.copy."""
    result = copy_of(x)
    result._scalar = x._scalar
    return lay_out(result, x, order or "C")


def lay_out(result: TracedArray, x: TracedArray, order: str | None) -> TracedArray:
    """Return `result` with a record of the memory layout that a copy of `x` with this `order` has."""
    if order == "F" or (order != "C" and x._is_moved):
        result._memory_layout = lambda: x._dummy().astype(result.dtype, order=order_of(order))
    return result


def lies_in(x: TracedArray, order: str | None) -> bool:
    """Return whether NumPy returns an array itself where it needs its elements in this order in memory."""
    if order not in ("C", "F") or not (x._is_moved or order == "F"):
        return True
    flags = x._dummy().flags
    return bool(flags.c_contiguous if order == "C" else flags.f_contiguous)


def order_of(order: str | None) -> Any:
    """Return an order of elements in memory as NumPy's functions take it."""
    return order or "K"


class Flat:
    """ndarray.flat: the elements in C order, for reading, writing and iteration."""

    __slots__ = ("_array",)

    def __init__(self, array: TracedArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        x = self._array
        elements = wrapped(x._graph, reshape(x._resolved(), (x.size,)))[key]
        if elements._view is not None:
            elements = copy_of(elements)
        return elements

    def __setitem__(self, key: Any, value: Any) -> None:
        x = self._array
        flat = wrapped(x._graph, reshape(x._resolved(), (x.size,)))
        flat = copy_of(flat)
        flat[key] = value
        x._assign(reshape(flat._resolved(), x.shape))

    def __array__(self, dtype: DTypeLike | None = None, copy: Any = None) -> Array:
        return np.asarray(self._array).reshape(-1)

    def copy(self) -> Any:
        """Return all elements as an array of their own."""
        return self[:]


@implements(np.put, raw=True)
def put(a: Array, ind: Any, v: Array, mode: str = "raise") -> None:
    """Implement np.put with one value, or one value per index."""
    if type(a) is not TracedArray:
        raise refusal("np.put writes a traced array into a NumPy array; make that array with np.zeros_like(x)")
    if np.size(v) not in (1, np.size(ind)) or mode != "raise":
        raise refusal("np.put is recorded with one value, or one value per index, and mode='raise' only")
    Flat(a)[ind if type(ind) is TracedArray else np.asarray(ind)] = v if np.size(v) > 1 else np.reshape(v, ())


def _sort(
    x: TracedArray, axis: int = -1, kind: object = None, order: object = None, *, stable: object = None
) -> None:
    x._assign(call_function(np.sort, (x, axis), {})._resolved())


def _view(x: TracedArray, dtype: DTypeLike | None = None, type: object = None) -> Any:
    if dtype not in (None, np.ndarray) and np.dtype(dtype) != x.dtype:
        raise refusal("ndarray.view of another dtype reads the bits of the values, which cannot be recorded")
    return x[...]


def strides(x: TracedArray) -> tuple[Any, ...]:
    """Return the strides that an array has in NumPy, in bytes."""
    if not symbolic_shape(x.shape):
        return x._dummy().strides
    if x._is_moved:
        raise refusal("the strides of a view with open sizes cannot be recorded; take a .copy() of it first")
    steps: list[Any] = []
    step: Any = x.itemsize
    for size in reversed(x.shape):
        steps.insert(0, step)
        step = step * size
    return tuple(steps)


ATTRIBUTES: Mapping[str, TracingRule] = {
    **{name: _method(getattr(np, name)) for name in _FUNCTIONS.split(" ")},
    "reshape": _reshape,
    "transpose": _transpose,
    "astype": lambda x: lambda *args, **kwargs: astype(x, *args, **kwargs),
    "copy": lambda x: lambda order="C": copy(x, order),
    "flatten": lambda x: lambda order="C": copy(call_function(np.ravel, (x, order), {})),
    "conj": lambda x: lambda: np.conjugate(x),
    "conjugate": lambda x: lambda: np.conjugate(x),
    "T": lambda x: call_function(np.transpose, (x,), {}),
    "mT": lambda x: call_function(np.matrix_transpose, (x,), {}),
    "real": lambda x: call_function(np.real, (x,), {}),
    "compress": lambda x: lambda condition, axis=None: call_function(np.compress, (condition, x, axis), {}),
    "flat": Flat,
    "strides": strides,
    "flags": lambda x: x._dummy().flags,
    "device": lambda x: "cpu",
    "sort": lambda x: lambda *args, **kwargs: _sort(x, *args, **kwargs),
    "partition": lambda x: lambda kth, axis=-1, **kwargs: _sort(x, axis),
    "fill": lambda x: lambda value: x.__setitem__(..., value),
    "view": lambda x: lambda *args, **kwargs: _view(x, *args, **kwargs),
    "imag": lambda x: call_function(np.imag, (x,), {}),
}
"""Methods and properties of ndarray that TracedArray does not define itself."""
