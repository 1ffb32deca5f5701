"""The second attempt: run the user's function with a substitute for NumPy.

The functions of the substitute that create arrays, such as np.zeros, return traced arrays, so that traced arrays
can be written to them. The user's function runs as a copy with other globals; the user's modules are not changed.
"""

from __future__ import annotations

import builtins
import copy
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from anylayer.errors import call_contained
from anylayer.graph.guards import traces_symbolically
from anylayer.tracing import substitution_symbolic
from anylayer.tracing.array import TracedArray
from anylayer.tracing.dispatch import FUNCTIONS, call_function, traced_in
from anylayer.tracing.rules import concatenation, creation

Function = Callable[..., Any]
_active: ContextVar[Substitution | None] = ContextVar("substitution", default=None)


class NumpySubstitute(types.ModuleType):
    """NumPy, except for functions that create arrays and functions that accept a list of arrays as an array."""

    def __init__(self, symbolic: bool) -> None:
        super().__init__("numpy")
        self.substitutes = {**creation.CREATION, **(substitution_symbolic.NUMPY if symbolic else {})}
        self.__dict__.update(self.substitutes)

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if found in (np.linalg, np.lib):
            return found
        if callable(found) and not isinstance(found, (type, np.ufunc)) and found in FUNCTIONS:
            found = _accepting_lists(found)
        self.__dict__[name] = found
        return found


_FIRST_IS_LIST = frozenset(
    {np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack, np.block, np.meshgrid, np.select}
)


def _accepting_lists(function: Function) -> Function:
    """Return a function that also accepts a list of traced arrays, or a traced array as a later argument.

    NumPy does not call __array_function__ for such arguments.
    """

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        listed = args and function not in _FIRST_IS_LIST and type(args[0]) in (list, tuple)
        if listed and next(traced_in(args[0]), None) is not None:
            args = (concatenation.array_like(args[0]), *args[1:])
        if function in (np.take, np.full_like, np.repeat) and next(traced_in(list(args)), None) is not None:
            return call_function(function, (creation.asarray(args[0]), *args[1:]), kwargs)
        return function(*args, **kwargs)

    return wrapper


_OURS = ("anylayer.layers.", "anylayer.ops.", "anylayer.cli.preprocess")
"""The modules of anylayer whose functions see the substitute if sizes are symbolic."""


class Substitution:
    """Copies of functions that see the substitute instead of NumPy. Each module has one set of copied globals."""

    def __init__(self) -> None:
        self.symbolic = traces_symbolically()
        self.numpy = NumpySubstitute(self.symbolic)
        self._globals: dict[int, dict[str, Any]] = {}
        self._copies: dict[int, tuple[Function, Function]] = {}

    def value(self, x: Any) -> Any:
        """Return the replacement of a value that the user's code refers to, or the value itself."""
        if x is np:
            return self.numpy
        name = getattr(x, "__name__", "") if callable(x) else ""
        if name in self.numpy.substitutes and getattr(np, name) is x:
            return self.numpy.substitutes[name]
        return self.function(x) if isinstance(x, types.FunctionType) else x

    def function(self, f: types.FunctionType) -> Function:
        """Return a copy of a user's Python function that sees the substitute.

        A function of an installed package or of the standard library is returned as it is.
        """
        if not self.sees(f):
            return f
        seen = self._module(f.__globals__)
        entry = self._copies.get(id(f))
        if entry is None:
            copied = types.FunctionType(f.__code__, seen, f.__name__, f.__defaults__, f.__closure__)
            entry = self._copies[id(f)] = f, copied
            if f.__closure__:
                cells = tuple(self._cell(c) for c in f.__closure__)
                copied = types.FunctionType(f.__code__, seen, f.__name__, f.__defaults__, cells)
            copied.__kwdefaults__, copied.__module__ = f.__kwdefaults__, f.__module__
            entry = self._copies[id(f)] = f, copied
        return entry[1]

    def sees(self, f: types.FunctionType) -> bool:
        """Return whether the copy of a function sees the substitute: user code, with symbolic sizes also
        anylayer's.
        """
        return _is_users_function(f) or (self.symbolic and (f.__module__ or "").startswith(_OURS))

    def _cell(self, cell: types.CellType) -> types.CellType:
        try:
            content = cell.cell_contents
        except ValueError:
            return cell
        new = self.value(content)
        return cell if new is content else types.CellType(new)

    def _module(self, original: dict[str, Any]) -> dict[str, Any]:
        copied = self._globals.get(id(original))
        if copied is None:
            copied = self._globals[id(original)] = dict(original)
            symbolic = substitution_symbolic.BUILTINS if self.symbolic else {}
            copied["__builtins__"] = {**vars(builtins), **symbolic, "__import__": self._import}
            for name, x in original.items():
                if not name.startswith("__"):
                    copied[name] = self.value(x)
        return copied

    def globals_of(self, original: dict[str, Any]) -> dict[str, Any]:
        """Return the globals that the copies of a module's functions see, or `original` if there are no copies."""
        return self._globals.get(id(original), original)

    def _import(self, name: str, *args: Any, **kwargs: Any) -> Any:
        found = builtins.__import__(name, *args, **kwargs)
        return self.numpy if found is np else found

    def call_method(self, bound: types.MethodType, args: tuple[Any, ...]) -> Any:
        """Call a bound method on a copy of its instance.

        The methods of the copy are substituted too, and its arrays are traced constants that cannot be written to.
        Attributes that the call sets on the copy are set on the instance.
        """
        instance = bound.__self__
        if isinstance(instance, type) or not hasattr(instance, "__dict__"):
            return self.value(bound.__func__)(instance, *args)
        clone = copy.copy(instance)
        attributes = {name: _constant(x, f"self.{name}") for name, x in vars(instance).items()}
        found = {*attributes}
        for cls in type(instance).__mro__:
            for name, x in vars(cls).items():
                if name not in found and not name.startswith("__"):
                    found.add(name)
                    f = x.__func__ if isinstance(x, staticmethod) else x
                    if isinstance(f, types.FunctionType) and self.sees(f):
                        new = self.function(f)
                        attributes[name] = new if isinstance(x, staticmethod) else types.MethodType(new, clone)
        vars(clone).update(attributes)
        result = self.value(bound.__func__)(clone, *args)
        for name, x in vars(clone).items():
            if x is not attributes.get(name, _ABSENT):
                setattr(instance, name, x)
        return result


_ABSENT = object()


def _is_users_function(f: types.FunctionType) -> bool:
    root = (f.__module__ or "").split(".")[0]
    file = f.__code__.co_filename
    if root in ("numpy", "anylayer") or root in sys.stdlib_module_names:
        return False
    return "site-packages" not in file and "dist-packages" not in file


def _constant(x: Any, owner: str) -> Any:
    """Return an attribute with its arrays as traced constants."""
    if isinstance(x, np.ndarray) and not isinstance(x, TracedArray) and x.dtype.kind in "biuf":
        constant = creation.constant_array(x)
        constant._owner = owner
        return constant
    if type(x) in (list, tuple) and any(isinstance(v, np.ndarray) for v in x):
        return type(x)(_constant(v, owner) for v in x)
    return x


@contextmanager
def substitute_numpy() -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """Let call_user run copies of functions that see the substitute for NumPy, inside the context.

    Yields a function from a module's globals to the globals that the copies see.
    """
    active = Substitution()
    token = _active.set(active)
    try:
        yield active.globals_of
    finally:
        _active.reset(token)


def substituted(function: Function) -> Function:
    """Return the copy of one of our functions that keeps symbolic sizes, or the function itself outside a symbolic
    trace."""
    active = _active.get()
    return function if active is None or not active.symbolic else active.value(function)


def call_user(function: Function, *args: Any) -> Any:
    """Call a user's function, or in a second attempt its copy. Raises Stopped if it ends the program."""
    active = _active.get()
    if active is None:
        return call_contained(function, *args)
    if isinstance(function, types.MethodType):
        return call_contained(active.call_method, function, args)
    return call_contained(active.value(function), *args)
