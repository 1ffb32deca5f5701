"""Tests of the weights that a generated module has."""

from __future__ import annotations

import numpy as np

from anylayer.convert.parameters import stored_weights, with_weights
from anylayer.network import Network, Node


def test_weights_of_two_dtypes_in_the_same_bytes_are_two() -> None:
    weight = np.zeros(3, np.float32)
    nodes = [
        Node(str(i), "CONSTANT", [], [str(i)], blobs=[b]) for i, b in enumerate((weight, weight.view(np.int32)))
    ]
    network = Network("net", "tflite", {}, nodes, {})
    changed = with_weights(network, dict.fromkeys(stored_weights(network), np.ones(3, np.float32)))
    assert [node.blobs[0].dtype for node in changed.nodes] == [np.float32, np.int32]
    assert [node.blobs[0].tolist() for node in changed.nodes] == [[1, 1, 1], [0, 0, 0]]
