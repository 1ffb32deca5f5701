"""What the builders of targets share."""

from __future__ import annotations

import numpy as np
import pytest

from anylayer.graph import Graph
from anylayer.writers._target import Consumers, NotInTarget, present, require


def test_only_consumer_is_the_one_whose_replacement_changes_nothing_else() -> None:
    graph = Graph()
    x = graph.input("x", (2,), np.dtype(np.float32))
    (a,) = graph.emit("Relu", [x], [((2,), np.float32)])
    (b,) = graph.emit("Mul", [a, a], [((2,), np.float32)])
    (c,) = graph.emit("Neg", [b], [((2,), np.float32)])
    graph.outputs = [b]
    consumers = Consumers(graph.ops, graph.outputs)
    relu, product, negative = graph.ops
    assert consumers.only(x) is relu
    assert consumers.only(a) is None and consumers.of(a) == [product] and consumers.count(a) == 2
    assert consumers.only(b) is None and consumers.of(b) == [negative], "an output has readers outside the graph"
    assert b in consumers and c not in consumers


def test_refusals_state_the_reason() -> None:
    assert present(0) == 0
    with pytest.raises(NotInTarget, match="an absent input"):
        present(None)
    with pytest.raises(NotInTarget, match="a size"):
        require(False, "a size")
