"""Who reads which version of which blob: Caffe's names made values (net.cpp AppendTop, AppendBottom)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from anylayer.errors import NetworkError, nearest
from anylayer.readers._tree import Block


@dataclass(slots=True, eq=False)
class Version:
    """One value of a blob: as its producer left it. `readers` are (layer, bottom index)."""

    blob: str
    producer: Draft
    readers: list[tuple[Draft, int]] = field(default_factory=list)
    name: str = ""

    @property
    def shared(self) -> bool:
        """Whether several bottoms read it: Caffe inserts a Split, behind which no layer works in place."""
        return len(self.readers) > 1

    @property
    def needed(self) -> bool:
        """Whether a layer that computes reads it."""
        return any(not reader.dropped and reader.role != "sink" for reader, _ in self.readers)


@dataclass(slots=True, eq=False)
class Draft:
    """A layer on its way to a Node. `role` is its class's."""

    block: Block
    name: str
    type: str
    bottoms: list[str]
    tops: list[str]
    role: str = ""
    inputs: list[Version] = field(default_factory=list)
    outputs: list[Version] = field(default_factory=list)
    dropped: bool = False

    @property
    def place(self) -> str:
        return f"{self.block.place()}: layer '{self.name}' ({self.type})"

    @property
    def feeds(self) -> bool:
        """Whether its outputs are the network's inputs."""
        return self.role in ("input", "data")


def connect(layers: list[Draft], left_out: list[Draft], state: str) -> dict[str, list[Version]]:
    """Resolve every bottom; return each blob's versions in order. `left_out` are filtered away: for errors
    only, as is `state`, what the rules were asked.

    Raises NetworkError for a bottom that nothing produced before, and for a blob produced twice.
    """
    blobs: dict[str, list[Version]] = {}
    for i, layer in enumerate(layers):
        for k, bottom in enumerate(layer.bottoms):
            if bottom not in blobs:
                raise NetworkError(_unknown_bottom(bottom, layers[i:], left_out, blobs, state), layer.place)
            version = blobs[bottom][-1]
            version.readers.append((layer, k))
            layer.inputs.append(version)
        for k, top in enumerate(layer.tops):
            in_place = k < len(layer.bottoms) and layer.bottoms[k] == top
            if top in blobs and not in_place:
                first = blobs[top][0].producer
                raise NetworkError(
                    f"top '{top}' is produced by layer '{first.name}'{_line(first)} already. Only a layer whose "
                    f"bottom {k} is '{top}' too may rewrite it",
                    layer.place,
                )
            version = Version(top, layer)
            blobs.setdefault(top, []).append(version)
            layer.outputs.append(version)
    return blobs


def rewritten_though_shared(layers: list[Draft]) -> list[str]:
    """Notes on the blobs that a layer rewrites while others read them, which Caffe refuses (insert_splits.cpp)."""
    notes = []
    for layer in layers:
        for k, version in enumerate(layer.inputs):
            if version.shared and layer.tops[k : k + 1] == [layer.bottoms[k]]:
                others = {f"'{reader.name}'": None for reader, j in version.readers if (reader, j) != (layer, k)}
                who = ", ".join(others)
                notes.append(
                    f"layer '{layer.name}' ({layer.type}) rewrites '{version.blob}', which {who} read "
                    "too: Caffe refuses that. Here they read what was there before"
                )
    return notes


def _line(layer: Draft) -> str:
    return f" (line {layer.block.line})" if layer.block.line else ""


def _unknown_bottom(
    bottom: str, rest: list[Draft], left_out: list[Draft], blobs: dict[str, list[Version]], state: str
) -> str:
    for later in rest:
        if bottom in later.tops:
            return (
                f"bottom '{bottom}' is produced only later, by layer '{later.name}'{_line(later)}. "
                "Caffe computes layers in the order of the file"
            )
    for absent in left_out:
        if bottom in absent.tops:
            return (
                f"bottom '{bottom}' is produced by layer '{absent.name}'{_line(absent)} only, which its include "
                f"and exclude rules leave out at {state}"
            )
    return f"bottom '{bottom}' is produced by no layer{nearest(bottom, blobs)}"


def name_versions(blobs: dict[str, list[Version]]) -> None:
    """Give each value its name: see anylayer.network."""
    taken = dict.fromkeys(blobs, 0)
    for blob, versions in blobs.items():
        keeps = 0 if versions[0].producer.feeds else len(versions) - 1
        for i, version in enumerate(versions):
            if i == keeps:
                version.name = blob
            else:
                version.name = unique(f"{blob}@{version.producer.name}", taken)


def unique(name: str, taken: dict[str, int]) -> str:
    """`name`, or the first of name_1, name_2 ... that is free; taken from then on. `taken` holds each name's last
    number."""
    found, i = name, taken.get(name, 0)
    while found in taken:
        i += 1
        found = f"{name}_{i}"
    taken[name] = i
    taken[found] = taken.get(found, 0)
    return found


def drop_training(layers: list[Draft]) -> list[str]:
    """Drop what serves training, and what only serves its labels.

    A training layer gives way always, a loss where one of its bottoms comes from a data layer. Of the bottoms,
    the one computed in the most steps (of several, from a first top) is the prediction; those computed from other
    inputs are labels. Returns notes.
    """
    origins, steps = _origins(layers)
    first = _any_of(origins, (layer.outputs[0] for layer in layers if layer.feeds and layer.outputs))
    data = _any_of(origins, (v for layer in layers if layer.role == "data" for v in layer.outputs))
    labels: set[int] = set()
    notes = []
    for layer in layers:
        fed = any(data & origins[id(v)] for v in layer.inputs)
        if not layer.inputs or not (layer.role == "training" or (layer.role == "loss" and fed)):
            continue
        layer.dropped = True
        prediction = max(layer.inputs, key=lambda v: (steps[id(v)], bool(origins[id(v)] & first)))
        other = [v for v in layer.inputs if origins[id(v)] and not origins[id(v)] & origins[id(prediction)]]
        labels.update(map(id, other))
        read = ", ".join(f"'{v.blob}'" for v in layer.inputs if v not in other)
        notes.append(f"layer '{layer.name}' ({layer.type}) serves training and is left out; it reads {read}")
    for layer in layers:
        lost = next((v for v in layer.inputs if v.producer.dropped), None)
        if lost is not None and not layer.dropped and layer.role != "sink":
            layer.dropped = True
            notes.append(f"layer '{layer.name}' ({layer.type}) reads '{lost.blob}', which is left out: so is it")
    for layer in reversed(layers):
        if layer.dropped or layer.feeds or not layer.outputs:
            continue
        unread = [v for v in layer.outputs if not v.needed]
        if len(unread) == len(layer.outputs) and any(id(v) in labels for v in unread):
            layer.dropped = True
            labels.update(id(v) for v in layer.inputs)
            notes.append(f"layer '{layer.name}' ({layer.type}) only prepares labels and is left out")
    return notes


def _origins(layers: list[Draft]) -> tuple[dict[int, int], dict[int, int]]:
    """By the identity of a value: the network's inputs it comes from, one bit each, and in how many steps."""
    origins: dict[int, int] = {}
    steps: dict[int, int] = {}
    inputs = 0
    for layer in layers:
        joined = 0
        for version in layer.inputs:
            joined |= origins[id(version)]
        for version in layer.outputs:
            origins[id(version)] = 1 << inputs if layer.feeds else joined
            inputs += layer.feeds
            steps[id(version)] = 1 + max((steps[id(v)] for v in layer.inputs), default=-1)
    return origins, steps


def _any_of(origins: dict[int, int], versions: Iterable[Version]) -> int:
    """The bits of all these values."""
    bits = 0
    for version in versions:
        bits |= origins[id(version)]
    return bits
