"""CaffeNet: a network as Caffe has it, before it is text or bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anylayer.layer import Message
from anylayer.network import Array
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.schema import Fields, Schema


@dataclass(slots=True)
class CaffeLayer:
    """One layer. `params` are its parameter messages by name; `rest` its other fields (loss_weight, include ...);
    `place` leads an error message."""

    name: str
    type: str
    bottoms: list[str] = field(default_factory=list)
    tops: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    blobs: list[Array] = field(default_factory=list)
    rest: dict[str, Any] = field(default_factory=dict)
    place: str = ""

    def values(self) -> dict[str, Any]:
        """LayerParameter's values, but for the blobs."""
        named = {"name": self.name, "type": self.type, "bottom": self.bottoms, "top": self.tops}
        return {**{k: v for k, v in named.items() if v != "" and v != []}, **self.rest, **self.params}


@dataclass(slots=True)
class CaffeNet:
    """Layers in the order they compute. `inputs` are name and shape of inputs that no layer gives (old forks)."""

    name: str = ""
    layers: list[CaffeLayer] = field(default_factory=list)
    inputs: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=lambda: Dialect(""))
    classes: Mapping[str, type[Message]] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """NetParameter's values, but for the layers."""
        found: dict[str, Any] = {"name": self.name} if self.name else {}
        if self.inputs:
            found["input"] = list(self.inputs)
            found["input_shape"] = [{"dim": list(s)} for s in self.inputs.values() if s is not None]
        return {k: v for k, v in found.items() if v != []}

    def fields(self) -> tuple[Schema, list[Fields]]:
        """The schema of all the layers together, and each layer's fields."""
        schema = Schema(self.dialect, self.classes)
        for layer in self.layers:
            schema.layer_fields(layer.type, layer.params | layer.rest)
        return schema, [schema.layer_fields(layer.type, layer.params | layer.rest) for layer in self.layers]
