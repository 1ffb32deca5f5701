"""Test cases for single layers: the nodes of a network with their inputs, and with their outputs in NumPy."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.errors import InputError, need, need_one_of, wording
from anylayer.generators import Expected, floors_of
from anylayer.network import Array, Node
from anylayer.source import Source, TracedNode


@dataclass(frozen=True, slots=True)
class Case:
    """A node with one set of inputs (None for an absent one), and the outputs that its class computes in NumPy."""

    traced: TracedNode
    inputs: Sequence[Array | None]
    outputs: Sequence[Array]

    @property
    def node(self) -> Node:
        """The node."""
        return self.traced.node

    @property
    def floors(self) -> list[float]:
        """A difference for each output that it may always have: see floors_of."""
        body = self.traced.body
        floors = {} if body is None else floors_of(dict(zip(self.node.outputs, body.outputs)), body.producers)
        return [floors.get(name, 0.0) for name in self.node.outputs]


def chosen_types(source: Source, layers: Sequence[str]) -> set[str]:
    """Return the layer types to generate: `layers`, or if it is empty, the types that the user defines.

    Raises InputError for a type that the network does not have, and if there is no type to generate.
    """
    types = {t.node.type for t in source.nodes}
    for name in layers:
        option = wording("layer", "--layer")
        need_one_of(name, types, f"{option}: there is no layer of type '{name}' in the network")
    chosen = set(layers) or types & source.user_types
    need(
        chosen,
        "the network has no layer of yours; give the file with your layers: " + wording("layers=[...]", "-l"),
        InputError,
    )
    return chosen


def cases_of(source: Source, expected: Expected, types: Collection[str]) -> list[Case]:
    """Return a case for each node of these types and each sample. The network runs in NumPy, node by node."""
    cases: list[Case] = []
    for sample in expected.samples:
        values: dict[str, Array | None] = {"": None, **sample.inputs}
        for t in source.nodes:
            if t.bound is None:
                continue
            inputs = [values[name] for name in t.node.inputs]
            copies = [None if x is None else x.copy() for x in inputs]
            with np.errstate(all="ignore"):
                outputs = [np.array(y) for y in t.bound(copies)]
            values.update(zip(t.node.outputs, outputs))
            if t.node.type in types:
                cases.append(Case(t, inputs, outputs))
    return cases
