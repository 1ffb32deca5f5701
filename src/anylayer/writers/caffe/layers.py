"""CaffeNet: a Caffe network as plain data, before it becomes a prototxt, a caffemodel or a caffe.proto."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anylayer.layer import Message
from anylayer.network import Array
from anylayer.protobuf.binary import Fields
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.schema import NetSchema, Use


@dataclass(slots=True)
class CaffeLayer:
    """One layer: a LayerParameter message.

    `params` are its parameter messages by field name, `blobs` its weights, `rest` its other fields (loss_weight,
    include, phase, ...). `place` leads an error message. `given` are the parameters of the source's layer, where
    the layer is written unchanged; the file is compared with them when it is read back.
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
        """Return the values of LayerParameter's fields without the blobs; empty ones are left out."""
        named = {"name": self.name, "type": self.type, "bottom": self.bottoms, "top": self.tops}
        return {**{k: v for k, v in named.items() if v != "" and v != []}, **self.rest, **self.params}


@dataclass(slots=True)
class CaffeNet:
    """A NetParameter message: layers in computing order.

    `inputs` maps the network's own inputs, which forks without an Input layer have, to their shapes. `classes` and
    `declared` are the layer types and the LayerParameter fields that a user declares; see NetSchema.
    """

    name: str = ""
    layers: list[CaffeLayer] = field(default_factory=list)
    inputs: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=lambda: Dialect(""))
    classes: Mapping[str, type[Message] | None] = field(default_factory=dict)
    declared: Fields = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Return the values of NetParameter's fields without the layers; empty ones are left out."""
        values: dict[str, Any] = {"name": self.name} if self.name else {}
        if self.inputs:
            values["input"] = list(self.inputs)
            values["input_shape"] = [{"dim": list(s)} for s in self.inputs.values() if s is not None]
        return {k: v for k, v in values.items() if v != []}

    def fields(self) -> tuple[NetSchema, list[Fields]]:
        """Return the schema that fits all layers, and for each layer its fields by name."""
        uses = [Use(layer.type, layer.params | layer.rest, layer.place) for layer in self.layers]
        schema = NetSchema(self.dialect, uses, self.classes, self.declared)
        return schema, [schema.layer_fields(use.params) for use in uses]
