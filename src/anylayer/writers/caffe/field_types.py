"""Infer the protobuf type of fields that nothing declares from the values that a network gives them.

A field has one type in the whole file, so it is inferred from the values of all layers together: integers and
fractions need a float or a double, integers and truth values an integer, words an enum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.errors import LayerError, at, need, shortened
from anylayer.layer import Enum, Field, Message
from anylayer.layer.fields import Kind
from anylayer.network import Flag, Word

Fields = Mapping[str, Field]
Placed = tuple[str, Any]
"""The place of a layer, which leads an error message, and a value in that layer."""

_TRUTH_WORDS = ("t", "f", "True", "False")
_RANGES = (("int32", -(2**31), 2**31), ("int64", -(2**63), 2**63), ("uint64", 0, 2**64))


def message_class(name: str, fields: Fields, origin: Any = None) -> type[Message]:
    """Return a new message class with these fields. `origin` is the class that it is derived from."""
    return type(name, (Message,), {**fields, "origin": origin})


def inferred_fields(messages: Iterable[Placed], known: Fields) -> dict[str, Field]:
    """Return the fields that all these messages need: the `known` ones, then the inferred ones.

    Inferred fields are numbered in order of occurrence, after the largest known number.
    """
    given: dict[str, list[Placed]] = {}
    for place, values in messages:
        for name, value in values.items():
            given.setdefault(name, []).append((place, value))
    fields = dict(known)
    for name, values in given.items():
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


def as_list(value: Any) -> Sequence[Any]:
    """Return the values of a field as a list, also the single value of a field that is not repeated."""
    return value if isinstance(value, (list, tuple)) else [value]


def is_truth(value: object) -> bool:
    """Return whether a value is `true` or `false`, not a number or a word."""
    return isinstance(value, (Flag, bool, np.bool_))


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


def _kind(name: str, given: Sequence[Placed]) -> Kind:
    """Return the type that can hold all values of a field. Raises LayerError where there is none."""
    categories: dict[str, Placed] = {}
    for place, value in given:
        categories.setdefault(_category(value), (place, value))
    values = [value for _, value in given]
    if not categories or (set(categories) <= {"a quoted string", "a word"} and "a quoted string" in categories):
        return "string"
    if set(categories) == {"a message"}:
        return message_class(name, inferred_fields(given, {}))
    if "true or false" in categories and all(map(_is_bool, values)):
        return "bool"
    if "a word" in categories and set(categories) <= {"a word", "an integer"}:
        return _enum(name, values)
    if set(categories) <= {"true or false", "an integer"}:
        return _integer(name, given)
    if set(categories) <= {"true or false", "an integer", "a number"}:
        return _fraction(name, given)
    (first, (here, one)), (second, (there, other)) = list(categories.items())[:2]
    elsewhere = there if there != here else "the same layer"
    raise LayerError(
        f"field '{name}' is {first} ({_shown(one)}) here and {second} ({_shown(other)}) in {elsewhere}, but a "
        "field of protobuf has one type. Write the same kind of value in both",
        here,
    )


def _is_bool(value: object) -> bool:
    """Return whether a field of type bool can hold the value. Protobuf also reads 0, 1, t and f."""
    if isinstance(value, str):
        return value in _TRUTH_WORDS
    return is_truth(value) or (isinstance(value, (int, np.integer)) and int(value) in (0, 1))


def _shown(value: object) -> str:
    text = "{ ... }" if isinstance(value, Mapping) else str(value)
    return shortened(text, 40)


def _integer(name: str, given: Sequence[Placed]) -> str:
    numbers = [int(value) for _, value in given]
    for kind, low, high in _RANGES:
        if low <= min(numbers) and max(numbers) < high:
            return kind
    place = given[numbers.index(max(numbers))][0]
    raise LayerError(
        f"field '{name}' has values from {min(numbers)} to {max(numbers)}; no integer type of protobuf holds both",
        place,
    )


def _fraction(name: str, given: Sequence[Placed]) -> str:
    """Return "float" if it holds every value exactly, else "double"."""
    for place, value in given:
        with at(place):
            need(
                not isinstance(value, (int, np.integer)) or int(float(value)) == value,
                f"field '{name}' is {value} here and a fraction elsewhere; no number type of protobuf holds both",
                LayerError,
            )
    with np.errstate(over="ignore"):
        single = all(float(np.float32(v)) == v or v != v for _, v in given)
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
