"""Reachability: the functions that a call of the user's object may run, and the objects that they may change.

It also finds uses of the clock and of random numbers that no seed determines.
"""

from __future__ import annotations

import builtins
import datetime
import functools
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.tracing.array import TracedArray
from anylayer.tracing.bytecode import Mentions, NameReference, mentions

_MAX_FUNCTIONS = 500
"""The largest number of functions that are inspected. Only libraries have more."""
_MAX_OBJECTS = 5000
"""The largest number of objects that are inspected."""
_BY_NAME_ONLY = ("__init__", "__new__", "__dict__", "__weakref__")
"""Attributes of a class that are inspected only if the code mentions their names."""
_ENTRY_METHODS = frozenset(("forward", "__call__"))
_OPAQUE = ("numpy", "scipy", "anylayer", "cv2", "torch", "tensorflow", "jax", "onnx", "onnxruntime", "openvino")
_SKIPPED_FOLDERS = (str(Path(np.__file__).parent) + os.sep, str(Path(__file__).parents[1]) + os.sep)
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_CLOCK = frozenset(
    [
        "time",
        "time_ns",
        "perf_counter",
        "perf_counter_ns",
        "monotonic",
        "monotonic_ns",
        "process_time",
        "process_time_ns",
        "thread_time",
        "thread_time_ns",
        "localtime",
        "gmtime",
        "ctime",
        "clock_gettime",
        "clock_gettime_ns",
    ]
)
_CLOCK_METHODS = frozenset(("now", "utcnow", "today"))
_GENERATORS = frozenset(
    [
        "default_rng",
        "Random",
        "RandomState",
        "SeedSequence",
        "PCG64",
        "PCG64DXSM",
        "MT19937",
        "Philox",
        "SFC64",
        "SystemRandom",
    ]
)
_BYPASSES = frozenset(
    [
        "at",
        "setflags",
        "writeable",
        "base",
        "ctypes",
        "__array_interface__",
        "from_buffer",
        "from_address",
        "as_array",
    ]
)
"""Names of functions and attributes that bypass the write protection of an array.

`at` is among them because np.add.at writes to read-only arrays (NumPy 2.4).
"""


_WARNING_FILTERS = frozenset(("catch_warnings", "simplefilter", "filterwarnings"))
_RAISE_OR_RECORD = frozenset(("error", "record"))


class Reach:
    """The objects and functions that a call of `subject` can reach.

    `globals_of` maps the globals of a function to the dict that its names are looked up in. `entry` holds
    the names of the methods that are called from outside.

    `unseeded` describes the first use of the clock or of an unseeded random number generator, as
    (what, place), or is None. `uses_shared_generator` is true if a random number generator of the process may be
    used. `getters` maps the name of each object that outlives a call to a function that returns the object.
    `names` holds the identifiers that the code mentions. `functions` is the number of functions inspected.
    """

    def __init__(
        self,
        subject: Any,
        globals_of: Callable[[dict[str, Any]], dict[str, Any]] = lambda space: space,
        entry: Iterable[str] = _ENTRY_METHODS,
    ) -> None:
        self.unseeded: tuple[str, str] | None = None
        self.uses_shared_generator = False
        self.names: set[str] = set(entry)
        self.getters: dict[str, Callable[[], Any]] = {}
        self._globals_of = globals_of
        self._seen: dict[int, Any] = {}
        self._classes: list[type] = []
        self.functions = 0
        self._waiting: list[tuple[Any, str]] = []
        self._visit(subject, "" if isinstance(subject, (types.FunctionType, types.MethodType)) else "self")
        self._follow()

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
            for cls in list(self._classes):
                for name, x in list(vars(cls).items()):
                    if name in self.names or (name.startswith("__") and name not in _BY_NAME_ONLY):
                        self._visit(x, "")

    def _inspect(self, x: Any, label: str) -> None:
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
        elif isinstance(x, (types.ModuleType, types.BuiltinFunctionType, np.ufunc)):
            return
        else:
            self._instance(x, label)

    def _instance(self, x: Any, label: str) -> None:
        if label:
            self.getters.setdefault(label, lambda: x)
        self._class(type(x))
        for inner in _parts(x):
            self._visit(inner, "")

    def _class(self, cls: type) -> None:
        for base in cls.__mro__:
            if base not in self._classes and is_users_class(base):
                self._classes.append(base)
                self.getters.setdefault(base.__name__, functools.partial(_class_state, base))

    # -------------------------------------------------------------- functions

    def _function(self, f: types.FunctionType) -> None:
        if not _is_inspected(f) or self.functions >= _MAX_FUNCTIONS:
            return
        self.functions += 1
        found = mentions(f.__code__)
        self.names |= found.names
        space = self._globals_of(f.__globals__)
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
        for reference in found.references:
            self._reference(reference, found, f, space, cells)
        for name, cell in cells.items():
            self.getters.setdefault(f"{name} of {f.__name__}", functools.partial(_cell, cell))
        for default in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            self._visit(default, f"a default of {f.__name__}()")
        if hasattr(f, "__wrapped__"):
            self._visit(f.__wrapped__, "")

    def _reference(
        self,
        reference: NameReference,
        found: Mentions,
        f: types.FunctionType,
        space: dict[str, Any],
        cells: dict[str, types.CellType],
    ) -> None:
        name, rest = reference.name, reference.attributes
        if reference.kind == "import":
            x = sys.modules.get(name)
            if isinstance(x, types.ModuleType) and not rest:  # `import m as n`: the uses of n are not followed
                used = (_CLOCK | _CLOCK_METHODS | {"urandom"}) & found.names
                for attribute in sorted(used, key=lambda a: a == name):
                    self._check_reproducible(getattr(x, attribute, None), False, f, reference.line)
        elif reference.kind == "cell":
            x = _cell(cells[name]) if name in cells else None
        else:
            x = space.get(name, getattr(builtins, name, None))
            if name in space and not isinstance(x, (types.ModuleType, type, types.FunctionType)):
                self.getters.setdefault(name, lambda: space.get(name))
        owner = None
        for i, attribute in enumerate(rest):
            if not isinstance(x, (types.ModuleType, type)):
                break
            if isinstance(x, types.ModuleType) and not _is_opaque(x.__name__):
                holder, own = vars(x), f"{x.__name__}.{attribute}"
                owner = (own, lambda holder=holder, attribute=attribute: holder.get(attribute))
            x = getattr(x, attribute, None)
            self._check_reproducible(x, reference.bare and i == len(rest) - 1, f, reference.line)
        self._check_reproducible(x, reference.bare, f, reference.line)
        if owner is not None and not isinstance(x, (types.ModuleType, type, types.FunctionType)):
            self.getters.setdefault(*owner)
        if x is not None:
            self._visit(x, "")

    def _check_reproducible(self, x: Any, bare: bool, f: types.FunctionType, line: int) -> None:
        """Set `unseeded` if each call of `x` has another result, and `uses_shared_generator` if it may use one."""
        if x is None:
            return
        self.uses_shared_generator = self.uses_shared_generator or _may_use_shared_generator(x)
        what = _unseeded(x, bare)
        if what and self.unseeded is None:
            self.unseeded = what, f"{Path(f.__code__.co_filename).name}:{line}"


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


def _unseeded(x: Any, bare: bool) -> str:
    """Return a description of a reference that gives a different result in each call, or ""."""
    name = getattr(x, "__name__", "")
    module = getattr(x, "__module__", None) or ""
    if module == "time" and name in _CLOCK:
        return f"time.{name} reads the clock"
    owner = getattr(x, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, datetime.date) and name in _CLOCK_METHODS:
        return f"{owner.__name__}.{name} reads the clock"
    if name in ("urandom", "getrandom") and module in ("posix", "nt", "os"):
        return f"os.{name} draws random numbers"
    if module in ("secrets", "uuid") and callable(x):
        return f"{module}.{name} draws random numbers"
    if bare and name in _GENERATORS and module.startswith(("random", "numpy.random")):
        return f"{name}() without a seed draws different random numbers in each call"
    return ""


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


def _class_state(cls: type) -> types.MappingProxyType[str, Any]:
    """Return the attributes of a class that are data."""
    data = {
        name: x
        for name, x in vars(cls).items()
        if not name.startswith("__")
        and not callable(x)
        and not isinstance(x, (staticmethod, classmethod, property))
        and not hasattr(type(x), "__get__")
    }
    return types.MappingProxyType(data)


def _is_stdlib(root: str) -> bool:
    return root in sys.stdlib_module_names


def _is_opaque(module: str) -> bool:
    """Return whether the functions of a module are not inspected."""
    root = module.split(".")[0]
    return root in _OPAQUE or _is_stdlib(root)


@functools.lru_cache(maxsize=1024)
def _package(file: str) -> str | None:
    """Return the installed package that a code file belongs to.

    The result is "" for a file of no installed package, and None for a file that is not inspected.
    """
    if file.startswith((*_SKIPPED_FOLDERS, "<frozen")):
        return None
    for folder in ("site-packages", "dist-packages"):
        _, found, rest = file.rpartition(f"{folder}{os.sep}")
        if found:
            package = rest.partition(os.sep)[0]
            return None if package in _OPAQUE else package
    return None if file.startswith(_STDLIB) else ""


def _is_inspected(f: types.FunctionType) -> bool:
    """Return whether the code of a function is inspected."""
    return _package(f.__code__.co_filename) is not None


def is_users_class(cls: type[Any]) -> bool:
    """Return whether a class has a method, perhaps inherited, that does not belong to an installed package."""
    key: Any = cls
    return bool(_has_users_method(key))


@functools.lru_cache(maxsize=1024)
def _has_users_method(cls: Any) -> bool:
    functions = (x for base in cls.__mro__ for x in vars(base).values() if isinstance(x, types.FunctionType))
    return any(_package(f.__code__.co_filename) == "" for f in functions)
