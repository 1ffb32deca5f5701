"""Compute the offsets of Crop layers from the network's geometry, as HED's fork of Caffe does.

A layer maps pixel coordinates of its output to those of its input as a*i + b. The maps of consecutive layers
compose, and two blobs with a common ancestor are aligned by the difference of their maps.

Source: s9xie/hed src/caffe/layers/crop_layer.cpp and include/caffe/util/coords.hpp; BVLC/caffe
python/caffe/coord_map.py gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anylayer.errors import LayerError, at, need
from anylayer.layer.bound import choose
from anylayer.layer.contract import IDENTITY, Line, Map
from anylayer.layer.registry import Definition
from anylayer.network import Network, Node


def align(network: Network, definitions: Mapping[str, Sequence[Definition]]) -> None:
    """Set the offsets of each node whose class is `aligned` and that has no params.

    Raises LayerError where the two inputs of a node have no common ancestor, or no integer offset aligns them.
    """
    producers = {name: node for node in network.nodes for name in node.outputs}
    for node in network.nodes:
        found = definitions.get(node.type, ())
        cls: Any = found[0].cls if found and found[0].typed else None
        if cls is None or not cls.aligned or node.params.get(cls.message):
            continue
        with at(node.place):
            offsets = [_offset(line) for line in _between(node, producers, definitions, network.dialect)]
        node.params[cls.message] = {"axis": 2, "offset": offsets}
        network.notes.append(f"{node.place}: offset {offsets[0]}, {offsets[1]} (rows, columns) by the geometry")


def _offset(line: Line) -> int:
    a, b = line
    need(a == 1, f"its two inputs differ in scale by {float(a):g}: no offset aligns them")
    need(b.denominator == 1 and b <= 0, f"no whole offset aligns its two inputs, the geometry gives {float(-b):g}")
    return int(-b)


def _between(
    node: Node, producers: Mapping[str, Node], definitions: Mapping[str, Sequence[Definition]], dialect: str | None
) -> Map:
    """Return the map from pixels of input 0 to pixels of input 1, through their nearest common ancestor."""
    need(len(node.inputs) == 2, f"it needs 2 inputs, got {len(node.inputs)}")

    def inputs_of(blob: str) -> list[tuple[str, Map]]:
        producer = producers.get(blob)
        if producer is None:
            return []
        cls: Any = choose(definitions.get(producer.type, ()), producer, dialect).cls if producer.type else None
        instance = cls.__new__(cls)
        instance.prepare(producer, dialect)
        step = instance.coordinates()
        if step is None:
            raise LayerError(f"layer '{producer.name}' ({producer.type}) between its inputs has no geometry")
        return [(name, step) for name in (producer.inputs[:1] if cls.aligned else producer.inputs)]

    origin: dict[str, Map] = {node.inputs[0]: IDENTITY}
    frontier = [node.inputs[0]]
    while frontier:
        blob = frontier.pop()
        for name, step in inputs_of(blob):
            if name not in origin:
                origin[name] = _compose(origin[blob], step)
                frontier.append(name)
    target: dict[str, Map] = {node.inputs[1]: IDENTITY}
    frontier = [node.inputs[1]]
    while frontier:
        blob = frontier.pop(0)
        if blob in origin:
            return _compose(target[blob], _inverse(origin[blob]))
        for name, step in inputs_of(blob):
            if name not in target:
                target[name] = _compose(target[blob], step)
                frontier.append(name)
    raise LayerError("its two inputs have no common ancestor")


def _compose(first: Map, then: Map) -> Map:
    (a, b), (c, d) = ((f[0] * t[0], f[0] * t[1] + f[1]) for f, t in zip(first, then))
    return (a, b), (c, d)


def _inverse(given: Map) -> Map:
    (a, b), (c, d) = ((1 / line[0], -line[1] / line[0]) for line in given)
    return (a, b), (c, d)
