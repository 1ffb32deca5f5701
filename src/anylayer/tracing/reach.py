"""Reachability: the functions that a call of the user's object may run, and the objects that they may change."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from anylayer.tracing.array import TracedArray

_MAX_FUNCTIONS = 500
"""The largest number of functions that are inspected. Only libraries have more."""
_MAX_OBJECTS = 5000
"""The largest number of objects that are inspected."""
_BY_NAME_ONLY = ("__init__", "__new__", "__dict__", "__weakref__")
"""Attributes of a class that are inspected only if the code mentions their names."""
_ENTRY_METHODS = frozenset(("forward", "__call__"))
_OPAQUE = ("numpy", "scipy", "anylayer", "cv2", "torch", "tensorflow", "jax", "onnx", "onnxruntime", "openvino")
_SKIPPED_FOLDERS = (str(Path(np.__file__).parent) + os.sep, str(Path(__file__).parents[1]) + os.sep)
STDLIB = sysconfig.get_path("stdlib") + os.sep
_BYPASSES = frozenset((
    "at", "setflags", "writeable", "base", "ctypes", "__array_interface__", "from_buffer", "from_address",
    "as_array",
))  # fmt: skip
"""Names of functions and attributes that bypass the write protection of an array.

`at` is among them because np.add.at writes to read-only arrays (NumPy 2.4).
"""
_WARNING_FILTERS = frozenset(("catch_warnings", "simplefilter", "filterwarnings"))
_RAISE_OR_RECORD = frozenset(("error", "record"))


class Reach:
    """The objects and functions that a call of `subject` can reach.

    `entry` holds the names of the methods that are called from outside.

    `uses_shared_generator` is true if a random number generator of the process may be
    used. `getters` maps the name of each object that outlives a call to a function that returns the object,
    `places` the name of each global, and of each variable of a closure, to the dict or cell that holds it and the
    key or attribute there. `classes` are the user's classes.
    `names` holds the identifiers that the code mentions. `functions` is the number of functions inspected, and
    `files` are the files that hold them.
    """

    def __init__(self, subject: Any, entry: Iterable[str] = _ENTRY_METHODS) -> None:
        self.uses_shared_generator = False
        self.names: set[str] = set(entry)
        self.getters: dict[str, Callable[[], Any]] = {}
        self.places: dict[str, tuple[object, str]] = {}
        self._seen: dict[int, Any] = {}
        self.classes: list[type] = []
        self._modules: list[types.ModuleType] = []
        self.functions = 0
        self.files: set[str] = set()
        self._waiting: list[tuple[Any, str]] = []
        self._visit(subject, "" if isinstance(subject, (types.FunctionType, types.MethodType)) else "self")
        self._follow()

    def add(self, name: str, x: Any) -> None:
        """Add an object that the code has in a variable."""
        self.getters[name] = lambda: x
        self._visit(x, "")
        self._follow()

    @property
    def is_complete(self) -> bool:
        """Whether all objects were inspected."""
        return len(self._seen) < _MAX_OBJECTS

    @property
    def handles_warnings(self) -> bool:
        """Whether the code turns warnings into exceptions, or records them."""
        return not (_WARNING_FILTERS.isdisjoint(self.names) or _RAISE_OR_RECORD.isdisjoint(self.names))

    # --------------------------------------------------------------- objects

    def _visit(self, x: Any, label: str) -> None:
        """Queue an object for inspection. `label` names it if a call may change it, else it is ""."""
        if type(x) is not TracedArray and id(x) not in self._seen and len(self._seen) < _MAX_OBJECTS:
            self._seen[id(x)] = x
            self._waiting.append((x, label))

    def _follow(self) -> None:
        """Inspect queued objects, and the methods whose names occur in the code, until nothing new is found."""
        while self._waiting:
            while self._waiting:
                self._inspect(*self._waiting.pop())
            for cls in list(self.classes):
                for name, x in list(vars(cls).items()):
                    if name in self.names or (name.startswith("__") and name not in _BY_NAME_ONLY):
                        self._visit(x, "")
            for module in self._modules:
                space, opaque = vars(module), is_opaque(module.__name__)
                for name in [name for name in self.names if name in space]:
                    if not opaque or callable(space[name]) or isinstance(space[name], types.ModuleType):
                        self._global(name, space, "" if opaque else f"{module.__name__}.{name}")

    def _inspect(self, x: Any, label: str) -> None:
        self.uses_shared_generator = self.uses_shared_generator or _may_use_shared_generator(x)
        if isinstance(x, types.MethodType):
            self._visit(x.__self__, label or "self")
            self._visit(x.__func__, "")
        elif isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, (staticmethod, classmethod, functools.partial, property)):
            for inner in _inside(x):
                self._visit(inner, label)
        elif isinstance(x, type):
            self._class(x)
        elif callable(x) and hasattr(x, "__wrapped__"):
            self._visit(x.__wrapped__, label)
        elif isinstance(x, types.ModuleType):
            self._modules.append(x)
        elif not isinstance(x, (types.BuiltinFunctionType, np.ufunc)):
            self._instance(x, label)

    def _instance(self, x: Any, label: str) -> None:
        if label:
            self.getters.setdefault(label, lambda: x)
        self._class(type(x))
        for inner in _parts(x):
            self._visit(inner, "")

    def _class(self, cls: type) -> None:
        for base in cls.__mro__:
            if base not in self.classes and is_users_class(base):
                self.classes.append(base)

    # -------------------------------------------------------------- functions

    def _function(self, f: types.FunctionType) -> None:
        if package_of(f.__code__.co_filename) is None or self.functions >= _MAX_FUNCTIONS:
            return
        self.functions += 1
        self.files.add(f.__code__.co_filename)
        names = names_in(f.__code__)
        self.names |= names
        for name in names:
            if name in f.__globals__:
                self._global(name, f.__globals__, name)
            elif name in sys.modules:  # imported inside the function
                self._visit(sys.modules[name], "")
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            label = f"{name} of {f.__name__}"
            self.getters.setdefault(label, functools.partial(_cell, cell))
            self.places.setdefault(label, (cell, "cell_contents"))
            self._visit(_cell(cell), "")
        for default in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            self._visit(default, f"a default of {f.__name__}()")
        if hasattr(f, "__wrapped__"):
            self._visit(f.__wrapped__, "")

    def _global(self, name: str, space: dict[str, Any], label: str) -> None:
        """Visit a global of a module, which a call may change if `label` names it."""
        x = space[name]
        if label and not isinstance(x, (types.ModuleType, type, types.FunctionType)):
            self.getters.setdefault(label, lambda: space.get(name))
            self.places.setdefault(label, (space, name))
        self._visit(x, "")


@dataclass(frozen=True, slots=True)
class CodeTraits:
    """Properties of the code of a class that its callers need to know.

    `writes`: the code mentions a way to write to a read-only array, or cannot be inspected. `handles_warnings`: it
    turns warnings into exceptions, or records them, so that NumPy must emit its warnings.
    """

    writes: bool
    handles_warnings: bool


@functools.lru_cache(maxsize=256)
def code_traits(cls: Any) -> CodeTraits:
    """Return the traits of the code of a class, or of a function that creates an instance."""
    reach = Reach(cls, entry=dir(cls) if isinstance(cls, type) else ())
    return CodeTraits(not reach.functions or not _BYPASSES.isdisjoint(reach.names), reach.handles_warnings)


def _may_use_shared_generator(x: Any) -> bool:
    """Return whether a call of `x` may use a random number generator of the process.

    That is assumed of everything outside NumPy, OpenCV, this package and the standard library, of the methods of
    generators, and of the modules `random` and `numpy.random`.
    """
    if isinstance(x, types.ModuleType):
        return x.__name__ in ("random", "numpy.random")
    module = getattr(x, "__module__", None) or ""
    if not isinstance(module, str) or not callable(x) or isinstance(x, np.ufunc):
        return False
    owner = type(getattr(x, "__self__", None))
    if owner.__module__.startswith(("random", "numpy.random")):
        return True
    root = module.split(".")[0]
    return root not in ("numpy", "anylayer", "builtins", "cv2", "math", "") and not _is_stdlib(root)


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _inside(x: Any) -> Iterator[Any]:
    """Yield the functions and arguments wrapped by a partial, property, static or class method."""
    if isinstance(x, functools.partial):
        yield from (x.func, *x.args, *x.keywords.values())
    elif isinstance(x, property):
        yield from (f for f in (x.fget, x.fset) if f is not None)
    else:
        yield x.__func__


def _parts(x: Any) -> Iterator[Any]:
    """Yield the objects inside `x` that may be functions, or may contain functions."""
    if isinstance(x, dict):
        yield from (v for v in list(x.values())[:1000] if not isinstance(v, (int, float, str, np.ndarray)))
    elif isinstance(x, (list, tuple, set, frozenset)):
        yield from (v for v in list(x)[:1000] if not isinstance(v, (int, float, str, np.ndarray)))
    elif is_users_class(type(x)):
        yield from (v for v in list(getattr(x, "__dict__", {}).values()) if not isinstance(v, np.ndarray))


def class_data(cls: type) -> dict[str, Any]:
    """Return the attributes of a class that are data."""
    return {
        name: x
        for name, x in vars(cls).items()
        if not name.startswith("__")
        and not callable(x)
        and not isinstance(x, (staticmethod, classmethod, property))
        and not hasattr(type(x), "__get__")
    }


def _is_stdlib(root: str) -> bool:
    return root in sys.stdlib_module_names


def is_opaque(module: str) -> bool:
    """Return whether the functions of a module are not inspected."""
    root = module.split(".")[0]
    return root in _OPAQUE or _is_stdlib(root)


@functools.lru_cache(maxsize=1024)
def package_of(file: str) -> str | None:
    """Return the installed package that a code file belongs to.

    The result is "" for a file of no installed package, and None for a file that is not inspected.
    """
    if file.startswith((*_SKIPPED_FOLDERS, "<frozen")):
        return None
    for folder in ("site-packages", "dist-packages"):
        _, separator, rest = file.rpartition(f"{folder}{os.sep}")
        if separator:
            package = rest.partition(os.sep)[0]
            return None if package in _OPAQUE else package
    return None if file.startswith(STDLIB) else ""


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> frozenset[str]:
    """Return the names in a code object and in those nested in it: of globals, attributes, modules and keywords,
    and constant strings, which getattr may take as names."""
    constants = [c for constant in code.co_consts for c in (constant if type(constant) is tuple else (constant,))]
    names = {*code.co_names, *(c for c in constants if type(c) is str and c.isidentifier())}
    nested = (names_in(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return frozenset(names.union(*nested))


_users_classes: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def is_users_class(cls: type[Any]) -> bool:
    """Return whether a class has a method, perhaps inherited, that does not belong to an installed package, or is
    defined outside of all packages.
    """
    if cls not in _users_classes:
        functions = (x for base in cls.__mro__ for x in vars(base).values() if isinstance(x, types.FunctionType))
        files = [f.__code__.co_filename for f in functions]
        files += [f for b in cls.__mro__ if (f := getattr(sys.modules.get(b.__module__), "__file__", None))]
        _users_classes[cls] = any(package_of(f) == "" for f in files)
    return _users_classes[cls]
