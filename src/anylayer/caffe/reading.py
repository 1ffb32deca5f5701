"""Read a network for anylayer.caffe.Net, with the layers that anylayer.read leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anylayer.caffe.python_layer import Layer, definition_of, has_module, layer_class
from anylayer.errors import FileError, InputError, at, need, need_name, reading
from anylayer.kernels.files import split
from anylayer.kernels.selection import load_kernels
from anylayer.layer import Definition, Registry, load_layers
from anylayer.layer.native import LoadedKernel
from anylayer.layer.registry import registered
from anylayer.network import Network
from anylayer.readers import caffe as reader
from anylayer.readers.caffe.build import FileLayer

TRAIN, TEST = 0, 1
"""The numbers of the phases, for `include=dict(phase=TRAIN)`."""


@dataclass(slots=True)
class Given:
    """The arguments of Net. `args` are those without a name: the weights' file and the phase, in any order."""

    network_file: str | Path
    args: Sequence[Any]
    weights: str | Path | None
    phase: int
    level: int
    stages: Sequence[str] | None
    layers: Any
    dialect: str | None

    def take_args(self) -> None:
        """Set `weights` and `phase` from the arguments without a name."""
        files = [a for a in self.args if isinstance(a, (str, Path))]
        numbers = [a for a in self.args if isinstance(a, int)]
        need(
            len(files) <= 1 and len(numbers) <= 1 and len(files) + len(numbers) == len(self.args),
            f"Net takes a network's file, its weights' file and TRAIN or TEST, got {tuple(self.args)}",
            InputError,
        )
        self.weights = files[0] if files else self.weights
        self.phase = numbers[0] if numbers else self.phase
        need(self.phase in (TRAIN, TEST), f"phase is TRAIN (0) or TEST (1), got {self.phase}", InputError)


@dataclass(slots=True)
class Found:
    """A network as it was read. `classes` are the classes of its Python layers, by layer type."""

    network: Network
    layers: list[FileLayer]
    users: dict[str, Definition]
    kernels: Mapping[str, LoadedKernel]
    phase: int
    classes: dict[str, type[Layer]] = field(default_factory=dict)

    def complete(self, definitions: Mapping[str, Sequence[Definition]]) -> None:
        """Set the params that follow from the whole network."""
        reader.complete(self.network, definitions)

    def find_classes(self) -> None:
        """Find the classes of the Python layers: the user's, those of their modules, and not the built-in ones."""
        for layer in self.layers:
            node = layer.node
            params = node.params.get("python_param")
            if not isinstance(params, Mapping) or node.type in self.classes:
                continue
            definition = self.users.get(node.type)
            if definition is not None:
                if isinstance(definition.cls, type) and issubclass(definition.cls, Layer):
                    self.classes[node.type] = definition.cls
            elif not Registry.of("caffe").find(node.type) or has_module(str(params.get("module", ""))):
                with at(node.place):
                    self.classes[node.type] = layer_class(params)
            if node.type in self.classes:
                self.users[node.type] = definition_of(self.classes[node.type], len(layer.tops))


def read_given(given: Given) -> Found:
    """Read a network. Raises FileError, NetworkError, LayerError, and InputError for another format."""
    given.take_args()
    path, weights = Path(given.network_file), None if given.weights is None else Path(given.weights)
    for one in (path, weights):
        need_name(one or path)
    with reading(str(path)):
        if not path.exists():
            raise FileError("there is no such file", str(path))
        need(reader.match(path), f"{path} is not a Caffe network; read it with anylayer.read", InputError)
        sources, libraries = split(given.layers)
        users = {**registered(), **load_layers(sources)}
        kernels = load_kernels(libraries, False) if libraries else {}
        built = reader.built(
            path,
            weights,
            frozenset([*users, *kernels]),
            needs_match=False,
            dialect=given.dialect,
            phase="TRAIN" if given.phase == TRAIN else "TEST",
            level=given.level,
            stages=given.stages or (),
        )
    result = Found(built.network, built.layers(), users, kernels, given.phase)
    result.find_classes()
    return result
