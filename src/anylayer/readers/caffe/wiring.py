"""Connect the layers of a network.

Each version of a blob becomes a value (Caffe's net.cpp, AppendTop, AppendBottom).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from anylayer.errors import NetworkError, nearest
from anylayer.protobuf.tree import Block
from anylayer.readers._names import layer_place, unique


@dataclass(slots=True, eq=False)
class Version:
    """A version of a blob: the value that one producer writes. `consumers` are layers with the index of the
    bottom.

    `name` is the value's name in the network.
    """

    blob: str
    producer: Draft
    consumers: list[tuple[Draft, int]] = field(default_factory=list)
    name: str = ""

    @property
    def is_split(self) -> bool:
        """Return whether the version is read by several bottoms.

        Caffe then inserts a Split, and refuses to rewrite its outputs in place.
        """
        return len(self.consumers) > 1

    @property
    def is_used(self) -> bool:
        """Return whether a layer that computes values reads it."""
        return any(not consumer.dropped and consumer.role != "sink" for consumer, _ in self.consumers)


@dataclass(slots=True, eq=False)
class Draft:
    """A layer before it becomes a Node. `role` is the role of its class; a `dropped` layer becomes no Node."""

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
        return layer_place(self.name, self.type, self.block.place())

    @property
    def is_input(self) -> bool:
        """Return whether its outputs are inputs of the network."""
        return self.role in ("input", "data")


def connect(layers: list[Draft], left_out: list[Draft], state: str) -> dict[str, list[Version]]:
    """Resolve every bottom. Return the versions of each blob, in the order in which they are computed.

    `left_out` are the layers that the rules leave out at `state`; both serve only error messages. Raise
    NetworkError for a bottom that no earlier layer produces, and for a blob that two layers produce.
    """
    blobs: dict[str, list[Version]] = {}
    for i, layer in enumerate(layers):
        for k, bottom in enumerate(layer.bottoms):
            if bottom not in blobs:
                raise NetworkError(_unknown_bottom(bottom, layers[i:], left_out, blobs, state), layer.place)
            version = blobs[bottom][-1]
            version.consumers.append((layer, k))
            layer.inputs.append(version)
        for k, top in enumerate(layer.tops):
            in_place = k < len(layer.bottoms) and layer.bottoms[k] == top
            if top in blobs and not in_place:
                first = blobs[top][0].producer
                raise NetworkError(
                    f"top '{top}' is already produced by layer '{first.name}'{_line(first)}. Only a layer whose "
                    f"bottom {k} is '{top}' too may rewrite it",
                    layer.place,
                )
            version = Version(top, layer)
            blobs.setdefault(top, []).append(version)
            layer.outputs.append(version)
    return blobs


def notes_on_rewritten_blobs(layers: list[Draft]) -> list[str]:
    """Return notes on blobs that a layer rewrites although other layers read them (insert_splits.cpp).

    Caffe refuses such a network. Here the other layers read the value from before.
    """
    notes = []
    for layer in layers:
        for k, version in enumerate(layer.inputs):
            if version.is_split and layer.tops[k : k + 1] == [layer.bottoms[k]]:
                others = {
                    f"'{consumer.name}'": None for consumer, j in version.consumers if (consumer, j) != (layer, k)
                }
                notes.append(
                    f"layer '{layer.name}' ({layer.type}) rewrites '{version.blob}', which {', '.join(others)} "
                    "read too. Caffe refuses that; here they read the value from before"
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
                f"bottom '{bottom}' is produced later, by layer '{later.name}'{_line(later)}. "
                "Caffe computes layers in the order of the file"
            )
    for absent in left_out:
        if bottom in absent.tops:
            return (
                f"bottom '{bottom}' is produced only by layer '{absent.name}'{_line(absent)}, which its include "
                f"and exclude rules leave out at {state}"
            )
    return f"bottom '{bottom}' is produced by no layer{nearest(bottom, blobs)}"


def name_versions(blobs: dict[str, list[Version]]) -> None:
    """Set the name of each version. See anylayer.network for the rule."""
    counts = dict.fromkeys(blobs, 0)
    for blob, versions in blobs.items():
        unchanged = 0 if versions[0].producer.is_input else len(versions) - 1
        for i, version in enumerate(versions):
            if i == unchanged:
                version.name = blob
            else:
                version.name = unique(f"{blob}@{version.producer.name}", counts)


def drop_training(layers: list[Draft]) -> list[str]:
    """Drop the layers that serve only training, and those that only prepare labels. Return notes on them.

    A training layer is always dropped, a loss only if one of its bottoms depends on a data layer. Among its
    bottoms, the one that is computed in the most steps is the prediction (or, if there are several, one that
    depends on the first top of an input layer). Bottoms that depend on none of the prediction's inputs are labels.
    """
    origins, steps = _origins(layers)
    first = _union(origins, (layer.outputs[0] for layer in layers if layer.is_input and layer.outputs))
    data = _union(origins, (v for layer in layers if layer.role == "data" for v in layer.outputs))
    labels: set[Version] = set()
    notes = []
    for layer in layers:
        reads_data = any(data & origins[v] for v in layer.inputs)
        if not layer.inputs or not (layer.role == "training" or (layer.role == "loss" and reads_data)):
            continue
        layer.dropped = True
        prediction = max(layer.inputs, key=lambda v: (steps[v], bool(origins[v] & first)))
        other = [v for v in layer.inputs if origins[v] and not origins[v] & origins[prediction]]
        labels.update(other)
        read = ", ".join(f"'{v.blob}'" for v in layer.inputs if v not in other)
        notes.append(f"layer '{layer.name}' ({layer.type}) serves training and is left out; it reads {read}")
    for layer in layers:
        lost = next((v for v in layer.inputs if v.producer.dropped), None)
        if lost is not None and not layer.dropped and layer.role != "sink":
            layer.dropped = True
            notes.append(
                f"layer '{layer.name}' ({layer.type}) reads '{lost.blob}', which is left out; so is this layer"
            )
    for layer in reversed(layers):
        if layer.dropped or layer.is_input or not layer.outputs:
            continue
        if not any(v.is_used for v in layer.outputs) and not labels.isdisjoint(layer.outputs):
            layer.dropped = True
            labels.update(layer.inputs)
            notes.append(f"layer '{layer.name}' ({layer.type}) only prepares labels and is left out")
    return notes


def _origins(layers: list[Draft]) -> tuple[dict[Version, int], dict[Version, int]]:
    """Return for each value the inputs that it depends on, and the number of steps in which it is computed.

    The inputs are a bit set with one bit per input of the network.
    """
    origins: dict[Version, int] = {}
    steps: dict[Version, int] = {}
    inputs = 0
    for layer in layers:
        union = _union(origins, layer.inputs)
        for version in layer.outputs:
            origins[version] = 1 << inputs if layer.is_input else union
            inputs += layer.is_input
            steps[version] = 1 + max((steps[v] for v in layer.inputs), default=-1)
    return origins, steps


def _union(origins: dict[Version, int], versions: Iterable[Version]) -> int:
    """Return the union of the inputs that the values depend on, as a bit set."""
    bits = 0
    for version in versions:
        bits |= origins[version]
    return bits
