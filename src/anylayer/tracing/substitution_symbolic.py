"""Substitutes for the functions of Python and NumPy that turn a symbolic size or an array into a plain number.

`int(size / 2)`, `max(a, b)` and `np.float32(size)` keep the expression of a size where the substitutes are used:
see anylayer.tracing.substitution. `int(x)` of an array is a number that depends on data. With plain numbers they
do what the originals do.
"""

from __future__ import annotations

import builtins
import inspect
import io
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.graph.guards import unguarded
from anylayer.graph.sizes import broadcast
from anylayer.graph.symbolic import Size, SizeReal, extreme, holds_symbolic, is_symbolic
from anylayer.network import Function
from anylayer.tracing.array import TracedArray, selected
from anylayer.tracing.dispatch import call_function
from anylayer.tracing.grown import GrownList
from anylayer.tracing.primitives import as_array
from anylayer.tracing.python_numbers import PythonNumber, Scalar, extreme_of, to_float, to_int
from anylayer.tracing.rules import creation
from anylayer.tracing.rules.shapes import broadcast_to
from anylayer.tracing.size_arithmetic import size_list


class _SubstituteType(type):
    """A substitute for the type `original`, whose call keeps symbolic sizes and numbers that depend on data. In
    all other respects it behaves like `original`."""

    original: type
    convert: Callable[[Any], Any]
    of_data: Callable[[Any], Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            x = args[0]
            sizes = size_list(x) if type(x) is TracedArray and not x.shape else None
            x = x if sizes is None else sizes[0]
            if is_symbolic(x):
                return cls.convert(x)
            is_array = type(x) is TracedArray and bool(x.shape) and issubclass(cls.original, np.generic)
            if is_array or type(x) is PythonNumber or (type(x) is TracedArray and x._const() is None):
                return cls.of_data(x)
        return cls.original(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)


class _SubstituteOfType(_SubstituteType):
    """A substitute for the built-in `type`, which returns for a symbolic number, and for one that depends on data,
    the type of a plain one."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and type(args[0]) is PythonNumber:
            return _TYPES.get(args[0].kind, args[0].kind)
        kind = type(*args, **kwargs)
        return _TYPES.get(kind, kind)


class _SubstituteOfSet(_SubstituteType):
    """A substitute for the built-in `set`, which may depend on data."""

    def __call__(cls, *args: object) -> object:
        traced = tracing.sets.set_of(args[0]) if len(args) == 1 else None
        return set(*args) if traced is None else traced


def _substitute(original: type, convert: Callable[[Any], Any], of_data: Callable[[Any], Any]) -> Any:
    space = {"original": original, "convert": staticmethod(convert), "of_data": staticmethod(of_data)}
    if original in (int, float, np.bool_):
        space["dtype"] = np.dtype(original)  # NumPy reads it where the type is given as a dtype
    return _SubstituteType(original.__name__, () if original is np.bool_ else (original,), space)


def _to_int(x: Any) -> Any:
    return x if type(x) is Size else x.__trunc__()


def _to_float(x: Any) -> Any:
    return x.as_real() if type(x) is Size else x


def _scalar(kind: type) -> Callable[[Any], Any]:
    dtype = np.dtype(kind)

    def convert(x: Any) -> Any:
        result = as_array(_to_int(x) if dtype.kind in "iu" else x, dtype)
        if type(result) is TracedArray:
            result._scalar = True
        return result

    return convert


def _cast(kind: type) -> Callable[[Any], Any]:
    dtype = np.dtype(kind)

    def of_data(x: Any) -> Any:
        result: Any = x.as_dtype(dtype) if type(x) is PythonNumber else x.astype(dtype)
        result._scalar = not result.ndim
        return result

    return of_data


def _extreme(function: str) -> Function:
    original = getattr(builtins, function)

    def rule(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and type(args[0]) is tracing.sets.TracedSet:
            args = (args[0].in_order(),)
        if len(args) == 1 and type(args[0]) is GrownList and not kwargs.keys() - {"key"}:
            return tracing.objects.extreme_item(function, args[0], kwargs.get("key"))
        values = list(args[0]) if len(args) == 1 else list(args)
        if values and not kwargs and any(map(is_symbolic, values)):
            return extreme(function, *values)
        if not kwargs and any(type(x) in (TracedArray, PythonNumber) for x in values):
            best = extreme_of(function, values)
            if best is not None:
                return best
        return original(values, **kwargs)

    return rule


_UFUNC_METHODS = ("at", "reduce", "accumulate", "outer", "reduceat")


def _rounding(name: str, convert: Function) -> Function:
    original = getattr(np, name)

    def rule(*args: Any, **kwargs: Any) -> Any:
        if (
            args
            and all(is_symbolic(x) or isinstance(x, (int, float)) for x in args)
            and any(map(is_symbolic, args))
        ):
            return convert(*args)
        return original(*args, **kwargs)

    if isinstance(original, np.ufunc):
        vars(rule).update({method: getattr(original, method) for method in _UFUNC_METHODS})
    return rule


def _prod(a: Any, *args: Any, **kwargs: Any) -> Any:
    if type(a) in (list, tuple) and any(map(is_symbolic, a)) and not args and not kwargs:
        return math.prod(a)
    return np.prod(a, *args, **kwargs)


def _broadcast_shapes(*args: Any) -> tuple[int, ...]:
    if any(map(holds_symbolic, args)):
        return broadcast(*[s if isinstance(s, (tuple, list)) else (s,) for s in args])
    return np.broadcast_shapes(*args)


def _broadcast_to(array: Any, shape: Any, *args: Any, **kwargs: Any) -> Any:
    is_open = holds_symbolic(shape) or size_list(shape) is not None
    return (broadcast_to if is_open else np.broadcast_to)(array, shape, *args, **kwargs)


def _sized_by(function: Function) -> Function:
    """Return a function of an array and sizes that also takes a constant array and symbolic sizes."""
    signature = inspect.signature(function)

    def rule(*args: Any, **kwargs: Any) -> Any:
        a, sizes, *rest = signature.bind(*args, **kwargs).arguments.values()
        is_open = holds_symbolic(sizes) or size_list(sizes) is not None
        if not is_open:
            return function(*args, **kwargs)
        return call_function(function, (creation.asarray(a), sizes, *rest), {})

    return rule


def _indices(dimensions: Any, dtype: Any = int, sparse: Any = False) -> Any:
    if not holds_symbolic(dimensions):
        return np.indices(dimensions, dtype, sparse=sparse)
    grids = np.meshgrid(*(creation.arange(n, dtype=dtype) for n in dimensions), indexing="ij", sparse=sparse)
    return tuple(grids) if sparse else np.stack(grids)


def _len(x: Any) -> int:
    x = x.numbers() if type(x) in (GrownList, tracing.sets.TracedSet) else selected(x)
    return x.shape[0] if type(x) is TracedArray and x.shape else len(x)


def _in_order(
    x: Iterable[Scalar], /, *, key: Function | None = None, reverse: bool = False
) -> list[Scalar] | GrownList:
    if type(x) is tracing.sets.TracedSet:
        x = x.in_order() if key is None else x.items()
    if isinstance(x, GrownList):
        return tracing.objects.sorted_list(x, key, reverse)
    items = list(x)
    ordered = tracing.objects.sorted_values(items, key, reverse) if len(items) > 1 else None
    return sorted(items, key=key, reverse=reverse) if ordered is None else ordered


def print_text(*args: Any, file: Any = None, **kwargs: Any) -> None:
    """Print. Only text that the code may read again, in a file of its own, makes sizes plain numbers."""
    is_shown = file in (None, sys.stdout, sys.stderr) and type(sys.stdout) is not io.StringIO
    with unguarded() if is_shown else nullcontext():
        print(*args, file=file, **kwargs)


_INT, _FLOAT = _substitute(int, _to_int, to_int), _substitute(float, _to_float, to_float)
_SET = _SubstituteOfSet("set", (set,), {"original": set})
_TYPES: Mapping[type, Any] = {int: _INT, Size: _INT, float: _FLOAT, SizeReal: _FLOAT, set: _SET}
"""Type of a number -> the substitute that the user's code gets instead."""
BUILTINS: Mapping[str, Any] = {
    "int": _INT,
    "float": _FLOAT,
    "type": _SubstituteOfType("type", (type,), {"original": type}),
    "len": _len,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "print": print_text,
    "set": _SET,
    "sorted": _in_order,
}
"""The substitutes for Python's built-in functions, by name."""

TYPES: Mapping[str, Any] = {
    name: _substitute(kind, _scalar(kind), _cast(kind))
    for name in ("bool_", "float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "intp")
    for kind in [getattr(np, name)]
}
"""The substitutes for types of NumPy, by name."""


def _numpy_integer(x: Any) -> Any:
    """Return the larger or smaller of two numbers as NumPy returns it: an integer is one of 64 bits."""
    return x if isinstance(x, float) else _scalar(np.int64)(x)


NUMPY: Mapping[str, Any] = {
    **TYPES,
    "floor": _rounding("floor", lambda x: SizeReal.of(math.floor(x)).double()),
    "ceil": _rounding("ceil", lambda x: SizeReal.of(math.ceil(x)).double()),
    "rint": _rounding("rint", lambda x: SizeReal.of(round(x)).double()),
    "round": _rounding("round", lambda x: SizeReal.of(round(x)).double()),
    "sqrt": _rounding("sqrt", lambda x: _to_float(x).sqrt().double()),
    "maximum": _rounding("maximum", lambda a, b: _numpy_integer(extreme("max", a, b))),
    "minimum": _rounding("minimum", lambda a, b: _numpy_integer(extreme("min", a, b))),
    "prod": _prod,
    "broadcast_shapes": _broadcast_shapes,
    "broadcast_to": _broadcast_to,
    "indices": _indices,
    **{f.__name__: _sized_by(f) for f in (np.tile, np.repeat, np.resize)},
}
"""The substitutes for functions and types of NumPy, by name."""
