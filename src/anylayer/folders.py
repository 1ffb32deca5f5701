"""A folder is a list: modules are found by listing their folder, and register what they define in tables."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ROOT = Path(__file__).parent


def modules(folder: str) -> list[str]:
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


def summary(folder: str, name: str) -> str:
    """Return the first line of the docstring of a module of a folder. The module is not imported."""
    file = _ROOT / folder / f"{name}.py"
    with (file if file.exists() else _ROOT / folder / name / "__init__.py").open(encoding="utf-8") as lines:
        return lines.readline().strip().strip('"')


def load_all(folder: str) -> None:
    """Import every module of a folder of anylayer, so that each one registers its definitions in tables."""
    for name in modules(folder):
        load(folder, name)


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


def _where(value: Any) -> str:
    code = getattr(value, "__code__", None)
    return f"{value!r}" if code is None else f"{value.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
