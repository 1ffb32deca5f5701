"""What a node can mean: its class in each dialect, and the values of fields that the file leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.nodes import run_bound
from anylayer.compile.plan import no_weights
from anylayer.errors import AnyLayerError
from anylayer.layer import Layer, Registry, bind
from anylayer.layer.bound import choose
from anylayer.network import ABSENT, Array, Node, TensorType
from anylayer.readers import load_reader

if TYPE_CHECKING:
    from anylayer.api import Net


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a layer type means: its class in a dialect, and a `change`, which is a value that the file leaves out.

    A `dialect` of None means that no dialect is given.
    """

    dialect: str | None = None
    change: str = ""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """Values to write into a layer's parameters: `text` is "batch_norm_param { eps: 0.001 }"."""

    node: Node
    message: str
    values: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The values as a prototxt has them."""
        return f"{self.message} {{ {' '.join(self._fields())} }}"

    def _fields(self) -> Iterator[str]:
        for name, value in self.values.items():
            yield from (f"{name}: {one}" for one in (value if isinstance(value, list) else [value]))

    def apply(self) -> Node:
        """Return the node with the values."""
        values = {**self.node.params.get(self.message, {}), **self.values}
        return replace(self.node, params={**self.node.params, self.message: values})


class Meanings:
    """The meanings of a network's nodes.

    `dialects` are those that matter to one of its types, None first. `others` are those in which the file has
    other nodes, inputs or weights, since a type has another role in them, or other weights; it must be read in
    them.
    """

    def __init__(self, net: Net) -> None:
        self._network, self._definitions = net.network, net.definitions
        dialect = net.network.dialect
        self._nodes: dict[str | None, Sequence[Node] | AnyLayerError] = {dialect: net.network.nodes}
        self._forks: dict[str, list[str | None]] = {n.type: [dialect] for n in net.network.nodes}
        self.others = [] if dialect is not None else list(dict.fromkeys(self._to_read_again()))
        if dialect is None:
            self._add_forks(Registry.of(net.network.format))
        self.dialects = list(dict.fromkeys([dialect, *(d for forks in self._forks.values() for d in forks)]))
        self.found: dict[tuple[str, str], dict[str, FieldChange]] = {}
        """The changes that were listed, by type and text, and by the name of the node."""

    def _to_read_again(self) -> Iterator[str]:
        fills = hasattr(load_reader(self._network.format), "fill")  # the layers decide where their weights are
        for type_ in self._forks:
            classes = [d for d in self._definitions[type_] if d.built_in and d.typed]
            for definition in classes:
                if fills or definition.layer_class.role != classes[0].layer_class.role:
                    yield from definition.dialects

    def _add_forks(self, registry: Registry) -> None:
        """List the dialects of each type, and complete the network as the reader does for some dialects."""
        for node in self._network.nodes:
            forks = self._forks[node.type]
            for definition in self._definitions[node.type]:
                if definition.built_in:
                    written = _fields_of(node, definition.layer_class)
                    candidates = [*forks, *self.others]
                    forks += [name for name in definition.forks(written) if name not in candidates]
        complete = getattr(load_reader(self._network.format), "complete", None)
        for dialect in sorted(registry.dialects().difference(self.others)) if complete is not None else ():
            self._complete(dialect, complete)

    def _complete(self, dialect: str, complete: Any) -> None:
        """Add a dialect in which the reader computes params of nodes from the network."""
        network = replace(
            self._network,
            nodes=[replace(n, params=dict(n.params)) for n in self._network.nodes],
            dialect=dialect,
            notes=[],
        )
        aligned = {t for t in self._forks for d in self._definitions[t] if getattr(d.cls, "aligned", False)}
        if not aligned:
            return
        try:
            complete(network, self._definitions)
        except AnyLayerError as error:
            self._nodes[dialect] = error
            changed = aligned
        else:
            changed = {n.type for n, other in zip(network.nodes, self._network.nodes) if n.params != other.params}
            self._nodes[dialect] = network.nodes
        for type_ in changed:
            if dialect not in self._forks[type_]:
                self._forks[type_].append(dialect)

    def dialect_of(self, type_: str, dialect: str | None) -> str | None:
        """Return the dialect that decides what a type means in a network of `dialect`: itself, or None where the
        type has no meaning of its own in it."""
        forks = self._forks[type_]
        return dialect if dialect in forks else forks[0]

    def changes_with(self, type_: str, dialect: str | None) -> list[FieldChange]:
        """Return the params of a type's nodes that the reader computes in a dialect, and no layer class."""
        changes = []
        for original, node in zip(self._network.nodes, self._nodes_in(dialect)):
            if original.type == type_ and original.params != node.params:
                message = self.layer_class(type_, dialect).message
                changes.append(FieldChange(original, message, node.params[message]))
        return changes

    def layer_class(self, type_: str, dialect: str | None) -> type[Layer]:
        """Return the class of a type in a dialect."""
        node = next(n for n in self._network.nodes if n.type == type_)
        return choose(self._definitions[type_], node, dialect).layer_class

    def of(self, place: int, inputs: Sequence[Array | None], *, changes: bool) -> list[Meaning]:
        """Return the meanings of node number `place`: those in all dialects, and with `changes` also others."""
        node = self._network.nodes[place]
        meanings = []
        for dialect in self._forks[node.type]:
            meanings.append(Meaning(dialect))
            if changes:
                meanings += [Meaning(dialect, text) for text in self._changes(place, dialect, inputs)]
        return meanings

    def _changes(self, place: int, dialect: str | None, inputs: Sequence[Array | None]) -> dict[str, FieldChange]:
        """Return the changes of a node, by their texts."""
        try:
            node = self._nodes_in(dialect)[place]
            definition = choose(self._definitions[node.type], node, dialect)
        except AnyLayerError:
            return {}
        if not (definition.typed and definition.built_in and definition.layer_class.message):
            return {}
        cls = definition.layer_class
        values = _fields_of(node, cls)
        shapes = [() if x is None else x.shape for x in inputs]
        by_text = {text: FieldChange(node, cls.message, new) for text, new in cls.others(values, shapes)}
        for text, change in by_text.items():
            self.found.setdefault((node.type, text), {})[node.name] = change
        return by_text

    def _nodes_in(self, dialect: str | None) -> Sequence[Node]:
        nodes = self._nodes.get(dialect)
        if isinstance(nodes, AnyLayerError):
            raise nodes
        return self._network.nodes if nodes is None else nodes

    def run(self, place: int, meaning: Meaning, inputs: Sequence[Array | None]) -> list[Array]:
        """Compute a node in NumPy. Raise AnyLayerError where it cannot be computed with this meaning."""
        node = self._nodes_in(meaning.dialect)[place]
        if meaning.change:
            change = self._changes(place, meaning.dialect, inputs).get(meaning.change)
            node = node if change is None else change.apply()
        types = [ABSENT if x is None else TensorType(x.shape, x.dtype) for x in inputs]
        bound = bind(node, self._definitions[node.type], types, meaning.dialect, self._network.dtype)
        outputs = [np.asarray(y, order="C") for y in run_bound(bound, inputs)]
        if bound.unfilled:
            raise no_weights(self._network, node, bound.unfilled)
        for y in outputs:
            y.flags.writeable = False
        return outputs


def _fields_of(node: Node, cls: type[Layer]) -> Mapping[str, Any]:
    """Return the fields of a class's message that a node writes."""
    values = node.params.get(cls.message, {})
    return values if isinstance(values, Mapping) else {}
