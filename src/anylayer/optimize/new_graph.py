"""A graph that is written operator by operator, and replaces an old one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.graph.ir import Graph, Value
from anylayer.graph.sized import sized_array


class NewGraph:
    """A graph under construction, `graph`, with the inputs, notes and names of an old graph.

    `values` maps values of the old graph to values of the new one.
    """

    def __init__(self, old: Graph) -> None:
        self.graph = Graph(old.prefix, old.scope)
        self.graph.notes = list(old.notes)
        self.graph.limit = old.limit
        self.graph.inputs = list(old.inputs)
        self.values: dict[Value, Value] = {v: v for v in old.inputs}

    def constant(self, array: Any) -> Value:
        """Return the value of a constant array that is never modified."""
        return self.graph.constant(array, trusted=True)

    def ints(self, values: Sequence[int]) -> Value:
        """Return a constant int64 list. Sizes may be symbolic."""
        return self.constant(sized_array(values, np.int64))
