"""A Keras model in memory. Its configuration and weights are read through Keras' public attributes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import FileError, InputError
from anylayer.network import Array, Network
from anylayer.readers.keras.archive import parse
from anylayer.readers.keras.graph import network_of
from anylayer.readers.keras.weights import LayerName, NoWeights, WeightGroup


class LiveWeights:
    """The weights of a layer or a model in memory: see WeightGroup."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def layers(self, layers: Sequence[LayerName]) -> dict[str, WeightGroup]:
        by_name = {layer.name: layer for layer in getattr(self._layer, "layers", ())}
        return {name: LiveWeights(by_name[name]) if name in by_name else NoWeights() for name, _ in layers}

    def inner_weights(self) -> WeightGroup:
        return LiveWeights(self._layer.layer)

    def arrays(self, config: object = None) -> list[Array]:
        weights = [np.asarray(array) for array in self._layer.get_weights()]
        # bfloat16 of ml_dtypes has the kind "V"
        return [np.array(a, np.float32 if a.dtype.kind in "fV" else a.dtype) for a in weights]


def is_model(value: Any) -> bool:
    """Return whether a value has the attributes of a Keras model: layers, to_json() and get_weights()."""
    return hasattr(value, "layers") and all(callable(getattr(value, m, None)) for m in ("to_json", "get_weights"))


def network_of_model(model: Any) -> Network:
    """Return the network of a Keras model in memory. Raise InputError if Keras cannot describe it."""
    name = str(getattr(model, "name", "") or "model")
    try:
        config = parse(model.to_json().encode(), "to_json()")
        return network_of(config, LiveWeights(model), str(config.get("keras_version", "")), name, frozenset())
    except FileError as error:
        raise InputError(f"Keras' model '{name}': {error}") from error
    except (NotImplementedError, TypeError, ValueError, json.JSONDecodeError) as error:
        raise InputError(
            f"Keras cannot describe its model '{name}' (to_json raises {type(error).__name__}: {error}). A model "
            "that is Python code must be exported (model.export) and read as a SavedModel"
        ) from error
