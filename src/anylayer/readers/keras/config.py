"""The layers that a model's JSON lists, each with its configuration and its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anylayer.errors import FileError, at, need
from anylayer.readers._names import layer_place
from anylayer.readers.keras.calls import LayerCall, calls_of, own_kind

Json = dict[str, Any]
"""A JSON object."""


@dataclass(slots=True)
class LayerConfig:
    """A layer of a model: its configuration, and its calls. `kind` is its class, `module` the class's module."""

    name: str
    kind: str
    module: str
    config: Json
    calls: list[LayerCall]
    keras3: bool = False
    """Return whether its calls are written in Keras 3's form."""

    @property
    def is_operation(self) -> bool:
        """Return whether it is a call of a function of keras.ops instead of a layer object.

        Nearly every layer has `trainable`. Calls of the others (SpatialDropout2D) have `training`.
        """
        untyped = self.keras3 and "trainable" not in self.config and not self.is_input and not self.is_model
        untyped = untyped and not any("training" in call.kwargs for call in self.calls)
        return self.module.startswith("keras.src.ops") or (not self.module and untyped)

    @property
    def is_input(self) -> bool:
        """Return whether it is an input of a model."""
        return ("batch_shape" in self.config or "batch_input_shape" in self.config) and "sparse" in self.config

    @property
    def is_model(self) -> bool:
        """Return whether it is a model with layers of its own."""
        return isinstance(self.config.get("layers"), list)

    @property
    def place(self) -> str:
        """Return the place for an error message."""
        return layer_place(self.name, self.kind)


def layer_config(item: Any, layers: Sequence[str] = ()) -> LayerConfig:
    """Return a layer from an item of a model's list. `layers` are the names of all layers of the model.

    Raise FileError for an item that does not describe a layer.
    """
    need(isinstance(item, dict), f"a layer must be an object, got {item!r}", FileError)
    kind, config = item.get("class_name"), item.get("config")
    if not isinstance(kind, str) or not isinstance(config, dict):
        raise FileError("a layer must have class_name and config")
    name, kind = layer_name(item), own_kind(item, kind)
    need(name, f"a layer ({kind}) has no name", FileError)
    module, nodes = item.get("module"), item.get("inbound_nodes", [])
    with at(layer_place(name, kind)):
        calls = calls_of(nodes, layers)
    keras3 = bool(nodes) and isinstance(nodes[0], dict)
    return LayerConfig(name, kind, module if isinstance(module, str) else "", config, calls, keras3)


def layer_name(item: Json) -> str:
    """Return the name of a layer in a model's list, or "" if it has none."""
    config = item.get("config")
    name = item.get("name") or (config.get("name") if isinstance(config, dict) else None)
    return name if isinstance(name, str) else ""


def wrapped_model(layer: LayerConfig) -> LayerConfig | None:
    """Return the model that a wrapper applies, or None if the layer is not a wrapper or wraps a single layer."""
    wrapped = layer.config.get("layer")
    inner = wrapped.get("config") if isinstance(wrapped, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("layers"), list):
        return None
    return layer_config(wrapped)


def with_dtype_name(config: Json) -> Json:
    """Return a configuration in which the dtype is a name, if the file has a dtype policy that is only a name."""
    policy = config.get("dtype")
    if not isinstance(policy, dict) or policy.get("class_name") not in ("DTypePolicy", "Policy"):
        return config
    inner = policy.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    return {**config, "dtype": name} if isinstance(name, str) else config
