"""Which message class and which number a parameter message has: by the layers' declarations and the dialect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anylayer.layer import Enum, Field, Message, Registry
from anylayer.network import Flag, Word
from anylayer.writers.caffe.base import GENERIC, MESSAGES, NUMBERS
from anylayer.writers.caffe.dialects import Dialect

Fields = Mapping[str, Field]
_FIRST_FREE = 100_000
"""Parameter messages that nobody has given a number get one from here on."""


class Schema:
    """The messages of one network to write: each parameter message's class and number, and who uses it.

    `classes` are the typed classes that a user defines, by layer type.
    """

    def __init__(self, dialect: Dialect, classes: Mapping[str, type[Message]] | None = None) -> None:
        self.dialect = dialect
        self.classes = dict(classes or {})
        self.messages: dict[str, type[Message]] = {}
        self.numbers: dict[str, int] = {}

    def layer_fields(self, type_: str, params: Mapping[str, Any]) -> dict[str, Field]:
        """The fields of a layer: the generic ones and one for each parameter message it has."""
        found: dict[str, Field] = dict(GENERIC)
        for name, values in params.items():
            if name in found:
                continue
            if not isinstance(values, (Mapping, list)):
                found[name] = _inferred_field(name, values, self._number(name, None))
                continue
            cls = self.message(type_, name, values)
            found[name] = Field(self._number(name, cls), cls, repeated=isinstance(values, list))
        return found

    def message(self, type_: str, name: str, values: Any) -> type[Message]:
        """The class that declares a parameter message of a layer type; made of the values where there is none."""
        given = set().union(*(v for v in _each(values)))
        candidates = self._candidates(type_, name)
        fitting = [c for c in candidates if given <= set(c.fields)] or candidates
        if fitting:
            cls = self._adapted(name, fitting[0])
        else:
            cls = _inferred(name, _each(values))
        known = self.messages.get(name)
        if known is not None and known is not cls:
            cls = known if set(cls.fields) <= set(known.fields) else _joined(known, cls)
        self.messages[name] = cls
        return cls

    def _candidates(self, type_: str, name: str) -> list[type[Message]]:
        own = self.classes.get(type_)
        if own is not None and getattr(own, "message", "") == name:
            return [own]
        found = [d for d in Registry.of("caffe").find(type_) if d.typed]
        found.sort(key=lambda d: self.dialect.name not in d.dialects)
        classes: list[Any] = [d.cls for d in found]
        declared = [c for c in classes if c.message == name] + [
            c.also[name] for c in classes if c.message != name and name in c.also
        ]
        if name in MESSAGES:
            return [MESSAGES[name], *declared]
        if declared:
            return declared
        every: list[Any] = [d.cls for d in Registry.of("caffe").definitions() if d.typed]
        return [c for c in every if c.message == name]

    def _adapted(self, name: str, cls: type[Message]) -> type[Message]:
        """The class with the dialect's numbers, and without the fields it lacks."""
        changed = self.dialect.fields.get(name, {})
        known = self.messages.get(name)
        if known is not None and getattr(known, "origin", None) is cls:
            return known
        fields = {
            n: replace(f, number=changed.get(n, f.number or i))
            for i, (n, f) in enumerate(cls.fields.items(), 1)
            if self.dialect.has_field(name, n)
        }
        return _made(cls.__name__, fields, cls)

    def _number(self, name: str, cls: type[Message] | None) -> int:
        """LayerParameter's number of a message: the dialect's, the common one, else a free one."""
        known = self.numbers.get(name)
        if known is not None:
            return known
        origin: Any = getattr(cls, "origin", cls)
        declared: dict[str, int] = dict(getattr(origin, "numbers", {}))
        every: list[Any] = [d.cls for d in Registry.of("caffe").definitions() if d.typed and not declared]
        for other in every:
            if name and other.message == name:
                declared.update(other.numbers)
        wanted = [declared.get(self.dialect.name), NUMBERS.get(name), declared.get(""), *declared.values()]
        taken = set(self.numbers.values()) | (
            {NUMBERS["input_param"]} if not self.dialect.legacy_inputs else set()
        )
        if NUMBERS.get(name) in wanted:
            taken -= {NUMBERS.get(name)}
        free = next(n for n in range(_FIRST_FREE, _FIRST_FREE + len(taken) + 2) if n not in taken)
        number = next((n for n in wanted if n is not None and n not in taken), free)
        self.numbers[name] = number
        return number


def _each(values: Any) -> list[Mapping[str, Any]]:
    listed = values if isinstance(values, list) else [values]
    return [v for v in listed if isinstance(v, Mapping)]


def _made(name: str, fields: Fields, origin: Any = None) -> type[Message]:
    """A message class of these fields."""
    return type(name, (Message,), {**fields, "origin": origin})


def _joined(a: type[Message], b: type[Message]) -> type[Message]:
    """The fields of both, `a` first; of a number's two names the second one gets another number."""
    fields = dict(a.fields)
    taken = {f.number for f in fields.values()}
    for name, declared in b.fields.items():
        if name not in fields:
            number = declared.number if declared.number not in taken else max(taken) + 1
            fields[name] = replace(declared, number=number)
            taken.add(number)
    return _made(a.__name__, fields, getattr(a, "origin", None))


def _inferred(name: str, values: Iterable[Mapping[str, Any]]) -> type[Message]:
    """A message class made of what a file has, its fields numbered as they come."""
    fields: dict[str, Field] = {}
    for message in values:
        for key, value in message.items():
            fields[key] = _inferred_field(key, value, fields[key].number if key in fields else len(fields) + 1)
    return _made(name, fields)


def _inferred_field(name: str, value: Any, number: int) -> Field:
    repeated = isinstance(value, (list, tuple))
    values: Sequence[Any] = value if repeated else [value]
    kind: Any = "string"
    if any(isinstance(v, Mapping) for v in values):
        kind = _inferred(name, [v for v in values if isinstance(v, Mapping)])
    elif any(isinstance(v, Word) for v in values):
        kind = Enum(*dict.fromkeys(str(v) for v in values))
    elif values and all(isinstance(v, (Flag, bool)) for v in values):
        kind = "bool"
    elif values and all(isinstance(v, int) for v in values):
        kind = "int32" if all(-(2**31) <= v < 2**31 for v in values) else "int64"
    elif values and all(isinstance(v, (int, float)) for v in values):
        kind = "float"
    return Field(number, kind, None, repeated, name=name)


def own_message(type_: str, classes: Mapping[str, type[Message]] | None = None) -> str:
    """The name of the message in which a layer type's parameters stand: declared, else made of the type's name."""
    cls: Any = (classes or {}).get(type_)
    found: list[Any] = [cls] if cls is not None else [d.cls for d in Registry.of("caffe").find(type_) if d.typed]
    declared = [c.message for c in found if getattr(c, "message", "")]
    return declared[0] if declared else snake(type_) + "_param"


def snake(type_: str) -> str:
    """A layer type as words joined by underscores: ShuffleChannel -> shuffle_channel."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type_)
    return re.sub(r"\W", "_", words).lower()
