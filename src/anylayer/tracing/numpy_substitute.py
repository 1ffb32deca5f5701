"""The substitute for NumPy in code that is traced a second time: see substitution."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from anylayer.network import Function
from anylayer.tracing import substitution_symbolic
from anylayer.tracing.dispatch import FUNCTIONS, UFUNCS, call_function, traced_in
from anylayer.tracing.grown import GrownList
from anylayer.tracing.rules import concatenation, creation, strides


class NumpySubstitute(types.ModuleType):
    """NumPy, except for functions that create arrays and functions that accept a list of arrays as an array."""

    def __init__(self, symbolic: bool) -> None:
        super().__init__("numpy")
        numbers = substitution_symbolic.NUMPY if symbolic else substitution_symbolic.TYPES
        self.substitutes = {**creation.CREATION, **numbers}
        self.__dict__.update(self.substitutes)
        self.lib = strides.LIB
        self.r_, self.c_ = concatenation.Joined(np.r_, 1), concatenation.Joined(np.c_, 2)

    def __getattr__(self, name: str) -> Any:
        member = getattr(np, name)
        if member is np.linalg:
            return member
        if isinstance(member, np.ufunc) and UFUNCS.find(member) is not None:
            member = _OfLists(member)
        if callable(member) and not isinstance(member, (type, np.ufunc)) and FUNCTIONS.find(member) is not None:
            member = _accepting_lists(member)
        self.__dict__[name] = member
        return member


class _OfLists:
    """A ufunc that also accepts lists of traced arrays, as does its method `reduce`."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc: Function = ufunc
        self.reduce_array: Function = ufunc.reduce

    def __getattr__(self, name: str) -> object:
        return getattr(self.ufunc, name)

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.ufunc(*map(_array_of_list, args), **kwargs)

    def reduce(self, array: object, *args: object, **kwargs: object) -> object:
        return self.reduce_array(_array_of_list(array), *args, **kwargs)


def _array_of_list(x: object) -> object:
    is_list = type(x) in (list, tuple) and next(traced_in(x), None) is not None
    return concatenation.array_like(x) if is_list else x


_FIRST_IS_LIST = frozenset(
    {np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack, np.block, np.meshgrid, np.select}
)


def _accepting_lists(function: Function) -> Function:
    """Return a function that also accepts a list of traced arrays, or a traced array as a later argument.

    NumPy does not call __array_function__ for such arguments.
    """

    def wrapper(*args: Any, **kwargs: Any) -> object:
        if args and type(args[0]) is GrownList and function in _FIRST_IS_LIST:
            return args[0].join(function, *args[1:], **kwargs)
        args = (creation.array(args[0]), *args[1:]) if args and type(args[0]) is GrownList else args
        listed = args and function not in _FIRST_IS_LIST and type(args[0]) in (list, tuple)
        if listed and next(traced_in(args[0]), None) is not None:
            args = (concatenation.array_like(args[0]), *args[1:])
        if function in (np.take, np.full_like, np.repeat) and next(traced_in(list(args)), None) is not None:
            return call_function(function, (creation.asarray(args[0]), *args[1:]), kwargs)
        return function(*args, **kwargs)

    return wrapper
