"""The Keras reader: from .keras, HDF5 (.h5, .hdf5) of Keras 2 and 3, or JSON with a weights file, to a Network.

A model in memory (network_of_model) is read through Keras' public attributes. The reader does not need Keras.

archive.py  finds a model's parts in a file or folder
weights.py  reads the weights, by layer
config.py   reads the layers that the JSON lists, and how they are called
graph.py    makes the Network
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, InputError
from anylayer.libraries import hdf5
from anylayer.network import Array, Network
from anylayer.readers import Option
from anylayer.readers._json import parse
from anylayer.readers.keras import archive
from anylayer.readers.keras.graph import network_of
from anylayer.readers.keras.weights import LayerName, NamedLayer, NoWeights, WeightGroup

WHAT = "a Keras model (.keras, .h5, .json)"
OPTIONS: dict[str, Option] = {}

_HEAD = 1 << 16


def match(path: Path) -> bool:
    """Return whether a file or folder is a Keras model, or holds the weights of one, judged by its content."""
    if path.is_dir():
        return (path / archive.CONFIG).is_file() and (path / archive.WEIGHTS).is_file()
    with path.open("rb") as handle:
        head = handle.read(_HEAD)
    if head.startswith(b"PK\x03\x04"):
        return _is_archive(path)
    if head.startswith(archive.HDF5):
        return _is_hdf5(path)
    return bool(
        re.match(rb"\s*\{", head)
        and re.search(rb'"class_name"\s*:\s*"', head)
        and re.search(rb'"config"\s*:', head)
    )


def _is_archive(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archived:
            names = set(archived.namelist())
    except archive.ZIP_ERRORS:
        return b"config.json" in path.open("rb").read(_HEAD)
    has_parts = bool(names & {archive.WEIGHTS, "metadata.json"})
    return archive.CONFIG in names and (has_parts or path.suffix.lower() == ".keras")


def _is_hdf5(path: Path) -> bool:
    """Return whether an HDF5 file has Keras' groups.

    The answer is also True for a damaged file, so that `read` reports the damage.
    """
    try:
        with hdf5.opened(path) as file:
            return (
                bool({"layers", "vars", "model_weights", "_layer_checkpoint_dependencies"} & set(file))
                or any(map(file.has, ("model_config", "layer_names")))
                or any(isinstance(file.member(f"{name}/vars"), hdf5.Group) for name in file)
            )
    except FileError:
        return True


def read(path: Path, weights: Path | None, *, user_types: frozenset[str], **options: Any) -> Network:
    """Return the network of a Keras model.

    path: a .keras archive (or the folder it was unpacked to), an HDF5 file with the whole model, or the JSON of
    `model.to_json()`. weights: an HDF5 file whose weights replace the model's own. The network of a JSON file
    without it has no weights. user_types: the types that the user defines. A Lambda layer whose name is among them
    becomes a node of that type.

    Raise FileError or NetworkError.
    """
    with archive.open_model(path, weights) as model:
        network = network_of(model.config, model.weights, model.version, str(path), user_types)
    if weights is not None:
        network.weights = str(weights)
    return network


@contextmanager
def weights_alone(path: Path) -> Iterator[list[NamedLayer] | None]:
    """Open a file of weights, and yield its layers; None where the file has a network, too."""
    if zipfile.is_zipfile(path):
        yield None
        return
    with hdf5.opened(path) as file:
        has_network = file.has("model_config")
    with nullcontext() if has_network else archive.weights_file(path) as group:
        yield None if group is None else group.list_layers()


class LiveWeights:
    """The weights of a layer or a model in memory: see WeightGroup."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def layers(self, layers: Sequence[LayerName]) -> dict[str, WeightGroup]:
        by_name = {layer.name: layer for layer in getattr(self._layer, "layers", ())}
        return {name: LiveWeights(by_name[name]) if name in by_name else NoWeights() for name, _ in layers}

    def inner_weights(self) -> WeightGroup:
        return LiveWeights(self._layer.layer)

    def list_layers(self) -> list[NamedLayer]:
        return []

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
