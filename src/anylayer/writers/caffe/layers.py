"""CaffeNet: a network as Caffe has it, before it is text or bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anylayer.layer import Message
from anylayer.network import Array
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.inference import Fields
from anylayer.writers.caffe.schema import Schema, Use


@dataclass(slots=True)
class CaffeLayer:
    """One layer.

    `params` are its parameter messages by name; `rest` its other fields (loss_weight, include ...); `place` leads
    an error message. `given` are the parameters as the source has them, of a layer that is written as it is.
    """

    name: str
    type: str
    bottoms: list[str] = field(default_factory=list)
    tops: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    blobs: list[Array] = field(default_factory=list)
    rest: dict[str, Any] = field(default_factory=dict)
    place: str = ""
    given: Mapping[str, Any] | None = None

    def values(self) -> dict[str, Any]:
        """LayerParameter's values, but for the blobs."""
        named = {"name": self.name, "type": self.type, "bottom": self.bottoms, "top": self.tops}
        return {**{k: v for k, v in named.items() if v != "" and v != []}, **self.rest, **self.params}


@dataclass(slots=True)
class CaffeNet:
    """Layers in the order they compute.

    `inputs` are name and shape of inputs that no layer gives (old forks). `classes` and `declared` are what a user
    declares: see Schema.
    """

    name: str = ""
    layers: list[CaffeLayer] = field(default_factory=list)
    inputs: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=lambda: Dialect(""))
    classes: Mapping[str, type[Message] | None] = field(default_factory=dict)
    declared: Fields = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """NetParameter's values, but for the layers."""
        found: dict[str, Any] = {"name": self.name} if self.name else {}
        if self.inputs:
            found["input"] = list(self.inputs)
            found["input_shape"] = [{"dim": list(s)} for s in self.inputs.values() if s is not None]
        return {k: v for k, v in found.items() if v != []}

    def fields(self) -> tuple[Schema, list[Fields]]:
        """The schema of all the layers together, and each layer's fields."""
        uses = [Use(layer.type, layer.params | layer.rest, layer.place) for layer in self.layers]
        schema = Schema(self.dialect, uses, self.classes, self.declared)
        return schema, [schema.layer_fields(use.params) for use in uses]


def free(name: str, taken: set[str]) -> str:
    """A name that is not taken yet; it is from then on."""
    found, i = name, 1
    while found in taken:
        i += 1
        found = f"{name}_{i}"
    taken.add(found)
    return found
