"""Fields that nothing declares: what they are, told from every value that a network gives them.

A field has one type in the whole file, so it is told from the values of all layers together: integers and
fractions make a float or a double, integers and truth values an integer, words an enum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.errors import LayerError, at, need
from anylayer.layer import Enum, Field, Message
from anylayer.layer.fields import Kind
from anylayer.network import Flag, Word

Fields = Mapping[str, Field]
Placed = tuple[str, Any]
"""A value, behind the place of the layer that gives it."""

_TRUTH_WORDS = ("t", "f", "True", "False")
_RANGES = (("int32", -(2**31), 2**31), ("int64", -(2**63), 2**63), ("uint64", 0, 2**64))


def made_message(name: str, fields: Fields, origin: Any = None) -> type[Message]:
    """Return a message class of these fields."""
    return type(name, (Message,), {**fields, "origin": origin})


def inferred_fields(messages: Iterable[Placed], known: Fields) -> dict[str, Field]:
    """Return the fields of all these values of a message: the `known` ones, then the others in the order in which
    they occur, with the numbers after the largest known one."""
    found: dict[str, list[Placed]] = {}
    for place, values in messages:
        for name, value in values.items():
            found.setdefault(name, []).append((place, value))
    fields = dict(known)
    for name, values in found.items():
        if name not in fields:
            number = max((f.number for f in fields.values()), default=0) + 1
            fields[name] = inferred_field(name, number, values)
    return fields


def inferred_field(name: str, number: int, given: Sequence[Placed]) -> Field:
    """Return the field that holds all these values.

    Raises LayerError where no field of protobuf holds them all.
    """
    repeated = any(isinstance(value, (list, tuple)) for _, value in given)
    values = [(place, one) for place, value in given for one in _listed(value)]
    return Field(number, _kind(name, values), None, repeated, name=name)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def is_truth(value: Any) -> bool:
    """Return whether a value is `true` or `false`."""
    return isinstance(value, (Flag, bool, np.bool_))


def _sort(value: Any) -> str:
    """Return what a value is, as an error message says it."""
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
    sorts: dict[str, Placed] = {}
    for place, value in given:
        sorts.setdefault(_sort(value), (place, value))
    values = [value for _, value in given]
    if not sorts or (set(sorts) <= {"a quoted string", "a word"} and "a quoted string" in sorts):
        return "string"
    if set(sorts) == {"a message"}:
        return made_message(name, inferred_fields(given, {}))
    if "true or false" in sorts and all(map(_is_bool, values)):
        return "bool"
    if "a word" in sorts and set(sorts) <= {"a word", "an integer"}:
        return _enum(name, values)
    if set(sorts) <= {"true or false", "an integer"}:
        return _integer(name, given)
    if set(sorts) <= {"true or false", "an integer", "a number"}:
        return _fraction(name, given)
    (first, (here, one)), (second, (there, other)) = list(sorts.items())[:2]
    elsewhere = there if there != here else "the same layer"
    raise LayerError(
        f"field '{name}' is {first} ({_shown(one)}) here and {second} ({_shown(other)}) in {elsewhere}, but a "
        "field of protobuf has one type. Write it alike in both",
        here,
    )


def _is_bool(value: Any) -> bool:
    """Return whether a field of type bool takes the value: protobuf reads 0, 1, t and f as well."""
    if isinstance(value, str):
        return value in _TRUTH_WORDS
    return is_truth(value) or (isinstance(value, (int, np.integer)) and int(value) in (0, 1))


def _shown(value: Any) -> str:
    text = "{ ... }" if isinstance(value, Mapping) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _integer(name: str, given: Sequence[Placed]) -> str:
    numbers = [int(value) for _, value in given]
    for kind, low, high in _RANGES:
        if low <= min(numbers) and max(numbers) < high:
            return kind
    place = given[numbers.index(max(numbers))][0]
    raise LayerError(
        f"field '{name}' has values from {min(numbers)} to {max(numbers)}, no integer of protobuf holds both",
        place,
    )


def _fraction(name: str, given: Sequence[Placed]) -> str:
    """Return "float" where it holds every value exactly, else "double"."""
    for place, value in given:
        with at(place):
            need(
                not isinstance(value, (int, np.integer)) or int(float(value)) == value,
                f"field '{name}' is {value} here and a fraction elsewhere, no number of protobuf holds both",
                LayerError,
            )
    with np.errstate(over="ignore"):
        single = all(float(np.float32(v)) == v or v != v for _, v in given)
    return "float" if single else "double"


def _enum(name: str, values: Sequence[Any]) -> Enum:
    """Return an enum with a name for every word and for every number."""
    numbers = dict.fromkeys(int(v) for v in values if not isinstance(v, str))
    words: dict[str, int] = {}
    free = 0
    for word in dict.fromkeys(str(v) for v in values if isinstance(v, str)):
        while free in numbers:
            free += 1
        words[word], free = free, free + 1
    for number in numbers:
        sign = "MINUS_" if number < 0 else ""
        words[f"{name.upper()}_{sign}{abs(number)}"] = number
    enum = Enum()
    enum.numbers.update(words)
    return enum
