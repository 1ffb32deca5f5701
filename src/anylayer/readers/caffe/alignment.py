"""Offsets of Crop layers that follow from the network's geometry, as in HED's fork of Caffe.

For each axis, a map (a, b) takes pixel i of a layer's input to position a*i + b in its output. The maps of
consecutive layers compose. Two blobs with a common ancestor are aligned through the maps from this ancestor to
both.

Source: s9xie/hed src/caffe/layers/crop_layer.cpp and include/caffe/util/coords.hpp. BVLC/caffe
python/caffe/coord_map.py computes the same offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from anylayer.errors import LayerError, at, given, need
from anylayer.layer.bound import choose
from anylayer.layer.contract import IDENTITY, AxisMap, PixelMap
from anylayer.layer.registry import Definition
from anylayer.network import Network, Node

K = TypeVar("K", bound=Hashable)
M = TypeVar("M")


def align(network: Network, definitions: Mapping[str, Sequence[Definition]]) -> None:
    """Set the offsets of every node whose class is `aligned` and that has no params.

    Raise LayerError if the two inputs have no common ancestor, or if no integer offset aligns them.
    """
    producers = {name: node for node in network.nodes for name in node.outputs}
    for node in network.nodes:
        candidates = definitions.get(node.type, ())
        cls = candidates[0].layer_class if candidates and candidates[0].typed else None
        if cls is None or not cls.aligned or node.params.get(cls.message):
            continue
        with at(node.place):
            offsets = [_offset(line) for line in _between(node, producers, definitions, network.dialect)]
        node.params[cls.message] = {"axis": 2, "offset": offsets}
        network.notes.append(
            f"{node.place}: offset {offsets[0]}, {offsets[1]} (rows, columns), computed from the network's "
            "geometry"
        )


def _offset(line: AxisMap) -> int:
    a, b = line
    need(a == 1, f"its two inputs differ in scale by {float(a):g}, so no offset aligns them")
    rule = f"its two inputs are aligned by an offset of {float(-b):g}, expected an integer that is not negative"
    need(b.denominator == 1 and b <= 0, rule)
    return int(-b)


def _between(
    node: Node, producers: Mapping[str, Node], definitions: Mapping[str, Sequence[Definition]], dialect: str | None
) -> PixelMap:
    """Return the map from the pixels of input 0 to those of input 1, through their nearest common ancestor."""
    need(len(node.inputs) == 2, f"it needs 2 inputs, got {len(node.inputs)}")

    def inputs_of(blob: str) -> list[tuple[str, PixelMap]]:
        producer = producers.get(blob)
        if producer is None:
            return []
        cls: Any = choose(definitions.get(producer.type, ()), producer, dialect).cls if producer.type else None
        instance = cls.__new__(cls)
        instance.prepare(producer, dialect)
        step = instance.coordinates()
        if step is None:
            raise LayerError(
                f"layer '{producer.name}' ({producer.type}) between its inputs does not map pixels to pixels"
            )
        return [(name, step) for name in (producer.inputs[:1] if cls.aligned else producer.inputs)]

    between = map_between(node.inputs[0], node.inputs[1], IDENTITY, inputs_of, _compose, _inverse)
    return given(between, "its two inputs have no common ancestor")


def map_between(
    first: K,
    second: K,
    identity: M,
    inputs_of: Callable[[K], Iterable[tuple[K, M]]],
    compose: Callable[[M, M], M],
    inverse: Callable[[M], M],
) -> M | None:
    """Return the map from the pixels of one blob to those of another, through their nearest common ancestor; None
    where they have none. inputs_of: the blobs that a blob is computed from, each with the map between them.
    """

    def walk(start: K) -> Iterator[tuple[K, M]]:
        """Yield a blob and those that it depends on, nearest first, each with the map from it to `start`."""
        seen, waiting = {start}, [(start, identity)]
        while waiting:
            blob, pixels = waiting.pop(0)
            yield blob, pixels
            for name, step in inputs_of(blob):
                if name not in seen:
                    seen.add(name)
                    waiting.append((name, compose(pixels, step)))

    origin = dict(walk(first))
    return next((compose(pixels, inverse(origin[blob])) for blob, pixels in walk(second) if blob in origin), None)


def _compose(first: PixelMap, then: PixelMap) -> PixelMap:
    (a, b), (c, d) = ((f[0] * t[0], f[0] * t[1] + f[1]) for f, t in zip(first, then))
    return (a, b), (c, d)


def _inverse(pixels: PixelMap) -> PixelMap:
    (a, b), (c, d) = ((1 / line[0], -line[1] / line[0]) for line in pixels)
    return (a, b), (c, d)
