"""Which class defines which layer type: the built-in folders, the user's registrations, a user's layers file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from anylayer.errors import FileError, InputError, need
from anylayer.layer.contract import Layer

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Definition:
    """A layer type's class. `origin` is "built-in", or the file (or module) the user's class stands in."""

    type: str
    cls: Callable[..., Any]
    origin: str
    dialects: tuple[str, ...] = ()

    @property
    def typed(self) -> bool:
        """Whether the class is of the typed form; otherwise it follows OpenCV's contract."""
        return isinstance(self.cls, type) and issubclass(self.cls, Layer)

    @property
    def built_in(self) -> bool:
        return self.origin == "built-in"

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        return (self.cls.__doc__ or "").strip().split("\n")[0]


_collecting: ContextVar[list[Definition] | None] = ContextVar("collecting", default=None)
_users: dict[str, Definition] = {}
_PACKAGE = "anylayer.layers."
_PLAIN = ("bvlc", "hed", "senet")
"""Forks of Caffe whose layers carry no meaning of their own by name."""


def layer(type: str, *, dialects: Sequence[str] = ()) -> Callable[[C], C]:
    """Register a class as the definition of layer type `type`.

    The class is a `Layer`, or follows OpenCV's contract: `__init__(params, blobs)`, optionally
    `getMemoryShapes(inputs)`, and `forward(inputs)` that returns a list. It wins over a built-in layer of the
    same name. In a layers file it counts for the networks read with that file; elsewhere for the whole
    process, and registering the type again replaces it.

    `dialects` are the forks of Caffe this class speaks for, where they differ (see Definition).
    """

    def register(cls: C) -> C:
        module = getattr(cls, "__module__", "")
        if module.startswith(_PACKAGE):
            fmt = module.removeprefix(_PACKAGE).split(".")[0]
            Registry.of(fmt).add(Definition(type, cls, "built-in", tuple(dialects)))
            return cls
        found = Definition(type, cls, origin_of(cls), tuple(dialects))
        collected = _collecting.get()
        if collected is None:
            _users[type] = found
        else:
            need(
                all(d.type != type for d in collected),
                f"layer type '{type}' is registered twice",
                InputError,
            )
            collected.append(found)
        return cls

    return register


def origin_of(cls: Any) -> str:
    """Return the file that a class stands in, as its code names it, or else its module."""
    code = getattr(getattr(cls, "forward", None), "__code__", None)
    module = getattr(cls, "__module__", "") or "given"
    file = getattr(sys.modules.get(module), "__file__", None)
    return file or (code.co_filename if code is not None else module)


class Registry:
    """The built-in layers of one format: the files of `anylayer/layers/<format>/`, imported when asked for."""

    _formats: dict[str, Registry] = {}  # noqa: RUF012 (one instance a format, for the process)

    def __init__(self, fmt: str) -> None:
        self.format = fmt
        self._definitions: dict[str, list[Definition]] = {}
        folder = Path(__file__).parent.parent / "layers" / fmt
        self._modules = {p.stem.replace("_", ""): p.stem for p in folder.glob("[!_]*.py")}
        self._complete = False

    @classmethod
    def of(cls, fmt: str) -> Registry:
        """The registry of a format."""
        if fmt not in cls._formats:
            cls._formats[fmt] = cls(fmt)
        return cls._formats[fmt]

    def add(self, definition: Definition) -> None:
        """Enter a built-in class; the same type twice for one dialect is a mistake in this package."""
        same = self._definitions.setdefault(definition.type, [])
        for other in same:
            if set(other.dialects) & set(definition.dialects) or other.dialects == definition.dialects:
                raise ValueError(f"layer type {definition.type} is defined twice for {definition.dialects}")
        same.append(definition)

    def _import(self, stem: str) -> None:
        importlib.import_module(f"{_PACKAGE}{self.format}.{stem}")

    def _import_all(self) -> None:
        if not self._complete:
            for stem in self._modules.values():
                self._import(stem)
            self._complete = True

    def find(self, type: str) -> list[Definition]:
        """The classes of a type, one a family of dialects; empty where the type is unknown."""
        stem = self._modules.get(type.lower())
        if stem is not None:
            self._import(stem)
        if type not in self._definitions:
            self._import_all()
        return list(self._definitions.get(type, ()))

    def types(self) -> list[str]:
        """Every type, sorted."""
        self._import_all()
        return sorted(self._definitions)

    def definitions(self) -> list[Definition]:
        """Every definition, by type."""
        self._import_all()
        return [d for t in sorted(self._definitions) for d in self._definitions[t]]

    def dialects(self) -> set[str]:
        """Every dialect that a network of this format can be read as."""
        names = set(_PLAIN)
        for definition in self.definitions():
            names.update(definition.dialects)
            if definition.typed:
                cls: Any = definition.cls
                names.update(cls.numbers, *(declared.dialects for declared in cls.fields.values()))
        return names - {""}

    def messages(self) -> set[str]:
        """Every parameter message that a built-in layer of this format declares."""
        classes: list[Any] = [d.cls for d in self.definitions() if d.typed]
        return {name for cls in classes for name in (cls.message, *cls.also) if name}


def registered() -> dict[str, Definition]:
    """What the process has registered outside layers files."""
    return dict(_users)


def load_layers(sources: Iterable[Any]) -> dict[str, Definition]:
    """The definitions of layers files and classes, by type; the later source wins.

    A source is the path of a Python file (which is *executed*: this is the one place that runs a user's code),
    "Type=file.py:Class" for a class that does not register itself, or a (type, class) pair.
    """
    found: dict[str, Definition] = {}
    for source in sources:
        if isinstance(source, tuple):
            type_, cls = source
            found[type_] = Definition(type_, cls, origin_of(cls))
            continue
        text = str(source)
        type_, _, rest = text.partition("=")
        if rest and ":" in rest and not Path(text).exists():
            path, _, name = rest.rpartition(":")
            module, _ = _execute(Path(path))
            need(hasattr(module, name), f"{path} has no class '{name}'", InputError)
            found[type_] = Definition(type_, getattr(module, name), path)
            continue
        _, collected = _execute(Path(text))
        need(
            collected,
            f'{text} registers no layer. Put @anylayer.layer("Type") on a class, or give it as Type={text}:Class',
            InputError,
        )
        found.update({d.type: d for d in collected})
    return found


def _execute(path: Path) -> tuple[Any, list[Definition]]:
    if not path.is_file():
        raise FileError("there is no such layers file", str(path))
    name = f"anylayer_user_{path.stem}_{abs(hash(path.resolve())):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileError("a layers file must be a Python file (.py)", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    collected: list[Definition] = []
    token = _collecting.set(collected)
    try:
        with _neighbours(path.resolve().parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        what = f"{type(error).__name__}: {error}"
        if isinstance(error, SystemExit):
            what = "ends the program when it is executed. Put the classes into a file that only defines them"
        raise FileError(what, f"{path}{_line_in(error, spec.origin or str(path))}") from error
    finally:
        _collecting.reset(token)
    return module, collected


@contextmanager
def _neighbours(folder: Path) -> Iterator[None]:
    """Let a layers file import the modules beside it; afterwards they are forgotten, so that each file has its own
    and registers its classes each time it is read."""
    before = set(sys.modules)
    sys.path.append(str(folder))  # last: a stranger's folder takes no other module's place
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        beside = {n for n in set(sys.modules) - before if "." not in n and _lies_in(sys.modules[n], folder)}
        for name in set(sys.modules) - before:
            if name.split(".")[0] in beside:
                del sys.modules[name]


def _lies_in(module: Any, folder: Path) -> bool:
    file = Path(getattr(module, "__file__", None) or "/")
    return folder in (file.parent, file.parent.parent if file.stem == "__init__" else file.parent)


def _line_in(error: BaseException, file: str) -> str:
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f":{line}" if line else ""
