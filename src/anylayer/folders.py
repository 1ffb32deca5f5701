"""A folder is a list: modules are found by listing their folder, and register what they define in tables.

The fixed parts of generated code are files, too.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ROOT = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\bINSERT_(\w+)\b")


@cache
def modules(folder: str) -> Sequence[str]:
    """Return the names of the modules and packages in a folder of anylayer, sorted.

    folder: relative to the package, for example "readers" or "layers/caffe". A name that begins with "_" is code
    that several modules of the folder share, and is left out. Nothing is imported.
    """
    found = (_ROOT / folder).iterdir()
    names = {p.stem for p in found if p.suffix == ".py" or (p / "__init__.py").exists()}
    return sorted(name for name in names if not name.startswith("_"))


def load(folder: str, name: str) -> ModuleType:
    """Import a module of a folder of anylayer. Raises ModuleNotFoundError."""
    return importlib.import_module(f"anylayer.{folder.replace('/', '.')}.{name}")


def source(folder: str, name: str) -> str:
    """Return the text of a module of a folder. The module is not imported."""
    file = _ROOT / folder / f"{name}.py"
    return (file if file.exists() else _ROOT / folder / name / "__init__.py").read_text("utf-8")


def summary(folder: str, name: str) -> str:
    """Return the first line of the docstring of a module of a folder. The module is not imported."""
    return source(folder, name).partition("\n")[0].strip().strip('"')


def load_all(folder: str) -> None:
    """Import every module of a folder of anylayer, so that each one registers its definitions in tables."""
    for name in modules(folder):
        load(folder, name)


class NamesByFile(ModuleType):
    """A package that loads a file when the name that the file defines, its own, is first used.

    These are the names in `__all__` that the package does not define. If a file does not define its name, the
    value is the file. Without this class, the name would be the file once another file has imported it.
    """

    __all__: list[str]

    def __getattr__(self, name: str) -> object:
        if name not in self.__all__:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        module = importlib.import_module(f"{self.__name__}.{name}")
        return vars(module).get(name, module)

    def __setattr__(self, name: str, value: object) -> None:
        is_file = isinstance(value, ModuleType) and name in self.__all__
        super().__setattr__(name, vars(value).get(name, value) if is_file else value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickle the package by its name, as Ray does with the packages that a user's function names."""
        return importlib.import_module, (self.__name__,)


@cache
def template(module: str, name: str) -> str:
    """Return the text of a template: a fixed part of generated code.

    It lies in the folder `templates` beside the code that uses it. module: `__file__` of that code.

    A placeholder is a word such as INSERT_tolerance, so that a template is readable to the tools of its language.
    """
    return (Path(module).parent / "templates" / name).read_text("utf-8")


def fill(text: str, **values: str) -> str:
    """Return a template with a text in place of each placeholder. The texts are not searched for placeholders.

    Raises ValueError if the placeholders are not those of `values`.
    """
    names = set(_PLACEHOLDER.findall(text))
    if names != values.keys():
        raise ValueError(f"the template has the placeholders {sorted(names)}, not {sorted(values)}")
    return _PLACEHOLDER.sub(lambda word: values[word[1]], text)


class Table(dict[K, V]):
    """A dictionary that raises ValueError for a second value of a key.

    Many files register definitions. In a plain dictionary, the last imported file would silently replace others.
    """

    def __setitem__(self, key: K, value: V) -> None:
        if key in self and self[key] is not value:
            raise ValueError(f"{key!r} is defined twice: {_where(self[key])} and {_where(value)}")
        super().__setitem__(key, value)

    def enter(self, keys: Iterable[K], value: V) -> None:
        """Set one value for several keys. Raises ValueError for a key that has another value."""
        for key in keys:
            self[key] = value

    def __ior__(self, other: Mapping[K, V]) -> Table[K, V]:  # type: ignore[override, misc]  # dict allows lists of pairs, too
        for key, value in other.items():
            self[key] = value
        return self


class FolderTable(Table[K, V]):
    """A table of functions to which the files of a folder add entries by a decorator.

    A file is imported when a function is looked up that it names as an argument of the decorator. All files are
    imported for a function that none of them names in this way.
    """

    def __init__(self, folder: str, decorator: str) -> None:
        super().__init__()
        self._folder = folder
        self._arguments = re.compile(rf"\b{decorator}\(([^)]*)\)")
        self._files: dict[str, list[str]] = {}

    def find(self, key: K) -> V | None:
        """Return the value of a function, or None if no file adds one."""
        if key not in self:
            if not self._files:
                self._read()
            for name in self._files.get(getattr(key, "__name__", ""), ()):
                load(self._folder, name)
            if key not in self:
                load_all(self._folder)
        return self.get(key)

    def _read(self) -> None:
        """Find out which functions each file names. Nothing is imported."""
        for name in modules(self._folder):
            arguments = " ".join(self._arguments.findall(source(self._folder, name)))
            for word in set(re.findall(r"\w+", arguments)):
                self._files.setdefault(word, []).append(name)


def _where(value: Any) -> str:
    code = getattr(value, "__code__", None)
    return f"{value!r}" if code is None else f"{value.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
