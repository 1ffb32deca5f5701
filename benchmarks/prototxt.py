"""Write a network as a prototxt. The generators in networks/ and the networks of one layer use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Word(str):
    """The name of an enum value, which is written without quotes."""


class Prototxt:
    """A network that is built layer by layer. `layer` returns the name of the layer's first top."""

    def __init__(self, name: str) -> None:
        self._parts = [f'name: "{name}"\n']

    def input(self, name: str, shape: Sequence[int]) -> str:
        """Add an Input layer."""
        dims = {"shape": {"dim": list(shape)}}
        return self.layer(name, "Input", (), input_param=dims)

    def layer(
        self, name: str, kind: str, inputs: str | Sequence[str], tops: Sequence[str] | None = None, **messages: Any
    ) -> str:
        """Add a layer named `name` on `inputs`. `tops` are its outputs; without them it has one output with the
        layer's name.
        """
        bottoms = [inputs] if isinstance(inputs, str) else list(inputs)
        fields: dict[str, Any] = {"name": name, "type": kind, "bottom": bottoms, "top": list(tops or [name])}
        self._parts.append(_field("layer", {**fields, **messages}, 0))
        return (tops or [name])[0]

    def text(self) -> str:
        """Return the whole file."""
        return "".join(self._parts)


def _field(name: str, value: Any, depth: int) -> str:
    pad = "  " * depth
    if isinstance(value, Mapping):
        inner = "".join(_field(k, v, depth + 1) for k, v in value.items())
        return f"{pad}{name} {{\n{inner}{pad}}}\n"
    if isinstance(value, (list, tuple)):
        return "".join(_field(name, v, depth) for v in value)
    return f"{pad}{name}: {_value(value)}\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not isinstance(value, Word):
        return f'"{value}"'
    return f"{value}"
