"""A layer of a network, with the interface of cv2.dnn.Layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.errors import InputError, need, plural
from anylayer.network import Array, Network, Node
from anylayer.opencv.errors import converted
from anylayer.opencv.table import LayerEntry


class Layer:
    """A layer of a network: `name`, `type`, and `blobs`, its weights.

    Assigning to `blobs` replaces the weights.
    """

    preferableTarget = 0

    def __init__(self, network: Network, entry: LayerEntry, changed: Callable[[], None]) -> None:
        self._network, self._entry, self._changed = network, entry, changed
        self.name, self.type = entry.name, entry.type

    @property
    def blobs(self) -> tuple[Array, ...]:
        """Copies of the weights."""
        if self._entry.node is not None and not self._entry.node.blobs:
            return tuple(node.blobs[0].copy() for node in _constants(self._network, self._entry))
        return self._entry.blobs

    @blobs.setter
    def blobs(self, blobs: Sequence[Any]) -> None:
        for i, blob in enumerate(blobs):
            set_weight(self._network, self._entry, i, blob)
        self._changed()

    @converted
    def weight(self, index: int) -> Array:
        """Return one of the weights."""
        blobs = self.blobs
        need(
            0 <= index < len(blobs),
            f"layer '{self.name}' has {plural(len(blobs), 'weight')}, there is no {index}",
            InputError,
        )
        return blobs[index]

    def outputNameToIndex(self, outputName: str) -> int:
        """Return the index of an output: for the input layer that of the input, -1 where it has none of this name;
        for other layers 0, as in OpenCV."""
        if self._entry.node is not None or self._entry.number:
            return 0
        return self._entry.values.index(outputName) if outputName in self._entry.values else -1

    def __repr__(self) -> str:
        return f"<anylayer.opencv.Layer '{self.name}' ({self.type})>"


def set_weight(network: Network, entry: LayerEntry, index: int, blob: Array) -> None:
    """Replace a weight of a layer, or add the next one.

    A row or column stands for weights with one axis, except for the matrix of an InnerProduct.
    """
    array = np.asarray(blob)
    need(array.dtype.kind in "biuf", f"weights are an array of numbers, got {array.dtype}", InputError)
    node = entry.node
    if node is None:
        raise InputError(f"layer '{entry.name}' has no weights")
    constants = [] if node.blobs else _constants(network, entry)
    places = [(c.blobs, 0) for c in constants] or [(node.blobs, i) for i in range(len(node.blobs))]
    may_add = not constants
    rule = f"layer '{entry.name}' has {plural(len(places), 'weight')}"
    need(0 <= index < len(places) + may_add, rule, InputError)
    if index == len(places):
        new = np.array(array, np.float32, order="C")
        node.blobs.append(new.ravel() if new.ndim == 2 and 1 in new.shape and not entry.is_matrix(index) else new)
        return
    blobs, i = places[index]
    rule = f"the weight has {plural(blobs[i].size, 'value')}, got {array.size}"
    need(array.size == blobs[i].size, rule, InputError)
    dtype = blobs[i].dtype if constants else np.float32
    blobs[i] = np.array(array, dtype, order="C").reshape(blobs[i].shape)


def _constants(network: Network, entry: LayerEntry) -> list[Node]:
    """Return the nodes of the constants that a layer reads, in formats where weights are nodes."""
    inputs = entry.node.inputs if entry.node is not None else []
    constants = {
        node.outputs[0]: node
        for node in network.nodes
        if not node.inputs and node.blobs and len(node.outputs) == 1
    }
    return [constants[name] for name in inputs if name in constants]
