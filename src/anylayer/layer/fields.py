"""Declared parameters. One declaration serves the readers, the writers, the documentation and error messages:

class ShuffleChannel(Layer):
    message = "shuffle_channel_param"
    group: int = field(1, "uint32", 1, doc="number of groups; must divide the channels")
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import LayerError, at, nearest, need, wording
from anylayer.network import Flag, Word

MISSING: Any = object()
INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (-(2**31), 2**31 - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), (0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), (0, 2**64 - 1)),
}
"""The range of each integer type of protobuf."""
NUMERIC = frozenset([*INTEGERS, "float", "double"])
SCALARS = NUMERIC | {"bool", "string", "bytes"}
TRUE_WORDS = (1, "t", "True", "true")
"""How a file spells true."""
_NUMBERS = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}


class Enum:
    """The names of an enum with their numbers: `Enum("MAX", "AVE")` or `Enum(SUM=1, ASUM=2)`.

    `home` is where a .proto declares the enum, as (message, name), where that is not the message of its field: for
    example ("PriorBoxParameter", "CodeType"). `name` is its name in a .proto that was read, with the messages
    around it.
    """

    home: tuple[str, str] | None = None
    name = ""

    def __init__(self, *names: str, **numbers: int) -> None:
        self.numbers = {**{name: i for i, name in enumerate(names)}, **numbers}

    def declared_in(self, message: str, name: str) -> Enum:
        """Set `home`, and return this enum."""
        self.home = (message, name)
        return self

    def __repr__(self) -> str:
        return " | ".join(self.numbers)


Kind = str | Enum | type["Message"]


@dataclass(frozen=True)
class Field:
    """One declared parameter.

    `number` is its field number in the .proto, 0 in a format without numbers. `kind` is a protobuf scalar type
    ("int32", "uint32", "int64", "uint64", "float", "double", "bool", "string" ...), "any" (the value as the file
    has it), an Enum, or a nested Message class. The value of a repeated field is a tuple. A field whose `default`
    is MISSING is required. `dialects` are defaults that differ by dialect. `stated` is the default that a fork's
    own caffe.proto states, where its layer uses another one. `others` are values that other programs use where a
    file leaves the field out; only `anylayer identify` tries them. `unwritten` marks a field of this project's
    own, which writers leave out. `only` are the dialects whose files have the field, where it has no effect; ()
    for every dialect. `hint` marks a field that selects an implementation: it is read in every dialect.
    `least` and `most` are the limits of a number.
    """

    number: int
    kind: Kind
    default: Any = MISSING
    repeated: bool = False
    doc: str = ""
    dialects: Mapping[str, Any] = dataclass_field(default_factory=dict)
    name: str = ""
    stated: Any = MISSING
    others: tuple[Any, ...] = ()
    unwritten: bool = False
    only: Sequence[str] = ()
    hint: bool = False
    least: float | None = None
    most: float | None = None

    def is_read_in(self, dialect: str | None) -> bool:
        """Return whether a file in a dialect may have the field."""
        return self.hint or not self.only or dialect in self.only

    def is_written_in(self, dialect: str, source: str | None) -> bool:
        """Return whether a file in a dialect keeps the field of a network that was read in dialect `source`."""
        if self.only:
            return dialect in self.only
        return not self.hint or dialect in ("", source)

    def default_for(self, dialect: str | None) -> Any:
        """Return the value of a field that the file does not write."""
        default = () if self.repeated and self.default is MISSING else self.default
        return self.dialects.get(dialect or "", default)

    def convert(self, value: Any) -> Any:
        """Return a value as the file has it, checked and converted to the field's type. Raises LayerError."""
        if self.kind == "any":
            return value
        if self.repeated:
            values = value if isinstance(value, (list, tuple)) else [value]
            return tuple(self._one(v) for v in values)
        # the schema given with the network declares the field as repeated
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        need(
            not isinstance(value, (list, tuple)),
            f"is given {len(value) if isinstance(value, list) else 0} times, once is allowed",
        )
        return self._one(value)

    def check(self, value: Any) -> None:
        """Raise LayerError for a number outside the limits."""
        low, high = self.least, self.most
        if low is not None and high is not None:
            need(low <= value <= high, f"{self.name} must lie in {low}..{high}, got {value:g}")
        elif low is not None:
            need(value >= low, f"{self.name} must be at least {low}, got {value:g}")

    def _one(self, value: Any) -> Any:
        kind = self.kind
        if isinstance(kind, Enum):
            return _enum(kind, value)
        if isinstance(kind, type):
            need(isinstance(value, Mapping), f"must be a message {{ ... }}, got {value!r}")
            return kind.read(value)
        if kind in INTEGERS:
            low, high = INTEGERS[kind]
            need(type(value) is int, f"must be an integer, got {value!r}")
            need(low <= value <= high, f"must lie in {low}..{high} ({kind}), got {value}")
            return value
        if kind in ("float", "double"):
            return _float(kind, value)
        if kind == "bool":
            need(_is_bool(value), f"must be true or false, got {value!r}")
            return value in TRUE_WORDS
        need(isinstance(value, str) and not isinstance(value, Word), f"must be a quoted string, got {value!r}")
        return str(value)


def _is_bool(value: Any) -> bool:
    return (
        isinstance(value, (Flag, bool))
        or (type(value) is int and value in (0, 1))
        or value in ("t", "f", "True", "False")
    )


def _float(kind: str, value: Any) -> float:
    if isinstance(value, Word):
        sign, word = (-1, value[1:]) if value.startswith("-") else (1, value)
        need(word.lower() in _NUMBERS, f"must be a number, got {value}")
        return sign * _NUMBERS[word.lower()]
    need(type(value) in (int, float), f"must be a number, got {value!r}")
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if kind == "float" else float(value)


def _enum(kind: Enum, value: Any) -> str:
    if isinstance(value, str) and value in kind.numbers:
        return str(value)
    for name, number in kind.numbers.items():
        if type(value) is int and value == number:
            return name
    hint = nearest(str(value), kind.numbers)
    raise LayerError(f"must be one of {', '.join(kind.numbers)}, got {value}{hint}")


def field(
    number: int,
    kind: Kind,
    default: Any = MISSING,
    *,
    repeated: bool = False,
    doc: str = "",
    dialects: Mapping[str, Any] | None = None,
    stated: Any = MISSING,
    others: Sequence[Any] = (),
    unwritten: bool = False,
    only: Sequence[str] = (),
    hint: bool = False,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """Declare a parameter: see Field."""
    return Field(
        number, kind, default, repeated, doc, dialects or {},
        stated=stated, others=tuple(others), unwritten=unwritten, only=tuple(only), hint=hint,
        least=least, most=most,
    )  # fmt: skip


def attribute(kind: Kind = "any", default: Any = MISSING, *, repeated: bool = False, doc: str = "") -> Any:
    """Declare a parameter of a format that knows its fields by name only: see Field."""
    return Field(0, kind, default, repeated, doc)


class Message:
    """A group of declared fields. An instance holds their values as attributes.

    `self.has("stride")` says whether the file writes the field.
    """

    fields: ClassVar[dict[str, Field]] = {}
    enums: ClassVar[Sequence[Enum]] = ()
    """Enums that the .proto declares in this message and that none of its fields uses."""
    _given: frozenset[str] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared = {n: replace(f, name=n) for n, f in vars(cls).items() if isinstance(f, Field)}
        inherited: dict[str, Field] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited.update(vars(base).get("fields", {}))
        cls.fields = {**inherited, **declared}

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Message:
        """Return an instance with these values."""
        self = cls.__new__(cls)
        self.assign(values)
        return self

    def assign(
        self,
        values: Mapping[str, Any],
        *,
        dialect: str | None = None,
        defaults: Mapping[str, Any] | None = None,
        message: str = "",
        lines: Mapping[str, int] | None = None,
    ) -> None:
        """Set each declared field to its typed value. Raise LayerError, with the line, for a field that is not
        declared.

        defaults: values for absent fields, from a schema given with the network. message: the name of the message
        in error messages. lines: the line of each "message.field" in the file.
        """
        self._given = frozenset(values)
        for name in values:
            known = self.fields.get(name)
            if known is None or not known.is_read_in(dialect):
                line = (lines or {}).get(f"{message}.{name}")
                where = f" (line {line})" if line else ""
                raise LayerError(
                    f"{message or type(self).__name__} has no field '{name}'{where}{self._remedy(name, dialect)}"
                )
        for name, declared in self.fields.items():
            if name in values:
                with at(f"parameter '{name}'"):
                    value = declared.convert(values[name])
            elif defaults and name in defaults and defaults[name] != declared.stated:
                value = declared.convert(defaults[name])
            else:
                value = declared.default_for(dialect)
                if value is MISSING and isinstance(declared.kind, type):
                    value = declared.kind.read({})
                need(value is not MISSING, f"parameter '{name}' is missing")
            setattr(self, name, value)

    @classmethod
    def _remedy(cls, name: str, dialect: str | None) -> str:
        """Return the end of the message about a field that the class does not have in a dialect."""
        if name in cls.fields:
            first, *_ = names = cls.fields[name].only
            option = wording(f"dialect='{first}'", f"--dialect {first}")
            return f" in dialect '{dialect}'" * bool(dialect) + f"; files of {', '.join(names)} have it: {option}"
        has = [n for n, f in cls.fields.items() if f.is_read_in(dialect)]
        return nearest(name, has) or "; it has: " + (", ".join(has) or "none")

    def has(self, name: str) -> bool:
        """Return whether the file writes field `name`."""
        return name in self._given
