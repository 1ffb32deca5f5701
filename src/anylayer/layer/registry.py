"""Registration: which class defines which layer type, built-in or of the user."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from anylayer.errors import InputError, need
from anylayer.folders import load, load_all, modules, source
from anylayer.layer.contract import Layer
from anylayer.layer.functions import as_class
from anylayer.layer.native import Kernel
from anylayer.network import Function

C = TypeVar("C", bound=Function)
LayerClass = type[Layer]


@dataclass(frozen=True, slots=True)
class Definition:
    """A class that defines a layer type.

    `origin` is "built-in", or the file (or module) that contains the user's class. `dialects` are the forks of
    Caffe to which the class applies, where classes of several forks share the type; () stands for all others.
    """

    type: str
    cls: Function
    origin: str
    dialects: tuple[str, ...] = ()
    kernel: Kernel | None = None
    """The native kernel that computes the type. It is `cls` itself where the type has no NumPy class."""

    @property
    def typed(self) -> bool:
        """Whether the class is a Layer with declared fields; otherwise it follows OpenCV's contract."""
        return isinstance(self.cls, type) and issubclass(self.cls, Layer)

    @property
    def layer_class(self) -> LayerClass:
        """The class of a typed definition. Raises TypeError for a class with OpenCV's contract."""
        if isinstance(self.cls, type) and issubclass(self.cls, Layer):
            return self.cls
        raise TypeError(f"{self.cls} is not a Layer")

    @property
    def is_code(self) -> bool:
        """Whether the layer is a program inside the file, which is never run."""
        return self.typed and getattr(self.cls, "role", "") == "code"

    @property
    def native_only(self) -> bool:
        """Whether the type has a native kernel and no NumPy class."""
        return self.kernel is not None and self.kernel is self.cls

    @property
    def is_function(self) -> bool:
        """Whether the class stands for a NumPy function before or after the network, which has no layer type.

        Its values keep their dtypes in formats that know only one, and no file has a layer for it.
        """
        return bool(getattr(self.cls, "is_function", False))

    @property
    def built_in(self) -> bool:
        """Whether the class is anylayer's own."""
        return self.origin == "built-in"

    def forks(self, written: Container[str] = ()) -> list[str]:
        """Return the dialects that change what the class computes, for a file that writes these fields: its own
        ones, those that have a default of a field, and those that alone have a written field."""
        result = dict.fromkeys(self.dialects)
        for field in self.layer_class.fields.values() if self.typed else ():
            result.update(dict.fromkeys(field.dialects))
            if field.name in written and not field.is_read_in(None):
                result.update(dict.fromkeys(field.only))
        return list(result)

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        return (self.cls.__doc__ or "").strip().split("\n")[0]


_collecting: ContextVar[list[Definition] | None] = ContextVar("collecting", default=None)


@contextmanager
def collecting(found: list[Definition]) -> Iterator[None]:
    """Append the classes that register themselves inside to `found`, instead of registering them."""
    token = _collecting.set(found)
    try:
        yield
    finally:
        _collecting.reset(token)


_users: dict[str, Definition] = {}
_PACKAGE = "anylayer.layers."


def layer(type: str, *, dialects: Sequence[str] = ()) -> Callable[[C], C]:
    """Register a function or a class as the definition of layer type `type`.

    A function takes an array per input and returns an array, or a list of arrays; its keyword-only parameters are
    fields of the layer, and `blobs` its weights. A function whose parameters are `params` and `blobs` makes an
    instance of a class. A class is a `Layer`, or follows OpenCV's contract:
    `__init__(params, blobs)`, optionally `getMemoryShapes(inputs)`, and `forward(inputs)` that returns a list. It
    replaces a built-in layer of the same type: in a layers file for the networks that are read with the file, and
    elsewhere for the whole process. Registering the type again replaces the class.

    `dialects` are the forks of Caffe to which the class applies, where the type means something else in other
    forks.
    """

    def register(definition: C) -> C:
        cls = as_class(definition)
        module = getattr(cls, "__module__", "")
        if module.startswith(_PACKAGE):
            fmt = module.removeprefix(_PACKAGE).split(".")[0]
            Registry.of(fmt).add(Definition(type, cls, "built-in", tuple(dialects)))
            return definition
        user_definition = Definition(type, cls, origin_of(cls), tuple(dialects))
        collected = _collecting.get()
        if collected is None:
            _users[type] = user_definition
        else:
            need(
                all(d.type != type or d.cls is cls for d in collected),
                f"layer type '{type}' is registered twice",
                InputError,
            )
            collected[:] = [*(d for d in collected if d.type != type), user_definition]
        return definition

    return register


def origin_of(cls: Any) -> str:
    """Return the file that contains a class, or its module where the file is not known."""
    code = getattr(getattr(cls, "forward", None), "__code__", None)
    module = getattr(cls, "__module__", "") or "given"
    file = getattr(sys.modules.get(module), "__file__", None)
    return file or (code.co_filename if code is not None else module)


class Registry:
    """The built-in layers of one format. Files of `anylayer/layers/<format>/` are imported when needed."""

    _formats: ClassVar[dict[str, Registry]] = {}
    """One instance per format, for the process."""

    def __init__(self, fmt: str) -> None:
        self.format = fmt
        self._definitions: dict[str, list[Definition]] = {}
        self._folder = f"layers/{fmt}"
        self._sources: dict[str, str] = {}
        self._searched: set[str] = set()
        self._complete = False
        self._dialects: set[str] | None = None

    @classmethod
    def of(cls, fmt: str) -> Registry:
        """Return the registry of a format."""
        if fmt not in cls._formats:
            cls._formats[fmt] = cls(fmt)
        return cls._formats[fmt]

    def add(self, definition: Definition) -> None:
        """Register a built-in class. Raise ValueError if the type already has a class for one of its dialects."""
        same = self._definitions.setdefault(definition.type, [])
        for other in same:
            if set(other.dialects) & set(definition.dialects) or other.dialects == definition.dialects:
                raise ValueError(f"layer type {definition.type} is defined twice for {definition.dialects}")
        same.append(definition)
        self._dialects = None

    def _import_all(self) -> None:
        if not self._complete:
            load_all(self._folder)
            self._complete = True

    def find(self, type: str) -> list[Definition]:
        """Return the classes of a type, one per family of dialects; [] where the type is unknown.

        The files that name the type are imported, and all others only where none of them defines it.
        """
        if not self._complete and type not in self._searched:
            if not self._sources:
                self._sources = {name: source(self._folder, name) for name in modules(self._folder)}
            for name, text in self._sources.items():
                if f'"{type}"' in text:
                    load(self._folder, name)
            if type not in self._definitions:
                self._import_all()
            self._searched.add(type)
        return list(self._definitions.get(type, ()))

    def types(self) -> list[str]:
        """Return the names of all types, sorted."""
        self._import_all()
        return sorted(self._definitions)

    def definitions(self) -> list[Definition]:
        """Return all definitions, sorted by type."""
        self._import_all()
        return [d for t in sorted(self._definitions) for d in self._definitions[t]]

    def dialects(self) -> set[str]:
        """Return the dialects that a network of this format can be read as."""
        definitions = self.definitions()
        if self._dialects is None:
            names = {*getattr(load("layers", self.format), "DIALECTS", ())}
            names.update(
                *(d.forks() for d in definitions), *(d.layer_class.numbers for d in definitions if d.typed)
            )
            self._dialects = names - {""}
        return self._dialects

    def messages(self) -> set[str]:
        """Return the parameter messages that built-in layers of this format declare."""
        classes = [d.layer_class for d in self.definitions() if d.typed]
        return {name for cls in classes for name in (cls.message, *cls.also) if name}


def registered() -> dict[str, Definition]:
    """Return the classes that were registered for the whole process, by type."""
    return dict(_users)
