"""Decide the message class and the field number of each parameter message of a network.

Fields that nothing declares get a type from the values that a network gives them. A field has one type in the
whole file. It is inferred from the values of all layers together: integers and fractions need a float or a double,
integers and truth values an integer, words an enum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from anylayer.errors import LayerError, at, need, shortened
from anylayer.layer import Enum, Field, Message, Registry
from anylayer.layer.fields import Kind
from anylayer.network import Word
from anylayer.protobuf.binary import Fields, as_list
from anylayer.protobuf.text import is_truth
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.messages import LAYER_FIELDS, MESSAGE_CLASSES, MESSAGE_NUMBERS

Placed = tuple[str, Any]
"""The place of a layer, which leads an error message, and a value in that layer."""
FIRST_UNDECLARED = 100_000
"""The first number for parameter messages for which no number is declared anywhere."""


class Use(NamedTuple):
    """The fields of one layer other than the generic ones. `place` leads an error message."""

    type: str
    params: Mapping[str, Any]
    place: str = ""


class NetSchema:
    """The messages of a network that is written: the class and the number of each parameter message.

    Both fit all layers of the network together. `messages` and `numbers` map the name of a parameter message to
    them, `plain` maps the name of another field to its Field.

    `classes` are the layer types that a user defines: each with its class if that declares its fields, else with
    None. `declared` are LayerParameter's fields in the schema that was given with the source (--proto).

    Raises LayerError where no type of protobuf can hold all values of a field.
    """

    def __init__(
        self,
        dialect: Dialect,
        uses: Sequence[Use] = (),
        classes: Mapping[str, type[Message] | None] | None = None,
        declared: Fields | None = None,
    ) -> None:
        self.dialect = dialect
        self.classes = dict(classes or {})
        self.declared = dict(declared or {})
        self.messages: dict[str, type[Message]] = {}
        self.numbers: dict[str, int] = {}
        self.plain: dict[str, Field] = {}
        uses_by_name: dict[str, list[tuple[Use, Any]]] = {}
        for use in uses:
            for name, value in use.params.items():
                if name not in LAYER_FIELDS:
                    uses_by_name.setdefault(name, []).append((use, value))
        for name, uses_of_name in uses_by_name.items():
            self._enter(name, uses_of_name)

    def layer_fields(self, params: Mapping[str, Any]) -> dict[str, Field]:
        """Return a layer's fields by name: the generic ones and one for each parameter message it has."""
        fields: dict[str, Field] = dict(LAYER_FIELDS)
        for name, values in params.items():
            if name in self.messages:
                message = self.messages[name]
                fields[name] = Field(self.numbers[name], message, repeated=isinstance(values, list))
            elif name in self.plain:
                fields[name] = self.plain[name]
        return fields

    def _enter(self, name: str, values_by_use: Sequence[tuple[Use, Any]]) -> None:
        """Decide whether a field of LayerParameter is a message or a plain field, with its class and number."""
        declared = self.declared.get(name)
        lists = [(use, v if isinstance(v, list) else [v]) for use, v in values_by_use]
        each = [(use, one) for use, values in lists for one in values]
        if any(isinstance(one, Mapping) for _, one in each):
            for use, one in each:
                with at(use.place):
                    need(isinstance(one, Mapping), f"'{name}' is {one} here and a message elsewhere")
            cls = self._message(name, each)
            self._number(name, cls)
            self.messages[name] = cls
        elif declared is not None and not isinstance(declared.kind, type):
            self.plain[name] = declared
        else:
            values = [(use.place, value) for use, value in values_by_use]
            self.plain[name] = inferred_field(name, self._number(name, None), values)

    def _message(self, name: str, each: Sequence[tuple[Use, Mapping[str, Any]]]) -> type[Message]:
        """Return the class of a parameter message: the declared fields, and inferred ones for all other values."""
        classes: list[type[Message]] = []
        for type_ in dict.fromkeys(use.type for use, _ in each):
            names = set().union(*(values for use, values in each if use.type == type_))
            candidates = self._candidates(type_, name)
            fitting = [c for c in candidates if names <= set(c.fields)] or candidates
            classes += [c for c in fitting[:1] if c not in classes]
        placed = [(use.place, values) for use, values in each]
        if not classes:
            return message_class(name, inferred_fields(placed, {}))
        every: list[Fields] = [self.adapted(name, c).fields for c in classes]
        fields = reduce(_union, every)
        adaptable = len(classes) > 1 or any(self._is_undeclared(use.type) for use, _ in each)
        fields = {n: _fitting(n, f, placed) if adaptable else f for n, f in fields.items()}
        return message_class(classes[0].__name__, inferred_fields(placed, fields), classes[0])

    def _is_undeclared(self, type_: str) -> bool:
        """Return whether no class declares the fields of layers of this type."""
        if type_ in self.classes:
            return self.classes[type_] is None
        return not Registry.of("caffe").find(type_)

    def _candidates(self, type_: str, name: str) -> list[type[Message]]:
        """Return the classes that may declare a parameter message of a layer type, the preferred one first."""
        declared_field = self.declared.get(name)
        if declared_field is not None and isinstance(declared_field.kind, type):
            return [declared_field.kind]
        layer_class = self.classes.get(type_)
        if layer_class is not None and getattr(layer_class, "message", "") == name:
            return [layer_class]
        definitions = [d for d in Registry.of("caffe").find(type_) if d.typed]
        definitions.sort(key=lambda d: self.dialect.name not in d.dialects)
        classes: list[Any] = [d.cls for d in definitions]
        declared = [c for c in classes if c.message == name] + [
            c.also[name] for c in classes if c.message != name and name in c.also
        ]
        if name in MESSAGE_CLASSES:
            return [MESSAGE_CLASSES[name], *declared]
        if declared:
            return declared
        every: list[Any] = [d.cls for d in Registry.of("caffe").definitions() if d.typed]
        return [c for c in every if c.message == name]

    def adapted(self, name: str, cls: type[Message]) -> type[Message]:
        """Return a class with the dialect's field numbers, without the fields that the dialect lacks."""
        if name in self.declared:
            return cls
        changed = self.dialect.fields.get(name, {})
        fields = {
            n: replace(f, number=changed.get(n, f.number or i))
            for i, (n, f) in enumerate(cls.fields.items(), 1)
            if self.dialect.has_field(name, n) and not f.unwritten and (not f.only or self.dialect.name in f.only)
        }
        return message_class(cls.__name__, fields, cls)

    def _number(self, name: str, cls: type[Message] | None) -> int:
        """Return and store the number of a field of LayerParameter.

        It is the number in the given schema, else the first unused one of the dialect's number, BVLC's number, and
        the numbers in other dialects, else a new number.
        """
        origin: Any = getattr(cls, "origin", cls)
        declared: dict[str, int] = dict(getattr(origin, "numbers", {}))
        every: list[Any] = [d.cls for d in Registry.of("caffe").definitions() if d.typed and not declared]
        for other in every:
            if name and other.message == name:
                declared.update(other.numbers)
        declared_field = self.declared.get(name)
        usual = MESSAGE_NUMBERS.get(name)
        preferred = [declared.get(self.dialect.name), usual, declared.get(""), *declared.values()]
        used: set[int | None] = set(self.numbers.values())
        used |= {MESSAGE_NUMBERS["input_param"]} if not self.dialect.legacy_inputs else set()
        if usual in preferred:
            used -= {usual}
        used |= {f.number for n, f in self.declared.items() if n != name}
        unused = next(n for n in range(FIRST_UNDECLARED, FIRST_UNDECLARED + len(used) + 2) if n not in used)
        number = next((n for n in preferred if n and n not in used), unused)
        self.numbers[name] = number if declared_field is None else declared_field.number
        return self.numbers[name]


def _union(a: Fields, b: Fields) -> Fields:
    """Return the fields of both, `a` first. One of `b` whose number is used gets the next larger unused one."""
    fields = dict(a)
    used_numbers = {f.number for f in fields.values()}
    for name, declared in b.items():
        if name not in fields:
            number = declared.number if declared.number not in used_numbers else max(used_numbers) + 1
            fields[name] = replace(declared, number=number)
            used_numbers.add(number)
    return fields


def _fitting(name: str, declared: Field, placed: Sequence[Placed]) -> Field:
    """Return the declared field if it can hold all the given values, else one whose type is inferred from them."""
    values = [(place, message[name]) for place, message in placed if name in message]
    try:
        for _, value in values:
            declared.convert(value)
    except LayerError:
        return inferred_field(name, declared.number, values)
    return inferred_field(name, declared.number, values) if declared.kind == "any" and values else declared


def own_message(type_: str, classes: Mapping[str, type[Message] | None] | None = None) -> str:
    """Return the field name of a layer type's parameter message, as declared or derived from the type's name."""
    cls: Any = (classes or {}).get(type_)
    owners: list[Any] = [cls] if cls is not None else [d.cls for d in Registry.of("caffe").find(type_) if d.typed]
    declared = [c.message for c in owners if getattr(c, "message", "")]
    return declared[0] if declared else snake(type_) + "_param"


def snake(type_: str) -> str:
    """Return a layer type in snake case: ShuffleChannel -> shuffle_channel."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type_)
    return re.sub(r"\W", "_", words).lower()


# ---- types of undeclared fields

_TRUTH_WORDS = ("t", "f", "True", "False")
_RANGES = (("int32", -(2**31), 2**31), ("int64", -(2**63), 2**63), ("uint64", 0, 2**64))


def message_class(name: str, fields: Fields, origin: Any = None) -> type[Message]:
    """Return a new message class with these fields. `origin` is the class that it is derived from."""
    return type(name, (Message,), {**fields, "origin": origin})


def inferred_fields(messages: Iterable[Placed], known: Fields) -> dict[str, Field]:
    """Return the fields that all these messages need: the `known` ones, then the inferred ones.

    Inferred fields are numbered in order of occurrence, after the largest known number.
    """
    placed_by_name: dict[str, list[Placed]] = {}
    for place, values in messages:
        for name, value in values.items():
            placed_by_name.setdefault(name, []).append((place, value))
    fields = dict(known)
    for name, values in placed_by_name.items():
        if name not in fields:
            number = max((f.number for f in fields.values()), default=0) + 1
            fields[name] = inferred_field(name, number, values)
    return fields


def inferred_field(name: str, number: int, given: Sequence[Placed]) -> Field:
    """Return a field that can hold all these values.

    Raises LayerError where no type of protobuf can.
    """
    repeated = any(isinstance(value, (list, tuple)) for _, value in given)
    values = [(place, one) for place, value in given for one in as_list(value)]
    return Field(number, _kind(name, values), None, repeated, name=name)


def _category(value: object) -> str:
    """Return the category of a value in the words of an error message."""
    if isinstance(value, Mapping):
        return "a message"
    if is_truth(value):
        return "true or false"
    if isinstance(value, Word):
        return "a word"
    if isinstance(value, str):
        return "a quoted string"
    return "an integer" if isinstance(value, (int, np.integer)) else "a number"


def _kind(name: str, placed: Sequence[Placed]) -> Kind:
    """Return the type that can hold all values of a field. Raises LayerError where there is none."""
    categories: dict[str, Placed] = {}
    for place, value in placed:
        categories.setdefault(_category(value), (place, value))
    values = [value for _, value in placed]
    if not categories or (set(categories) <= {"a quoted string", "a word"} and "a quoted string" in categories):
        return "string"
    if set(categories) == {"a message"}:
        return message_class(name, inferred_fields(placed, {}))
    if "true or false" in categories and all(map(_is_bool, values)):
        return "bool"
    if "a word" in categories and set(categories) <= {"a word", "an integer"}:
        return _enum(name, values)
    if set(categories) <= {"true or false", "an integer"}:
        return _integer(name, placed)
    if set(categories) <= {"true or false", "an integer", "a number"}:
        return _fraction(name, placed)
    (first, (here, one)), (second, (there, other)) = list(categories.items())[:2]
    elsewhere = there if there != here else "the same layer"
    raise LayerError(
        f"field '{name}' is {first} ({_excerpt(one)}) here and {second} ({_excerpt(other)}) in {elsewhere}, but a "
        "field of protobuf has one type. Write the same kind of value in both",
        here,
    )


def _is_bool(value: object) -> bool:
    """Return whether a field of type bool can hold the value. Protobuf also reads 0, 1, t and f."""
    if isinstance(value, str):
        return value in _TRUTH_WORDS
    return is_truth(value) or (isinstance(value, (int, np.integer)) and int(value) in (0, 1))


def _excerpt(value: object) -> str:
    text = "{ ... }" if isinstance(value, Mapping) else str(value)
    return shortened(text, 40)


def _integer(name: str, placed: Sequence[Placed]) -> str:
    numbers = [int(value) for _, value in placed]
    for kind, low, high in _RANGES:
        if low <= min(numbers) and max(numbers) < high:
            return kind
    place = placed[numbers.index(max(numbers))][0]
    raise LayerError(
        f"field '{name}' has values from {min(numbers)} to {max(numbers)}; no integer type of protobuf holds both",
        place,
    )


def _fraction(name: str, placed: Sequence[Placed]) -> str:
    """Return "float" if it holds every value exactly, else "double"."""
    for place, value in placed:
        with at(place):
            need(
                not isinstance(value, (int, np.integer)) or int(float(value)) == value,
                f"field '{name}' is {value} here and a fraction elsewhere; no number type of protobuf holds both",
                LayerError,
            )
    with np.errstate(over="ignore"):
        single = all(float(np.float32(v)) == v or v != v for _, v in placed)
    return "float" if single else "double"


def _enum(name: str, values: Sequence[Any]) -> Enum:
    """Return an enum that has every word, numbered from 0, and a name for every number."""
    numbers = dict.fromkeys(int(v) for v in values if not isinstance(v, str))
    words: dict[str, int] = {}
    unused = 0
    for word in dict.fromkeys(str(v) for v in values if isinstance(v, str)):
        while unused in numbers:
            unused += 1
        words[word], unused = unused, unused + 1
    for number in numbers:
        sign = "MINUS_" if number < 0 else ""
        words[f"{name.upper()}_{sign}{abs(number)}"] = number
    enum = Enum()
    enum.numbers.update(words)
    return enum
