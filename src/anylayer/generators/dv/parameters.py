"""The params of custom layers as C++ structs, with their values."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.generators._cpp import names as empty_names
from anylayer.generators._cpp import string
from anylayer.loops.cpp import number
from anylayer.network import Flag

CALLBACK = "THIS_CALLBACK"
"""Stands for a callback's name in its code, so that equal callbacks can be found."""
INPUTS = "input_places"
"""The member with the places of a layer's inputs."""


@dataclass(slots=True)
class Struct:
    """A struct in C++: `members` are the declarations of its members, `values` the values of one instance.
    `names` maps the params of the layer to the names of their members."""

    members: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


def struct_of(params: Mapping[str, Any], floats: Container[str] = ()) -> Struct:
    """Return a C++ struct with a member for each param of a layer, in the order of the network's file.

    floats: the params that are floats in another layer of the type, so that `add: 2` and `add: 0.5` have one
    struct. A list that contains a float becomes an array of floats. Raises LayerError for a param that is neither
    numbers, booleans nor text.
    """
    names, found = empty_names(), Struct()
    names.new(INPUTS)
    names.new(CALLBACK)
    for name, value in params.items():
        several = isinstance(value, (list, tuple, np.ndarray))
        values = (
            list(np.asarray(value).reshape(-1))
            if isinstance(value, np.ndarray)
            else list(value)
            if several
            else [value]
        )
        if not values or values[0] is None:
            continue
        kind = _kind(name, values)
        kind = "float" if kind == "int" and name in floats else kind
        size = f"[{len(values)}]" if several else ""
        wanted = f"param_{name}" if name.isupper() and len(name) > 1 else name  # it may be a macro
        found.names[name] = names.new(wanted, "param")
        found.members.append(f"{kind:5} {found.names[name]}{size};".replace("char* ", "char *"))
        texts = [_text(v, kind) for v in values]
        found.values.append("{ " + "".join(f"{t}, " for t in texts) + " }" if several else texts[0])
    return found


def _kind(name: str, values: Sequence[Any]) -> str:
    """Return the C++ type that can hold all these values of a param."""
    if all(isinstance(v, (bool, Flag, np.bool_)) for v in values):
        return "bool"
    if all(isinstance(v, (int, np.integer)) for v in values):
        return "int"
    if all(isinstance(v, (int, float, np.number)) for v in values):
        return "float"
    need(all(isinstance(v, str) for v in values), f"parameter '{name}' is neither numbers nor text")
    return "const char*"


def _text(value: Any, kind: str) -> str:
    """Return a value as a C++ literal of the type `kind`."""
    if kind == "bool":
        return "true" if value else "false"
    if kind == "const char*":
        return string(str(value))
    if kind == "int":
        need(-(2**31) <= int(value) < 2**31, f"{value} is not a 32-bit integer")
        return str(int(value))
    if isinstance(value, int) or not np.isfinite(value):
        return str(int(value)) if isinstance(value, int) else number(value, np.dtype(np.float32))
    return repr(float(value))
