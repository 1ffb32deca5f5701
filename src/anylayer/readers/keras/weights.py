"""The weights of a Keras model, by layer: as Keras 3 stores them (by object), and as Keras 2 does (by name)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from anylayer.errors import FileError, at, nearest, need, some
from anylayer.libraries import hdf5
from anylayer.network import Array
from anylayer.readers._arrays import to_float32
from anylayer.readers._limits import MAX_GRAPH_NESTING

LayerName = tuple[str, str]
"""The name of a layer and the name of its class."""

_PARTS = (
    "forward_layer", "backward_layer", "query_dense", "key_dense", "gate_dense", "value_dense", "output_dense",
)  # fmt: skip
"""Parts of layers that get_weights lists first, in this order. It lists all other parts in alphabetical order."""
_RANDOM_STATE = ("seed_generator", "random_generator", "_random_generator")
"""Parts that hold the state of random number generators."""
_NO_LAYERS = ("optimizer", "_loss_tracker", "_compile_metrics", "_compile_loss")
"""Attributes of a compiled model that hold the state of its training."""


class WeightGroup(Protocol):
    """The weights of a model or a layer."""

    def layers(self, layers: Sequence[LayerName]) -> dict[str, WeightGroup]:
        """Return the weights of a model's layers by name. `layers` lists all layers in the model's order."""

    def inner_weights(self) -> WeightGroup:
        """Return the weights of the layer that a wrapper contains."""

    def arrays(self, config: object = None) -> list[Array]:
        """Return a layer's weights in the order of get_weights. Floating-point weights are float32.

        `config`, the layer's configuration, states the order of its cells.
        """

    def list_layers(self) -> list[NamedLayer]:
        """Return the layers with weights that a file holds, in the file's order."""


@dataclass(frozen=True, slots=True)
class NamedLayer:
    """A layer in a file of weights. `names` are its path in the file (without "layers/"), its name if the file
    states it, and the last part of the path."""

    names: tuple[str, ...]
    weights: WeightGroup

    def __str__(self) -> str:
        title = f" ({self.names[1]})" if self.names[1:2] not in ((), ("",), self.names[2:]) else ""
        shapes = " ".join(str(list(array.shape)) for array in self.weights.arrays())
        return f"{self.names[0]}{title} {shapes}"


def layer_named(layers: Sequence[NamedLayer], name: str) -> NamedLayer | None:
    """Return the layer of this name: by its path, else by its own name, else by the last part of its path.

    Raise FileError if several layers have the name.
    """
    for place in range(3):
        matches = [layer for layer in layers if layer.names[place : place + 1] == (name,)]
        paths = ", ".join(layer.names[0] for layer in matches)
        need(len(matches) < 2, f"several layers are called '{name}': {paths}; use these paths as names", FileError)
        if matches:
            return matches[0]
    return None


class NoWeights:
    """The weights of a model without weights."""

    def layers(self, layers: Sequence[LayerName]) -> dict[str, WeightGroup]:
        return {name: self for name, _ in layers}

    def inner_weights(self) -> WeightGroup:
        return self

    def list_layers(self) -> list[NamedLayer]:
        return []

    def arrays(self, config: object = None) -> list[Array]:
        return []


class ObjectWeights:
    """The weights in a group of a Keras 3 file.

    Variables are in `vars/0`, `vars/1` and so on, parts of a layer in groups named after attributes, and the
    layers of a model in `layers/<class>_<number>` (keras/src/saving/saving_lib.py).
    """

    def __init__(self, group: hdf5.Group, path: str, depth: int = 0) -> None:
        need(depth < MAX_GRAPH_NESTING, f"groups are nested deeper than {MAX_GRAPH_NESTING}", FileError)
        self._group, self._path, self._depth = group, path, depth

    def _child(self, name: str) -> ObjectWeights | None:
        member = self._group.member(name)
        path = f"{self._path}/{name}" if self._path else name
        return ObjectWeights(member, path, self._depth + 1) if isinstance(member, hdf5.Group) else None

    def layers(self, layers: Sequence[LayerName]) -> dict[str, WeightGroup]:
        listed = self._child("layers") or self._child("_layer_checkpoint_dependencies")
        if listed is None:  # the weights of a subclass of Model, whose groups are named after attributes
            return self._by_name(_names(layers))
        keys = dict(zip(_group_names(layers), _names(layers)))
        for key in set(listed._group) - set(keys):
            child = listed._child(key)
            unused = child is not None and child.arrays()
            need(not unused, f"the weights in '{listed._path}/{key}' belong to no layer of the model", FileError)
        return {name: child for key, name in keys.items() if (child := listed._child(key)) is not None}

    def _by_name(self, names: Sequence[str]) -> dict[str, WeightGroup]:
        """Return the weights of the layers with these names. Raise FileError if the file has others."""
        groups = [NamedLayer(g._names(), g) for g in self._groups() if g is not self]
        by_name = {name: layer for name in names if (layer := layer_named(groups, name)) is not None}
        used = tuple(f"{layer.names[0]}/" for layer in by_name.values())
        others = [s.names[0] for s in self.list_layers() if not f"{s.names[0]}/".startswith(used or ("//",))]
        hint = nearest(others[0], names) if others else ""
        need(not others, f"the weights of {some(others)} belong to no layer of the model{hint}", FileError)
        return {name: layer.weights for name, layer in by_name.items()}

    def _groups(self) -> Iterator[ObjectWeights]:
        """Yield this group and the groups of all layers and parts of layers below it."""
        yield self
        for key in self._group:
            child = None if key == "vars" or (key in _NO_LAYERS and not self._depth) else self._child(key)
            if child is not None and key not in _RANDOM_STATE:
                yield from child._groups()

    def _names(self) -> tuple[str, ...]:
        variables = self._child("vars")
        path = self._path.replace("layers/", "")
        return path, variables._group.text("name") if variables is not None else "", path.rpartition("/")[2]

    def list_layers(self) -> list[NamedLayer]:
        return [
            NamedLayer(group._names(), group)
            for group in self._groups()
            if (variables := group._child("vars")) is not None and any(k.isdigit() for k in variables._group)
        ]

    def inner_weights(self) -> WeightGroup:
        return self._child("layer") or NoWeights()

    def arrays(self, config: object = None) -> list[Array]:
        variables = self._child("vars")
        collected: list[Array] = []
        if variables is not None:
            keys = sorted((k for k in variables._group if k.isdigit()), key=int)
            need(
                keys == [str(i) for i in range(len(keys))],
                f"'{variables._path}' has the variables {', '.join(keys)}, so one is missing",
                FileError,
            )
            for key in keys:
                collected.append(_values(variables._group.member(key), f"'{variables._path}/{key}'"))
        parts = _parts(config)
        order = {key: place for place, key in enumerate(parts)} if isinstance(config, list) else {}
        for key in sorted(self._group, key=lambda key: (order.get(key, len(order)), _part_order(key))):
            if key != "vars" and key not in _RANDOM_STATE:
                child = self._child(key)
                collected.extend(child.arrays(parts.get(key)) if child is not None else [])
        return collected


def _parts(config: object) -> dict[str, object]:
    """Return the configurations of a layer's parts, or of a list of parts, by the names of their groups."""
    if isinstance(config, list):
        specs = [spec if isinstance(spec, dict) else {} for spec in config]
        configs: dict[str, object] = dict(
            zip(_group_names([("", str(s.get("class_name"))) for s in specs]), specs)
        )
    else:
        configs = dict(config) if isinstance(config, dict) else {}
        forward = configs.get("layer")
        configs |= {"forward_layer": forward, "backward_layer": configs.get("backward_layer") or forward}
    return {key: spec.get("config") if isinstance(spec, dict) else spec for key, spec in configs.items()}


def _part_order(key: str) -> tuple[int, str, int]:
    """Return the key by which the parts of a layer are sorted."""
    bare = key.removeprefix("_")
    stem, number = _split_number(bare)
    return (_PARTS.index(bare) if bare in _PARTS else len(_PARTS), stem, number)


def _split_number(name: str) -> tuple[str, int]:
    """Return the parts of a name such as "conv2d_3", or the name and 0 if it has no number."""
    match = re.fullmatch(r"(.*?)_(\d{1,9})", name)
    return (match[1], int(match[2])) if match else (name, 0)


def _names(layers: Sequence[LayerName]) -> list[str]:
    return [name for name, _ in layers]


def _group_names(layers: Sequence[LayerName]) -> list[str]:
    """Return the names of the layers' groups: the class in snake case, numbered from the second of a class on."""
    used: dict[str, int] = {}
    keys = []
    for _, kind in layers:
        name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", kind))
        name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
        used[name] = used.get(name, -1) + 1
        keys.append(f"{name}_{used[name]}" if used[name] else name)
    return keys


class NamedWeights:
    """The weights in a group of a Keras 2 file.

    `layer_names` lists a model's layers. Each is a group whose `weight_names` lists its weights
    (keras/src/legacy/saving/legacy_h5_format.py). The group of a nested model has the weights of all its layers,
    whose names begin with the layers' names.
    """

    def __init__(self, groups: dict[str, hdf5.Group] | None, named: list[tuple[str, hdf5.Dataset]]) -> None:
        self._groups, self._named = groups, named

    @classmethod
    def of(cls, group: hdf5.Group) -> NamedWeights:
        """Return the weights in a group that has `layer_names`. Raise FileError if a listed layer is missing."""
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

    def layers(self, layers: Sequence[LayerName]) -> dict[str, WeightGroup]:
        if self._groups is None:
            return self._split(layers)
        by_layer = {name: self._weights(name, group) for name, group in self._groups.items()}
        names = _names(layers)
        filled = [name for name, weights in by_layer.items() if weights._named]
        if not set(filled) <= set(names):
            by_layer = _matched_by_order(by_layer, filled, names)
        return {name: by_layer[name] for name in names if name in by_layer}

    def _weights(self, layer: str, group: hdf5.Group) -> NamedWeights:
        members = []
        for name in group.texts("weight_names") or []:
            member = group.member(name)
            if not isinstance(member, hdf5.Dataset):
                raise FileError(f"the weights of layer '{layer}' lack '{name}', which 'weight_names' lists")
            members.append((name, member))
        return NamedWeights(None, members)

    def _split(self, layers: Sequence[LayerName]) -> dict[str, WeightGroup]:
        """Group the weights of a nested model by the layer whose name is part of their names."""
        names = set(_names(layers))
        weights_of: dict[str, NamedWeights] = {}
        for name, member in self._named:
            parts = name.split("/")
            owner = next((part for part in parts[:-1] if part in names), None)
            if owner is None:
                examples = ", ".join(sorted(names)[:8])
                raise FileError(f"weight '{name}' of a nested model names none of its layers: {examples}")
            rest = "/".join(parts[parts.index(owner) + 1 :])
            weights_of.setdefault(owner, NamedWeights(None, []))._named.append((rest, member))
        return dict(weights_of)

    def inner_weights(self) -> WeightGroup:
        return self

    def list_layers(self) -> list[NamedLayer]:
        layers = {name: self._weights(name, group) for name, group in (self._groups or {}).items()}
        return [NamedLayer((name,), weights) for name, weights in layers.items() if weights._named]

    def arrays(self, config: object = None) -> list[Array]:
        return [
            _values(member, f"weight '{name}'")
            for name, member in self._named
            if not any(part in _RANDOM_STATE for part in name.split("/"))
        ]


def _matched_by_order(
    by_layer: dict[str, NamedWeights], filled: Sequence[str], names: Sequence[str]
) -> dict[str, NamedWeights]:
    """Return the weights of another instance of the model, whose layers Keras numbered differently.

    The first layer named conv2d_... of one instance is the first one of the other, and so on. `filled` are the
    layers with weights, and `names` the layers of the model.
    """
    names_by_stem: dict[str, list[str]] = {}
    for name in names:
        names_by_stem.setdefault(_split_number(name)[0], []).append(name)
    matches: dict[str, NamedWeights] = {}
    used: dict[str, int] = {}
    for name, weights in by_layer.items():
        stem = _split_number(name)[0]
        place = used.get(stem, 0)
        used[stem] = place + 1
        if place < len(names_by_stem.get(stem, ())):
            matches[names_by_stem[stem][place]] = weights
        else:
            need(name not in filled, f"the weights of '{name}' belong to no layer of the model", FileError)
    return matches


def _values(member: hdf5.Group | hdf5.Dataset | None, what: str) -> Array:
    """Return the values of a dataset. Floating-point values become float32. `what` names the dataset."""
    if not isinstance(member, hdf5.Dataset):
        raise FileError(f"{what} is not an array")
    with at("weights"):
        values = member.values(what)
    return to_float32(values) if values.dtype.kind == "f" else values
