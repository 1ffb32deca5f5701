"""What a user's object can reach: the functions that a call of it may run, the objects that those may change, and
whether they read the clock or draw numbers that no seed determines."""

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
from anylayer.tracing.bytecode import Mentions, Reference, mentions

_FUNCTION_LIMIT = 500
"""Functions that are looked into at most; more belong to libraries."""
_OBJECT_LIMIT = 5000
"""Objects that are looked into at most."""
_BY_NAME_ONLY = ("__init__", "__new__", "__dict__", "__weakref__")
"""What is reached of a class only where the code names it."""
_ENTRY = frozenset(("forward", "__call__"))
_OPAQUE = ("numpy", "scipy", "anylayer", "cv2", "torch", "tensorflow", "jax", "onnx", "onnxruntime", "openvino")
_PLACES = (str(Path(np.__file__).parent) + os.sep, str(Path(__file__).parents[1]) + os.sep)
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
_NOW = frozenset(("now", "utcnow", "today"))
_SEEDED = frozenset(
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
_WRITING = frozenset(
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
"""Names by which code gets past the write protection of an array. `at` is NumPy's own: np.add.at writes into
read-only arrays (NumPy 2.4)."""


_FILTERS = frozenset(("catch_warnings", "simplefilter", "filterwarnings"))
_HEARD = frozenset(("error", "record"))


class Reach:
    """The objects and functions that a call of `subject` can reach.

    `globals_of` maps the globals of a function to the dict that its names are looked up in. `entry` holds
    the names of the methods that are called from outside.

    `unseeded` describes the first use of the clock or of an unseeded random number generator, as
    (what, place), or is None. `uses_shared_generator` is true if a random number generator of the process may be
    used. `state_getters` maps the name of each object that outlives a call to a function that returns the object.
    `names` holds the identifiers that the code mentions. `functions` is the number of functions inspected.
    """

    def __init__(
        self,
        subject: Any,
        globals_of: Callable[[dict[str, Any]], dict[str, Any]] = lambda space: space,
        entry: Iterable[str] = _ENTRY,
    ) -> None:
        self.unseeded: tuple[str, str] | None = None
        self.uses_shared_generator = False
        self.names: set[str] = set(entry)
        self.state_getters: dict[str, Callable[[], Any]] = {}
        self._globals_of = globals_of
        self._seen: dict[int, Any] = {}
        self._classes: list[type] = []
        self.functions = 0
        self._waiting: list[tuple[Any, str]] = []
        self._visit(subject, "" if isinstance(subject, (types.FunctionType, types.MethodType)) else "self")
        self._follow()

    @property
    def hears(self) -> bool:
        """Whether the code makes exceptions of warnings, or records them."""
        return not (_FILTERS.isdisjoint(self.names) or _HEARD.isdisjoint(self.names))

    # --------------------------------------------------------------- objects

    def _visit(self, x: Any, label: str) -> None:
        """Look into an object that the code reads; `label` names it where it may be changed by a call."""
        if type(x) is not TracedArray and id(x) not in self._seen and len(self._seen) < _OBJECT_LIMIT:
            self._seen[id(x)] = x
            self._waiting.append((x, label))

    def _follow(self) -> None:
        """Look into what waits, and into the methods that the code names, until nothing new is found."""
        while self._waiting:
            while self._waiting:
                self._look_into(*self._waiting.pop())
            for cls in list(self._classes):
                for name, x in list(vars(cls).items()):
                    if name in self.names or (name.startswith("__") and name not in _BY_NAME_ONLY):
                        self._visit(x, "")

    def _look_into(self, x: Any, label: str) -> None:
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
            self.state_getters.setdefault(label, lambda: x)
        self._class(type(x))
        for inner in _parts(x):
            self._visit(inner, "")

    def _class(self, cls: type) -> None:
        for base in cls.__mro__:
            if base not in self._classes and is_users_class(base):
                self._classes.append(base)
                self.state_getters.setdefault(base.__name__, lambda base=base: _class_state(base))  # type: ignore[misc]

    # -------------------------------------------------------------- functions

    def _function(self, f: types.FunctionType) -> None:
        if not _is_inspected(f) or self.functions >= _FUNCTION_LIMIT:
            return
        self.functions += 1
        found = mentions(f.__code__)
        self.names |= found.names
        space = self._globals_of(f.__globals__)
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
        for reference in found.references:
            self._reference(reference, found, f, space, cells)
        for name, cell in cells.items():
            self.state_getters.setdefault(f"{name} of {f.__name__}", lambda cell=cell: _cell(cell))  # type: ignore[misc]
        for default in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            self._visit(default, f"a default of {f.__name__}()")
        if hasattr(f, "__wrapped__"):
            self._visit(f.__wrapped__, "")

    def _reference(
        self,
        reference: Reference,
        found: Mentions,
        f: types.FunctionType,
        space: dict[str, Any],
        cells: dict[str, types.CellType],
    ) -> None:
        name, rest = reference.name, reference.attributes
        if reference.kind == "import":
            x = sys.modules.get(name)
            if isinstance(x, types.ModuleType) and not rest:  # under a name of its own, which is not followed
                for attribute in sorted((_CLOCK | _NOW | {"urandom"}) & found.names, key=lambda a: a == name):
                    self._check_reproducible(getattr(x, attribute, None), False, f, reference.line)
        elif reference.kind == "cell":
            x = _cell(cells[name]) if name in cells else None
        else:
            x = space.get(name, getattr(builtins, name, None))
            if name in space and not isinstance(x, (types.ModuleType, type, types.FunctionType)):
                self.state_getters.setdefault(name, lambda: space.get(name))
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
            self.state_getters.setdefault(*owner)
        if x is not None:
            self._visit(x, "")

    def _check_reproducible(self, x: Any, bare: bool, f: types.FunctionType, line: int) -> None:
        """Note what gives other results in each call whatever it is given."""
        if x is None:
            return
        self.uses_shared_generator = self.uses_shared_generator or _may_use_shared_generator(x)
        what = _unseeded(x, bare)
        if what and self.unseeded is None:
            self.unseeded = what, f"{Path(f.__code__.co_filename).name}:{line}"


@dataclass(frozen=True, slots=True)
class Habits:
    """What the code of a class does that those who call it have to know.

    `writes`: it mentions a way to write into a read-only array, or cannot be looked into. `hears`: it makes
    exceptions of warnings, or records them, so NumPy must give its warnings.
    """

    writes: bool
    hears: bool


@functools.lru_cache(maxsize=256)
def habits(cls: Any) -> Habits:
    """The habits of a class, or of a function that makes an instance."""
    reach = Reach(cls, entry=dir(cls) if isinstance(cls, type) else ())
    return Habits(not reach.functions or not _WRITING.isdisjoint(reach.names), reach.hears)


def _may_use_shared_generator(x: Any) -> bool:
    """Whether a call of `x` may draw from a generator of the process: its own functions, and those of packages
    that are not looked into."""
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
    """What a reference reads that differs from call to call, or nothing."""
    name = getattr(x, "__name__", "")
    module = getattr(x, "__module__", None) or ""
    if module == "time" and name in _CLOCK:
        return f"time.{name} reads the clock"
    owner = getattr(x, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, datetime.date) and name in _NOW:
        return f"{owner.__name__}.{name} reads the clock"
    if name in ("urandom", "getrandom") and module in ("posix", "nt", "os"):
        return f"os.{name} draws random numbers"
    if module in ("secrets", "uuid") and callable(x):
        return f"{module}.{name} draws random numbers"
    if bare and name in _SEEDED and module.startswith(("random", "numpy.random")):
        return f"{name}() without a seed draws other random numbers in each call"
    return ""


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _inside(x: Any) -> Iterator[Any]:
    if isinstance(x, functools.partial):
        yield from (x.func, *x.args, *x.keywords.values())
    elif isinstance(x, property):
        yield from (f for f in (x.fget, x.fset) if f is not None)
    else:
        yield x.__func__


def _parts(x: Any) -> Iterator[Any]:
    """The objects in an object that may be functions or have some."""
    if isinstance(x, dict):
        yield from (v for v in list(x.values())[:1000] if not isinstance(v, (int, float, str, np.ndarray)))
    elif isinstance(x, (list, tuple, set, frozenset)):
        yield from (v for v in list(x)[:1000] if not isinstance(v, (int, float, str, np.ndarray)))
    elif is_users_class(type(x)):
        yield from (v for v in list(getattr(x, "__dict__", {}).values()) if not isinstance(v, np.ndarray))


def _class_state(cls: type) -> types.MappingProxyType[str, Any]:
    """A class's attributes that are data."""
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
    """Whether a module is one that is not looked into."""
    root = module.split(".")[0]
    return root in _OPAQUE or _is_stdlib(root)


@functools.lru_cache(maxsize=1024)
def _package(file: str) -> str | None:
    """The package that a file of code belongs to: "" where none is installed, None for what is not looked into."""
    if file.startswith((*_PLACES, "<frozen")):
        return None
    for folder in ("site-packages", "dist-packages"):
        _, found, rest = file.rpartition(f"{folder}{os.sep}")
        if found:
            package = rest.partition(os.sep)[0]
            return None if package in _OPAQUE else package
    return None if file.startswith(_STDLIB) else ""


def _is_inspected(f: types.FunctionType) -> bool:
    """Whether a function's code is looked into."""
    return _package(f.__code__.co_filename) is not None


def is_users_class(cls: type[Any]) -> bool:
    """Whether a class has a method, perhaps inherited, that is no installed package's."""
    key: Any = cls
    return bool(_has_open_method(key))


@functools.lru_cache(maxsize=1024)
def _has_open_method(cls: Any) -> bool:
    functions = (x for base in cls.__mro__ for x in vars(base).values() if isinstance(x, types.FunctionType))
    return any(_package(f.__code__.co_filename) == "" for f in functions)
