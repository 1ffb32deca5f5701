"""From the nodes of a symbol and named arrays to a Network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, NetworkError, at, need, some
from anylayer.layer import Layer, Registry
from anylayer.network import MAX_RANK, MAX_VALUES, Array, DType, Network, Node, Subgraph
from anylayer.readers._limits import MAX_NODES
from anylayer.readers._names import layer_place, unique
from anylayer.readers._values import other_texts
from anylayer.readers.mxnet.params import DTYPES
from anylayer.readers.mxnet.symbol import VARIABLE, Entry, Symbol, SymbolNode, parse_attribute

_WITH_AUXILIARY = 900
"""The version since which auxiliary states are inputs."""
_MAX_OUTPUTS = 16 * MAX_NODES
_WEIGHTS = re.compile(r".*_(weight|bias|gamma|beta|(moving|running)_(mean|var)|parameters)")
"""The names of weights, by which MXNet's initializers know them, too."""


def build(
    symbol: Symbol, arrays: Mapping[str, Array], path: Path, weights: str, user_types: frozenset[str]
) -> Network:
    """Return the network of a symbol. Raise FileError or NetworkError."""
    return _SymbolBuilder(symbol, arrays, path, weights, user_types).network


@dataclass(slots=True)
class _SymbolBuilder:
    """A builder of a Network from a symbol and arrays."""

    symbol: Symbol
    arrays: Mapping[str, Array]
    path: Path
    weights: str
    user_types: frozenset[str]
    is_inside: bool = False
    network: Network = field(init=False)
    dtype: DType = field(default_factory=lambda: np.dtype(np.float32))
    values: dict[Entry, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        nodes, heads, file = self.symbol.nodes, self.symbol.heads, str(self.path)
        self.network = Network(
            self.path.stem, "mxnet", {}, [], {}, source=file, weights=self.weights, weights_file=".params file"
        )
        need(heads, "it has no outputs", NetworkError)
        kinds = {array.dtype for array in self.arrays.values() if array.dtype.kind == "f" and array.ndim > 1}
        if len(kinds) == 1:  # MXNet infers the dtype of inputs from the weights of products
            (self.dtype,) = kinds
        counts: dict[int, int] = {}
        if self.is_inside:  # an operator passes all inputs
            counts = {i: 1 for i, node in enumerate(nodes) if node.type == VARIABLE}
        for i, output in self._used():
            counts[i] = max(counts.get(i, 0), output + 1)
        need(
            sum(counts.values()) <= _MAX_OUTPUTS, f"its nodes have more than {_MAX_OUTPUTS} outputs", NetworkError
        )
        for i in sorted(counts):
            if nodes[i].type == VARIABLE:
                need(counts[i] == 1, f"variable '{nodes[i].name}' has one output, not {counts[i]}", NetworkError)
                self._variable(i, nodes[i])
            else:
                self._operator(i, nodes[i], counts[i])
        for i, entry in enumerate(heads):
            self.network.outputs[str(i) if self.is_inside else self.values[entry]] = self.values[entry]
        consumed = {*self.network.outputs.values(), *(name for node in self.network.nodes for name in node.inputs)}
        blobs = {*self.read} - consumed  # of user's classes only
        self.network.nodes = [node for node in self.network.nodes if node.outputs[0] not in blobs]
        self.network.blobs.update({value: value for value in self.values.values() if value not in blobs})
        unread = sorted({*self.arrays} - self.read)
        if unread:
            self.network.notes.append(f"{self.weights}: no node of the network reads {some(unread)}")

    def _inside(self, symbol: Symbol) -> Network:
        """Return the network of a subgraph, whose variables are its inputs, in their order."""
        return _SymbolBuilder(symbol, {}, self.path, self.weights, self.user_types, True).network

    def _used(self) -> set[Entry]:
        """Return the outputs of nodes on which the network's outputs depend, without the labels of losses."""
        used: set[Entry] = set()
        waiting, visited = [*self.symbol.heads], set[int]()
        while waiting:
            entry = waiting.pop()
            used.add(entry)
            if entry[0] not in visited:
                visited.add(entry[0])
                node = self.symbol.nodes[entry[0]]
                waiting += node.inputs[: getattr(_class(node.type), "data_inputs", None)]
        return used

    def _variable(self, number: int, node: SymbolNode) -> None:
        if node.name in self.arrays:
            self.values[number, 0] = self._constant(node.name)
            return
        rule = f"'{node.name}' is a weight, and {self.weights} has no array of this name"
        if not self.weights:
            beside = sorted(path.name for path in self.path.parent.glob("*.params"))
            rule = f"'{node.name}' is a weight, which is in a .params file: give this file after the network"
            rule += f"; in its folder is {some(beside)}" if beside else ""
        need(self.is_inside or not _WEIGHTS.fullmatch(node.name), rule, NetworkError)
        self.values[number, 0] = name = unique(node.name, self.counts)
        need(name == node.name, f"two variables have the name '{node.name}'", NetworkError)
        with at(f"input '{name}'"):
            self._input(name, node.hidden)

    def _constant(self, name: str) -> str:
        """Add the node of an array, and return the name of its value."""
        self.read.add(name)
        value = unique(name, self.counts)
        need(value == name, f"two variables have the name '{name}'", NetworkError)
        place = layer_place(name, VARIABLE, str(self.path))
        self.network.nodes.append(
            Node(unique(name, self.names), VARIABLE, [], [value], blobs=[self.arrays[name]], place=place)
        )
        return value

    def _input(self, name: str, hidden: Mapping[str, str]) -> None:
        """Add an input of the network. Its shape and dtype are those that the variable states."""
        stated = parse_attribute(hidden.get("__dtype__", "None"))
        dtype = self.dtype
        if stated is not None and stated != -1:
            need(type(stated) is int and 0 <= stated < len(DTYPES), f"its dtype {stated} is not known", FileError)
            dtype = np.dtype(DTYPES[int(str(stated))])
        shape = parse_attribute(hidden.get("__shape__", "None"))
        if shape is None:
            self.network.add_input(name, None, dtype)
            return
        sizes = [d if d > 0 else None for d in shape if isinstance(d, int)] if isinstance(shape, list) else []
        fits = isinstance(shape, list) and len(shape) == len(sizes) <= MAX_RANK
        fits = fits and all(d is None or d <= MAX_VALUES for d in sizes)
        need(fits, f"its shape {str(shape)[:60]} is not supported", FileError)
        self.network.add_input(name, sizes, dtype)

    def _operator(self, number: int, node: SymbolNode, outputs: int) -> None:
        kind, network = node.type, self.network
        name = unique(node.name or kind, self.names)
        cls = _class(kind)
        sources = [self.values[entry] for entry in node.inputs[: getattr(cls, "data_inputs", None)]]
        place = layer_place(name, kind, str(self.path))
        with at(place):
            if self.symbol.version < _WITH_AUXILIARY:
                for missing in getattr(cls, "input_names", ())[len(sources) :]:
                    state = f"{node.name}_{missing}"
                    need(state in self.arrays, f"there is no array '{state}'", NetworkError)
                    sources.append(self._constant(state))
        blobs: list[Array] = []
        if kind in self.user_types or cls is Layer:
            blobs = [self.arrays[source] for source in sources if source in self.read]
            sources = [source for source in sources if source not in self.read]
        values = [f"{node.name}_output{'' if outputs == 1 else i}" for i in range(outputs)]
        values = [unique(value, self.counts) for value in values]
        self.values.update({(number, i): value for i, value in enumerate(values)})
        network.blobs.setdefault(name, values[0])
        params: dict[str, object] = {key: parse_attribute(text) for key, text in node.attributes.items()}
        texts = other_texts(params, node.attributes, "attrs")
        version = self.symbol.version
        if node.subgraphs:
            with at(place):
                params["subgraphs"] = [Subgraph(self._inside(symbol), []) for symbol in node.subgraphs]
        network.nodes.append(
            Node(name, kind, sources, values, {"attrs": params}, blobs, place, texts=texts, version=version)
        )


def _class(kind: str) -> type[Layer]:
    """Return the class of a built-in type, or Layer."""
    definitions = Registry.of("mxnet").find(kind)
    return definitions[0].layer_class if definitions else Layer
