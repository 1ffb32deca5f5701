"""The weights of a Keras model, by layer: as Keras 3 stores them (by object), and as Keras 2 did (by name)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.libraries import hdf5
from anylayer.network import Array

LayerName = tuple[str, str]
"""A layer's name and its class's."""

_DEPTH = 32
_PARTS = (
    "forward_layer",
    "backward_layer",
    "query_dense",
    "key_dense",
    "gate_dense",
    "value_dense",
    "output_dense",
)
"""Parts of layers, in the order in which get_weights lists them, where that is not the alphabet's."""
_TRAINING = ("seed_generator", "random_generator", "_random_generator")
"""Parts that hold the state of random numbers."""


class Weights(Protocol):
    """The weights of a model or a layer."""

    def layers(self, layers: Sequence[LayerName]) -> dict[str, Weights]:
        """The weights of a model's layers, by name; `layers` lists all of them in the model's order."""

    def wrapped(self) -> Weights:
        """The weights of the layer that a wrapper holds."""

    def arrays(self) -> list[Array]:
        """A layer's weights in the order of get_weights; floats are float32."""


class NoWeights:
    """A model without weights."""

    def layers(self, layers: Sequence[LayerName]) -> dict[str, Weights]:
        return {name: self for name, _ in layers}

    def wrapped(self) -> Weights:
        return self

    def arrays(self) -> list[Array]:
        return []


class ObjectWeights:
    """A group of Keras 3's files: variables in `vars/0`, `vars/1` ..., parts in groups named after attributes,
    a model's layers in `layers/<class>_<number>` (keras/src/saving/saving_lib.py)."""

    def __init__(self, group: hdf5.Group, path: str, depth: int = 0) -> None:
        need(depth < _DEPTH, f"groups are nested deeper than {_DEPTH}", FileError)
        self._group, self._path, self._depth = group, path, depth

    def _child(self, name: str) -> ObjectWeights | None:
        member = self._group.member(name)
        path = f"{self._path}/{name}" if self._path else name
        return ObjectWeights(member, path, self._depth + 1) if isinstance(member, hdf5.Group) else None

    def layers(self, layers: Sequence[LayerName]) -> dict[str, Weights]:
        listed = self._child("layers") or self._child("_layer_checkpoint_dependencies")
        if listed is None:
            need(not self.arrays(), f"there is no group '{self._path or '/'}layers' in the weights", FileError)
            return {}
        keys = dict(zip(keys_of(layers), names_of(layers)))
        for key in set(listed._group) - set(keys):
            child = listed._child(key)
            spare = child is not None and child.arrays()
            need(not spare, f"the weights in '{listed._path}/{key}' belong to no layer of the model", FileError)
        return {name: child for key, name in keys.items() if (child := listed._child(key)) is not None}

    def wrapped(self) -> Weights:
        return self._child("layer") or NoWeights()

    def arrays(self) -> list[Array]:
        variables = self._child("vars")
        found: list[Array] = []
        if variables is not None:
            keys = sorted((k for k in variables._group if k.isdigit()), key=int)
            need(
                keys == [str(i) for i in range(len(keys))],
                f"'{variables._path}' holds {', '.join(keys)}: one is missing",
                FileError,
            )
            for key in keys:
                found.append(_values(variables._group.member(key), f"'{variables._path}/{key}'"))
        for key in sorted(self._group, key=_part_order):
            if key != "vars" and key not in _TRAINING:
                child = self._child(key)
                found.extend(child.arrays() if child is not None else [])
        return found


def _part_order(key: str) -> tuple[int, str, int]:
    bare = key.removeprefix("_")
    stem, number = _numbered(bare)
    return (_PARTS.index(bare) if bare in _PARTS else len(_PARTS), stem, number)


def _numbered(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*?)_(\d{1,9})", name)
    return (match[1], int(match[2])) if match else (name, 0)


def names_of(layers: Sequence[LayerName]) -> list[str]:
    """The layers' names."""
    return [name for name, _ in layers]


def keys_of(layers: Sequence[LayerName]) -> list[str]:
    """The names of the layers' groups: the class in snake case, numbered from the second of a class on."""
    used: dict[str, int] = {}
    keys = []
    for _, kind in layers:
        name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", kind))
        name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
        used[name] = used.get(name, -1) + 1
        keys.append(f"{name}_{used[name]}" if used[name] else name)
    return keys


class NamedWeights:
    """A group of Keras 2's files: `layer_names` lists a model's layers, each a group whose `weight_names` lists
    its weights (keras/src/legacy/saving/legacy_h5_format.py). A nested model's group holds those of all its
    layers, led by their names."""

    def __init__(self, groups: dict[str, hdf5.Group] | None, named: list[tuple[str, Any]]) -> None:
        self._groups, self._named = groups, named

    @classmethod
    def of(cls, group: hdf5.Group) -> NamedWeights:
        """From a group with `layer_names`."""
        names = group.texts("layer_names")
        if names is None:
            raise FileError("the weights have no list 'layer_names'")
        groups = {}
        for name in names:
            member = group.member(name)
            if not isinstance(member, hdf5.Group):
                raise FileError(f"the weights have no group '{name}', which 'layer_names' lists")
            groups[name] = member
        return cls(groups, [])

    def layers(self, layers: Sequence[LayerName]) -> dict[str, Weights]:
        if self._groups is None:
            return self._split(layers)
        held = {name: self._weights(name, group) for name, group in self._groups.items()}
        names = names_of(layers)
        filled = [name for name, found in held.items() if found._named]
        if not set(filled) <= set(names):
            held = _by_order(held, filled, names)
        return {name: held[name] for name in names if name in held}

    def _weights(self, layer: str, group: hdf5.Group) -> NamedWeights:
        found = []
        for name in group.texts("weight_names") or []:
            member = group.member(name)
            need(
                isinstance(member, hdf5.Dataset),
                f"the weights of layer '{layer}' have no '{name}', which is listed",
                FileError,
            )
            found.append((name, member))
        return NamedWeights(None, found)

    def _split(self, layers: Sequence[LayerName]) -> dict[str, Weights]:
        """A nested model's weights by the layer that their names lead with."""
        names = set(names_of(layers))
        found: dict[str, NamedWeights] = {}
        for name, member in self._named:
            parts = name.split("/")
            owner = next((part for part in parts[:-1] if part in names), None)
            need(
                owner is not None,
                f"weight '{name}' of a nested model names none of its layers: {', '.join(sorted(names)[:8])}",
                FileError,
            )
            rest = "/".join(parts[parts.index(owner or "") + 1 :])
            found.setdefault(owner or "", NamedWeights(None, []))._named.append((rest, member))
        return dict(found)

    def wrapped(self) -> Weights:
        return self

    def arrays(self) -> list[Array]:
        return [
            _values(member, f"weight '{name}'")
            for name, member in self._named
            if not any(part in _TRAINING for part in name.split("/"))
        ]


def _by_order(
    held: dict[str, NamedWeights], filled: Sequence[str], names: Sequence[str]
) -> dict[str, NamedWeights]:
    """Weights of another instance of the model, whose layers Keras numbered differently: the first conv2d_... of
    the one is the first of the other."""
    wanted: dict[str, list[str]] = {}
    for name in names:
        wanted.setdefault(_numbered(name)[0], []).append(name)
    found: dict[str, NamedWeights] = {}
    used: dict[str, int] = {}
    for name in held:
        stem = _numbered(name)[0]
        place = used.get(stem, 0)
        used[stem] = place + 1
        if place < len(wanted.get(stem, ())):
            found[wanted[stem][place]] = held[name]
        else:
            need(name not in filled, f"the weights of '{name}' belong to no layer of the model", FileError)
    return found


def _values(found: Any, what: str) -> Array:
    if not isinstance(found, hdf5.Dataset):
        raise FileError(f"{what} is no array")
    with at("weights"):
        values = found.values(what)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32) if values.dtype.kind == "f" and values.dtype.itemsize != 4 else values
