"""The second attempt: run copies of the user's functions, classes and objects that see a substitute for NumPy.

The functions of the substitute that create arrays, such as np.zeros, return traced arrays, so that traced arrays
can be written to them. The arrays of the user's objects and modules become traced constants, so that traced arrays
can index them. The originals are not changed.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
import sys
import types
from abc import ABCMeta
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from anylayer import tracing
from anylayer.errors import call_contained
from anylayer.graph.guards import traces_symbolically
from anylayer.graph.ir import Graph
from anylayer.graph.symbolic import as_index
from anylayer.network import Function
from anylayer.tracing import packages, substitution_symbolic
from anylayer.tracing.array import TracedArray
from anylayer.tracing.decisions import changed_functions, changes_code
from anylayer.tracing.numpy_substitute import NumpySubstitute
from anylayer.tracing.python_numbers import MATH, PythonNumber
from anylayer.tracing.reach import is_opaque, names_in, package_of
from anylayer.tracing.record import counterparts, current_graph
from anylayer.tracing.rules import strides

T = TypeVar("T")


_MATH = types.SimpleNamespace(**{**vars(math), **{f.__name__: rule for f, rule in MATH.items()}})
_PARTS = (
    (math, _MATH),
    (operator, types.SimpleNamespace(**{**vars(operator), "index": as_index})),
    (operator.index, as_index),
    (np.lib, strides.LIB),
    (np.lib.stride_tricks, strides.TRICKS),
    (np.lib.stride_tricks.as_strided, strides.as_strided),
)
"""The modules math and operator, and members of NumPy that are found by other names than their own, with their
substitutes."""
_OURS = ("anylayer.layers.", "anylayer.ops.", "anylayer.images.")
"""The modules of anylayer whose functions see the substitute if sizes are symbolic."""


_ATOMS = frozenset(
    (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented), range, slice)
)
_OWN_ATTRIBUTES = frozenset(("__dict__", "__weakref__", "__slots__", "__init_subclass__", "_abc_impl"))
"""Attributes of a class that its counterpart makes itself, or must not have."""
_INITIAL = ("__module__", "__qualname__", "__doc__", "__slots__", "__orig_bases__")
"""Attributes that a class must have when it is made."""
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_HEAP_TYPE = 1 << 9
"""The flag of a class that a class statement made."""
_MAX_ATOMS = 10_000
"""The largest number of numbers and strings in a list that is copied."""
_UNNAMED = "a NumPy array outside the function"
_ABSENT = object()
_WORLD = "<counterparts>"
"""The key under which the globals of a copied module hold the Counterparts. No name can be equal to it."""


class _UsersModule(types.ModuleType):
    """The counterpart of a user's module. An attribute gets its counterpart when it is first read."""

    def __getattribute__(self, name: str) -> Any:
        space = super().__getattribute__("__dict__")
        if _WORLD in space:
            space[_WORLD].fill(space, (name,))
        return super().__getattribute__(name)


class Counterparts:
    """The counterparts of everything that the user's code can reach, made when it is reached.

    A counterpart of a function, class, instance, module or container is a copy that refers to counterparts only.
    The counterpart of an array is a traced constant that cannot be written to, that of NumPy is the substitute,
    and that of anything else is the object itself. Everything has one counterpart, so that identity and shared
    state are kept.
    """

    def __init__(self) -> None:
        self.symbolic = traces_symbolically()
        self.numpy = NumpySubstitute(self.symbolic)
        self._builtins = {
            **vars(builtins),
            **substitution_symbolic.BUILTINS,
            **(tracing.joined_ifs.builtins_of_changed_code() if changes_code() else {}),
            "__import__": self._import,
        }
        self._made: dict[int, tuple[Any, Any]] = {}
        self._spaces: dict[int, tuple[dict[str, Any], _UsersModule]] = {}
        self._filled: dict[int, set[str]] = {}
        self._copies: set[int] = set()
        self._attributes: dict[int, dict[str, Any]] = {}
        self._waiting: list[Callable[[], None]] = []
        self._working = False
        self._constants: list[TracedArray] = []
        self._graph = current_graph.get() or Graph("", "")

    def call(self, function: Function, args: tuple[Any, ...]) -> Any:
        """Call the counterpart of a function. Attributes that a method sets are set on its instance too."""
        graph = current_graph.get()
        if graph is not None and graph is not self._graph:
            self._graph = graph
            for constant in self._constants:
                constant._graph = graph
        target = function.__self__ if isinstance(function, types.MethodType) else None
        clone = self.of(target)
        if clone is target or isinstance(target, type) or not hasattr(target, "__dict__"):
            return call_contained(self.of(function), *args)
        before = self._attributes.get(id(target), vars(target))
        vars(clone).update({n: self.of(x, f"self.{n}") for n, x in vars(target).items() if x is not before.get(n)})
        before = dict(vars(clone))
        try:
            return call_contained(self.of(function), *args)
        finally:
            for name, x in vars(clone).items():
                current: Any = vars(target).get(name)
                if type(x) in (list, dict) and type(current) is type(x) and self._is_plain(x):
                    current.clear()
                    (current.extend if type(x) is list else current.update)(x)
                elif x is not before.get(name, _ABSENT) and self._is_plain([x]):
                    setattr(target, name, x)
            self._attributes[id(target)] = dict(vars(target))

    def _is_plain(self, items: Any) -> bool:
        """Return whether neither the items nor their classes are traced arrays or copies."""
        values = items.values() if type(items) is dict else items
        return all(
            type(v) not in (TracedArray, PythonNumber) and self._copies.isdisjoint((id(v), id(type(v))))
            for v in values
        )

    def of(self, x: Any, label: str = _UNNAMED) -> Any:
        """Return the counterpart of an object. `label` names an array in messages."""
        if type(x) in _ATOMS:
            return x
        pair = self._made.get(id(x))
        if pair is not None:
            return pair[1]
        if self._working:
            return self._make(x, label)
        self._working = True
        try:
            new = self._make(x, label)
            while self._waiting:
                self._waiting.pop()()
            return new
        finally:
            self._working = False
            self._waiting.clear()

    def _keep(self, x: Any, new: T) -> T:
        """Remember the counterpart of `x`, which is its own counterpart."""
        self._made[id(x)] = x, new
        self._made[id(new)] = new, new
        if new is not x:
            self._copies.add(id(new))
        return new

    def _make(self, x: Any, label: str) -> Any:
        kind = type(x)
        if x is np:
            return self.numpy
        for original, substitute in _PARTS:
            if x is original:
                return substitute
        if kind is types.BuiltinFunctionType and x in MATH:
            return MATH[x]
        name = getattr(x, "__name__", "") if callable(x) else ""
        if name in self.numpy.substitutes and getattr(np, name) is x:
            return self.numpy.substitutes[name]
        package = packages.substitute_for(x)
        if package is not None:
            return self._keep(x, package)
        make = _KINDS.get(kind)
        if make is not None:
            return make(self, x, label)
        if isinstance(x, type):
            return self._class(x)
        if isinstance(x, types.ModuleType):
            return self._module(vars(x)) if _is_users_module(x) else x
        return self._instance(x, label)

    # -------------------------------------------------------------- functions

    def _function(self, f: types.FunctionType, label: str) -> Function:
        """Return a copy of a user's function that sees the substitute.

        Of a function of an installed package or of the standard library, only the functions in its closure are
        replaced: it may be a decorator's.
        """
        users, cells = self.sees(f), f.__closure__ or ()
        if not users:
            inner = [_content(c) for c in cells]
            if all(not callable(x) or self.of(x) is x for x in inner):
                return f
            new_cells = tuple(types.CellType(self.of(x)) if callable(x) else c for x, c in zip(inner, cells))
        else:
            new_cells = tuple(self._cell(c, name) for c, name in zip(cells, f.__code__.co_freevars))
        space = vars(self._module(f.__globals__)) if users else f.__globals__
        code = tracing.changed_code.with_changed_code(f.__code__) if users and changes_code() else f.__code__
        if code != f.__code__:
            changed_functions().add(f.__qualname__)
        new = types.FunctionType(code, space, f.__name__, None, new_cells or None)
        new.__qualname__, new.__module__, new.__doc__ = f.__qualname__, f.__module__, f.__doc__
        new.__annotations__ = f.__annotations__
        self._keep(f, new)

        def fill() -> None:
            what = f"a default of {f.__name__}()"
            new.__defaults__ = f.__defaults__ and tuple(self.of(x, what) for x in f.__defaults__)
            new.__kwdefaults__ = f.__kwdefaults__ and {k: self.of(x, what) for k, x in f.__kwdefaults__.items()}
            new.__dict__.update({k: self.of(x) for k, x in vars(f).items()})
            if users:
                self.fill(space, names_in(f.__code__))

        self._waiting.append(fill)
        return new

    def sees(self, f: types.FunctionType) -> bool:
        """Return whether the copy of a function sees the substitute: user code, with symbolic sizes also
        anylayer's.
        """
        users = package_of(f.__code__.co_filename) == ""
        return users or (self.symbolic and (f.__module__ or "").startswith(_OURS))

    def _cell(self, cell: types.CellType, name: str) -> types.CellType:
        if id(cell) in self._made:
            counterpart: types.CellType = self._made[id(cell)][1]
            return counterpart
        content = _content(cell)
        if content is _ABSENT:
            return cell
        new = self._keep(cell, types.CellType())
        self._waiting.append(lambda: setattr(new, "cell_contents", self.of(content, name)))
        return new

    def _method(self, x: types.MethodType, label: str) -> Any:
        return types.MethodType(self.of(x.__func__), self.of(x.__self__, label))

    def _wrapper(self, x: Any, label: str) -> Any:
        return self._keep(x, type(x)(self.of(x.__func__)))

    def _property(self, x: property, label: str) -> Any:
        return self._keep(x, property(self.of(x.fget), self.of(x.fset), self.of(x.fdel)))

    def _cached_property(self, x: Any, label: str) -> Any:
        new = self._keep(x, functools.cached_property(self.of(x.func)))
        new.attrname = x.attrname
        return new

    def _partial(self, x: functools.partial[Any], label: str) -> Any:
        args, keywords = [self.of(a) for a in x.args], {k: self.of(a) for k, a in x.keywords.items()}
        return self._keep(x, functools.partial(self.of(x.func), *args, **keywords))

    def _cache(self, x: Any, label: str) -> Any:
        """Return the counterpart of a function with functools.lru_cache, without what it has cached."""
        return self._keep(x, functools.lru_cache(**x.cache_parameters())(self.of(x.__wrapped__)))

    # ------------------------------------------------- modules, classes, objects

    def _module(self, original: dict[str, Any]) -> _UsersModule:
        pair = self._spaces.get(id(original))
        if pair is None:
            module = _UsersModule(str(original.get("__name__", "")))
            space = vars(module)
            space.update(original)
            space["__builtins__"] = self._builtins
            self._filled[id(space)] = set()
            pair = self._spaces[id(original)] = original, module
            self._spaces[id(space)] = original, module
            space[_WORLD] = self
        return pair[1]

    def fill(self, space: dict[str, Any], names: Iterable[str]) -> None:
        """Put counterparts in the place of the globals that have these names."""
        filled, original = self._filled[id(space)], self._spaces[id(space)][0]
        for name in names:
            if name not in filled and not name.startswith("__"):
                filled.add(name)
                if name in space or name in original:  # a submodule may have been imported later
                    space[name] = self.of(space[name] if name in space else original[name], name)

    def _import(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.of(builtins.__import__(name, *args, **kwargs))

    def _class(self, cls: type) -> type:
        """Return a copy of a user's class, or the class itself.

        It is made without its attributes, which follow later, so that no code of the user runs.
        """
        if type(cls) not in (type, ABCMeta) or not self._is_users_class(cls):
            return self._keep(cls, cls)
        bases = tuple(map(self.of, cls.__bases__))
        try:
            new = type(cls)(cls.__name__, bases, {k: vars(cls)[k] for k in _INITIAL if k in vars(cls)})
        except Exception:  # a base of an installed package does not allow it
            return self._keep(cls, cls)
        self._keep(cls, new)

        def fill() -> None:
            for name, x in list(vars(cls).items()):
                if name not in _OWN_ATTRIBUTES and name not in _INITIAL and not isinstance(x, _DESCRIPTORS):
                    setattr(new, name, self.of(x, f"{cls.__name__}.{name}"))

        self._waiting.append(fill)
        return new

    def _is_users_class(self, cls: type) -> bool:
        """Return whether a class, or one that it inherits from, is in a user's module or has a user's function."""
        functions = (x for base in cls.__mro__ for x in map(_plain_function, vars(base).values()) if x is not None)
        modules = (sys.modules.get(base.__module__) for base in cls.__mro__ if base.__flags__ & _HEAP_TYPE)
        return any(map(self.sees, functions)) or any(m is not None and _is_users_module(m) for m in modules)

    def _instance(self, x: Any, label: str) -> Any:
        """Return a copy of an instance of a user's class, or the instance itself."""
        cls = self.of(type(x))
        if (cls is type(x) and cls is not types.SimpleNamespace) or hasattr(cls, "__del__"):
            return self._keep(x, x)
        builtin = next(base for base in cls.__mro__ if base.__flags__ & _HEAP_TYPE == 0)
        if builtin not in (object, tuple, list, dict, types.SimpleNamespace):
            return self._keep(x, x)
        items = [self.of(v, label) for v in x] if builtin is tuple else ()
        new = self._keep(x, builtin.__new__(cls, *([items] if builtin is tuple else [])))
        self._attributes[id(x)] = dict(getattr(x, "__dict__", {}))

        def fill() -> None:
            if isinstance(x, list):
                list.extend(new, [self.of(v, label) for v in x])
            elif isinstance(x, dict):
                dict.update(new, {k: self.of(v, label) for k, v in x.items()})
            for name, value in list(getattr(x, "__dict__", {}).items()):
                vars(new)[name] = self.of(value, f"self.{name}")
            for name, slot in _slots(cls):
                if hasattr(x, name):
                    slot.__set__(new, self.of(getattr(x, name), f"self.{name}"))

        self._waiting.append(fill)
        return new

    def _array(self, x: np.ndarray[Any, Any], label: str) -> Any:
        if x.dtype.kind not in "biuf":
            return x
        constant = TracedArray(self._graph, x)
        constant._owner = label
        self._constants.append(constant)
        return self._keep(x, constant)

    # ------------------------------------------------------------- containers

    def _tuple(self, x: Any, label: str) -> Any:
        items = [self.of(v, f"{label}[{i}]") for i, v in enumerate(x)]
        return x if all(a is b for a, b in zip(items, x)) else self._keep(x, type(x)(items))

    def _list(self, x: Any, label: str) -> Any:
        if len(x) > _MAX_ATOMS and all(type(v) in _ATOMS for v in x):
            return x
        new: Any = self._keep(x, deque(maxlen=x.maxlen) if type(x) is deque else type(x)())
        add = new.add if type(x) is set else new.append

        def fill() -> None:
            for i, v in enumerate(list(x)):
                add(self.of(v, f"{label}[{i}]"))

        self._waiting.append(fill)
        return new

    def _dict(self, x: Any, label: str) -> Any:
        new = self._keep(x, defaultdict(self.of(x.default_factory)) if type(x) is defaultdict else type(x)())
        self._waiting.append(
            lambda: new.update({self.of(k): self.of(v, f"{label}[{k!r}]") for k, v in list(x.items())})
        )
        return new


_KINDS: dict[type, Callable[[Counterparts, Any, str], Any]] = {
    types.FunctionType: Counterparts._function,
    types.MethodType: Counterparts._method,
    staticmethod: Counterparts._wrapper,
    classmethod: Counterparts._wrapper,
    property: Counterparts._property,
    functools.cached_property: Counterparts._cached_property,
    functools.partial: Counterparts._partial,
    type(functools.lru_cache(len)): Counterparts._cache,
    np.ndarray: Counterparts._array,
    **dict.fromkeys((tuple, frozenset), Counterparts._tuple),
    **dict.fromkeys((list, set, deque), Counterparts._list),
    **dict.fromkeys((dict, OrderedDict, defaultdict), Counterparts._dict),
}
"""Type of an object -> the method that makes its counterpart."""


def _content(cell: types.CellType) -> Any:
    """Return what a cell holds, or _ABSENT."""
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _slots(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the names and descriptors of the attributes that a class keeps outside of its __dict__."""
    for base in cls.__mro__:
        yield from (
            (name, x)
            for name, x in vars(base).items()
            if isinstance(x, types.MemberDescriptorType) and name != "__dict__"
        )


def _plain_function(x: Any) -> types.FunctionType | None:
    """Return the function of an attribute of a class, or None if it is none."""
    if isinstance(x, (staticmethod, classmethod)):
        x = x.__func__
    elif isinstance(x, property):
        x = x.fget
    return x if isinstance(x, types.FunctionType) else None


def _is_users_module(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return not is_opaque(module.__name__) if file is None else package_of(file) == ""


@contextmanager
def substitute_numpy() -> Iterator[Callable[[Any], Any]]:
    """Let call_user run counterparts of functions, which see the substitute for NumPy, inside the context.

    Yields a function that returns the counterpart of an object.
    """
    active = Counterparts()
    token = counterparts.set(active)
    try:
        yield active.of
    finally:
        counterparts.reset(token)
